-- Write an order again, unchanged, so that a WAIT on this connection waits until replicas have
-- the order, even if another connection wrote it first.
--
-- KEYS[1]  the bucket: a hash, see the package ledger
-- KEYS[2]  its users: a hash, user -> order
-- ARGV[1]  the user
-- ARGV[2]  the order, as it is in KEYS[2]
--
-- Replies  1 done
--          0 the user does not have that order; nothing was done
if redis.call('HGET', KEYS[2], ARGV[1]) ~= ARGV[2] then
  return 0
end
redis.call('HSET', KEYS[2], ARGV[1], ARGV[2])
return 1
