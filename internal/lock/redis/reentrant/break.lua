-- Free the lock whoever holds it, and tell who waits.
--
-- KEYS[1]  the lock (see acquire.lua)
-- KEYS[2]  the queue
--
-- Replies  1  it was held
--          0  nobody held it
local lock = KEYS[1]
local value = redis.pcall('GET', lock)
if not value or (type(value) == 'string' and string.sub(value, 1, 4) == 'for:') then
  return 0
end
redis.call('DEL', lock)
offer(lock, KEYS[2])
return 1
