-- Set when a bucket sells, as a revision of its voucher says. An earlier revision that arrives
-- late changes nothing. A bucket that is closed keeps it for its opening: what was read before
-- must not open it.
--
-- KEYS[1]  the bucket: a hash, see the package ledger
-- ARGV[1]  the revision
-- ARGV[2]  begin and ARGV[3] end of the sale, in ms of this server's clock
-- ARGV[4]  1 if the sale is paused, otherwise 0
-- ARGV[5]  the generation of the pair of database and Redis
--
-- Replies  1 the bucket has that revision or a later one
--          0 there is no such bucket, so nothing is sold
--          An error if the bucket is of a later generation: this process has another database.
local known = redis.call('HMGET', KEYS[1], 'epoch', 'rev', 'gen')
if not known[1] then
  return 0
end
if tonumber(known[3] or 0) > tonumber(ARGV[5]) then
  return redis.error_reply('UNPAIRED the bucket is of generation ' .. known[3] .. ', the caller of ' .. ARGV[5])
end
if tonumber(known[2] or 0) < tonumber(ARGV[1]) then
  redis.call('HSET', KEYS[1], 'rev', ARGV[1], 'begin', ARGV[2], 'end', ARGV[3], 'paused', ARGV[4])
end
return 1
