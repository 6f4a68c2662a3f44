-- Delete the lock if it still has the caller's value.
--
-- KEYS[1]  the lock
-- ARGV[1]  the value that the acquisition set
--
-- Replies   1  deleted
--           0  expired: nobody holds the lock
--          -1  lost: another holder has it
local value = redis.call('GET', KEYS[1])
if not value then
  return 0
end
if value ~= ARGV[1] then
  return -1
end
return redis.call('DEL', KEYS[1])
