-- Free the lock whoever holds it, and pass it on to who waits.
--
-- KEYS[1]  the lock (see acquire.lua)
-- KEYS[2]  the queue
-- KEYS[3]  the newest token
-- ARGV[1]  how long a place in the queue lasts unattended, in ms
--
-- Replies  1  it was held
--          0  nobody held it
local held = redis.call('DEL', KEYS[1])
if held == 1 then
  pass(KEYS[1], KEYS[2], KEYS[3], tonumber(ARGV[1]))
end
return held
