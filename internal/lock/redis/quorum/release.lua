-- Deletes a node's share of a lock if it is still the caller's.
--
-- KEYS[1]  the lock
-- ARGV[1]  the value that the acquisition put there
--
-- Replies   1  deleted
--           0  gone: nobody has this node
--          -1  somebody else has it
local value = redis.call('GET', KEYS[1])
if not value then
  return 0
end
if value ~= ARGV[1] then
  return -1
end
return redis.call('DEL', KEYS[1])
