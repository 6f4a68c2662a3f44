-- Increments the counter of a day.
--
-- KEYS[1]  the counter
-- ARGV[1]  how long the counter is kept after its first count, in ms
--
-- Replies  the count, from 1

local count = redis.call('INCR', KEYS[1])
if count == 1 then
  redis.call('PEXPIRE', KEYS[1], ARGV[1])
end
return count
