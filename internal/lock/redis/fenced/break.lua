-- Free the lock, no matter who holds it, and grant it to the next waiter.
--
-- KEYS[1]  the lock (see acquire.lua)
-- KEYS[2]  the queue
-- KEYS[3]  the newest token
-- ARGV[1]  how long a queue entry lasts unless it is refreshed, in ms
--
-- Replies  1  it was held
--          0  it was free
local held = redis.call('DEL', KEYS[1])
if held == 1 then
  grant_next(KEYS[1], KEYS[2], KEYS[3], tonumber(ARGV[1]))
end
return held
