-- Write an order again, unchanged, so that a WAIT on this connection waits until replicas have
-- the order, even if another connection wrote it first.
--
-- KEYS[1]  the bucket: a hash, see the package ledger
-- KEYS[2]  its users: a hash, user -> order
-- ARGV[1]  the user
-- ARGV[2]  the order, as it is in KEYS[2] or, if it has taken a unit again, without the 0 before it
--
-- Replies  1 done
--          0 the user does not have that order; nothing was done
local has = redis.call('HGET', KEYS[2], ARGV[1])
if has ~= ARGV[2] and has ~= '0' .. ARGV[2] then
  return 0
end
redis.call('HSET', KEYS[2], ARGV[1], has)
return 1
