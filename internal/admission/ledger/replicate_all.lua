-- Write the seq of a bucket again, unchanged, so that a WAIT on this connection waits until replicas have
-- everything that the server wrote before, by whichever connection. A server that does not have the entries that
-- were read is not the one that they were read from: a replica was promoted that lacks them.
--
-- KEYS     bucket, stream, bucket, stream …, all on this server: hashes, see the package ledger, and their accepted orders
-- ARGV     an entry of each stream
--
-- Replies  for each stream 1 if it has the entry, 0 if not
local has, written = {}, false
for i = 1, #ARGV do
  has[i] = #redis.call('XRANGE', KEYS[2 * i], ARGV[i], ARGV[i])
  local seq = has[i] == 1 and not written and redis.call('HGET', KEYS[2 * i - 1], 'seq')
  if seq then
    redis.call('HSET', KEYS[2 * i - 1], 'seq', seq)
    written = true
  end
end
return has
