-- Write an order down once more, as it is. Nothing changes by it; but whoever waits for
-- replicas on this connection then waits until they have the order too, which another
-- connection may have written.
--
-- KEYS[1]  the voucher: a hash, see package admkey
-- KEYS[2]  its users: a hash, user -> order
-- ARGV[1]  the user
-- ARGV[2]  the order
--
-- Replies  1 done
--          0 not: the user does not have that order
if redis.call('HGET', KEYS[2], ARGV[1]) ~= ARGV[2] then
  return 0
end
redis.call('HSET', KEYS[2], ARGV[1], ARGV[2])
return 1
