-- Close a bucket: it accepts nothing until it is opened under the next epoch. What was
-- accepted stays.
--
-- KEYS[1]  the bucket: a hash, see the package ledger
-- ARGV[1]  the closed epoch, odd
-- ARGV[2]  the generation of the pair of database and Redis
--
-- Replies  the epoch from now on: the given one, or a later one that is there already
--          An error if the bucket is of a later generation: this process has another database.
local known = redis.call('HMGET', KEYS[1], 'epoch', 'gen')
if tonumber(known[2] or 0) > tonumber(ARGV[2]) then
  return redis.error_reply('UNPAIRED the bucket is of generation ' .. known[2] .. ', the caller of ' .. ARGV[2])
end
local epoch = tonumber(known[1] or -1)
if epoch > tonumber(ARGV[1]) and epoch <= 4503599627370496 then -- see MaxNumber
  return epoch
end
if epoch ~= tonumber(ARGV[1]) then -- the revision of an earlier epoch says nothing: the database may have older data
  redis.call('HSET', KEYS[1], 'rev', 0)
end
redis.call('HSET', KEYS[1], 'epoch', ARGV[1], 'gen', ARGV[2])
return tonumber(ARGV[1])
