-- Let one lease run its whole length again, from now.
--
-- KEYS[1]  the lock (see acquire.lua)
-- ARGV[1]  the owner
-- ARGV[2]  the lease's field, lease:<id>
-- ARGV[3]  the lease given, in ms
--
-- Replies  1  renewed
--          0  nobody holds the lock: it ran out, or the key was deleted
--         -1  another owner holds it
--         -2  the owner holds it, but not by this lease
local held = redis.call('HMGET', KEYS[1], 'owner', ARGV[2])
if not held[1] then
  return 0
end
if held[1] ~= ARGV[1] then
  return -1
end
if not held[2] then
  return -2
end

local given = tonumber(ARGV[3])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('HSET', KEYS[1], ARGV[2], now + given)
if redis.call('PTTL', KEYS[1]) < given then
  redis.call('PEXPIRE', KEYS[1], given)
end
return 1
