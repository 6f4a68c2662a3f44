-- Close a bucket: it accepts nothing until it is opened under the next epoch. What was
-- accepted stays.
--
-- KEYS[1]  the bucket: a hash, see the package ledger
-- ARGV[1]  the closed epoch, odd
--
-- Replies  the epoch from now on: the given one, or a later one that is there already
local epoch = tonumber(redis.call('HGET', KEYS[1], 'epoch') or -1)
if epoch > tonumber(ARGV[1]) and epoch <= 4503599627370496 then -- see MaxNumber
  return epoch
end
redis.call('HSET', KEYS[1], 'epoch', ARGV[1])
return tonumber(ARGV[1])
