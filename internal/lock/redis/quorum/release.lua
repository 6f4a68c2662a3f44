-- Delete the key on this node if it still has the caller's value.
--
-- KEYS[1]  the lock
-- ARGV[1]  the value that the attempt set
--
-- Replies   1  deleted
--           0  free: nobody holds the key on this node
--          -1  another holder has it
local value = redis.call('GET', KEYS[1])
if not value then
  return 0
end
if value ~= ARGV[1] then
  return -1
end
return redis.call('DEL', KEYS[1])
