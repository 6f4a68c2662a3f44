-- Prolong the key on this node by its whole length, from now, if it still has the caller's
-- value. It never takes a free key: a renewal that runs after the release must not bring the
-- lock back.
--
-- KEYS[1]  the lock
-- ARGV[1]  the value that the attempt set
-- ARGV[2]  the TTL, in ms
--
-- Replies   1  extended
--           0  free: nobody holds the key on this node
--          -1  another holder has it
local value = redis.call('GET', KEYS[1])
if not value then
  return 0
end
if value ~= ARGV[1] then
  return -1
end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])
