-- Lets a node's share of a lock run a whole lease from now, if it is still the
-- caller's. It never takes a free one: a renewal that is carried out after the
-- release must bring nothing back.
--
-- KEYS[1]  the lock
-- ARGV[1]  the value that the acquisition put there
-- ARGV[2]  the lease in ms
--
-- Replies   1  extended
--           0  gone: nobody has this node
--          -1  somebody else has it
local value = redis.call('GET', KEYS[1])
if not value then
  return 0
end
if value ~= ARGV[1] then
  return -1
end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])
