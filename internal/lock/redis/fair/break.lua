-- Free the lock whoever holds it, and tell who is next.
--
-- KEYS[1]  the lock (see acquire.lua)
-- KEYS[2]  the queue
-- KEYS[3]  the places
-- ARGV[1]  how long a place in the queue lasts unattended, in ms
--
-- Replies  1  it was held
--          0  nobody held it
local lock = KEYS[1]
if redis.call('DEL', lock) == 0 then
  return 0
end
local first = head(KEYS[2], KEYS[3], tonumber(ARGV[1]))
if first then
  tell(lock, first)
end
return 1
