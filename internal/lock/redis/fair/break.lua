-- Free the lock, no matter who holds it, and notify the first waiter.
--
-- KEYS[1]  the lock (see acquire.lua)
-- KEYS[2]  the queue
-- KEYS[3]  the deadlines
-- ARGV[1]  how long a queue entry lasts unless it is refreshed, in ms
--
-- Replies  1  it was held
--          0  it was free
local lock = KEYS[1]
if redis.call('DEL', lock) == 0 then
  return 0
end
local first = head(KEYS[2], KEYS[3], tonumber(ARGV[1]))
if first then
  notify(lock, first)
end
return 1
