-- Write the seq of a bucket again, unchanged, so that a WAIT on this connection waits until replicas
-- have everything that the server wrote before, by whichever connection.
--
-- KEYS[1]  the bucket: a hash, see the package ledger
--
-- Replies  1 done
--          0 Redis does not have the bucket; nothing was done
local seq = redis.call('HGET', KEYS[1], 'seq')
if not seq then
  return 0
end
redis.call('HSET', KEYS[1], 'seq', seq)
return 1
