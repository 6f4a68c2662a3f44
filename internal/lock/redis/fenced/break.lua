-- Free the lock whoever holds it, and tell who waits.
--
-- KEYS[1]  the lock (see acquire.lua)
-- KEYS[2]  the queue
--
-- Replies  1  it was held
--          0  nobody held it
local lock = KEYS[1]
if type(redis.pcall('GET', lock)) ~= 'table' then
  return 0
end
redis.call('DEL', lock)
offer(lock, KEYS[2])
return 1
