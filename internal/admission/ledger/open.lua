-- Open a bucket that was closed, with the users that were prepared and without transfers. What is
-- pending stays. The last command opens it: if the script stops before, the bucket stays closed.
--
-- KEYS[1]  the bucket: a hash, see the package ledger
-- KEYS[2]  its users: a hash, user -> order
-- KEYS[3]  the prepared users; missing where there are none
-- ARGV[1]  the epoch, even
-- ARGV[2]  the closed epoch before it
-- ARGV[3]  the seq to begin with, unless the bucket has a greater one
-- ARGV[4]  the stock to begin with
-- ARGV[5]  begin and ARGV[6] end of the sale, in ms of this server's clock
-- ARGV[7]  how many users were prepared
-- ARGV[8]  the generation of the pair of database and Redis
-- ARGV[9]  1 if the sale is paused, otherwise 0
-- ARGV[10] the revision of the voucher that has this window
--
-- Replies  1 opened
--          0 not opened: the bucket is not closed under that epoch any more, or was told of a
--            later revision meanwhile, or some of the prepared users are missing, because a
--            replica took over or the clock jumped
local voucher, users, fresh = KEYS[1], KEYS[2], KEYS[3]
local known = redis.call('HMGET', voucher, 'epoch', 'seq', 'extra', 'rev')
if known[1] ~= ARGV[2] or tonumber(known[4] or 0) > tonumber(ARGV[10]) or redis.call('HLEN', fresh) ~= tonumber(ARGV[7]) then
  return 0
end
local seq = ARGV[3]
if known[2] and tonumber(known[2]) > tonumber(seq) and tonumber(known[2]) <= 4503599627370496 then -- see MaxNumber
  seq = known[2]
end
redis.call('UNLINK', users) -- RENAME would free the old users in this thread
if redis.call('EXISTS', fresh) == 1 then
  redis.call('RENAME', fresh, users)
  redis.call('PERSIST', users)
end
redis.call('DEL', voucher) -- with its transfers and all else that belongs to earlier epochs
redis.call('HSET', voucher, 'epoch', ARGV[1], 'seq', seq, 'stock', ARGV[4], 'back', '0', 'begin', ARGV[5], 'end', ARGV[6], 'extra', known[3] or '0', 'gen', ARGV[8], 'paused', ARGV[9], 'rev', ARGV[10])
return 1
