-- Give half of the stock of a bucket, rounded up, to a bucket that has none. The stock is in
-- transit until take.lua has added it to the other bucket.
--
-- KEYS[1]  the bucket that gives: a hash, see the package ledger
-- ARGV[1]  the epoch under which the caller believes the bucket to be open
-- ARGV[2]  the number of the other bucket
-- ARGV[3]  1 to give; 0 to write the total again, unchanged, so that a WAIT on this
--          connection waits until replicas have it
--
-- Replies  {verdict, total, seq}
--            verdict  0 done, as far as there was something to give
--                     1 closed: the bucket is not open under that epoch, or is busy
--            total    all that the bucket has given to the other one in this epoch
--          With verdict 1 nothing was done, and the reply is {1}.
local voucher, to = KEYS[1], 'to:' .. ARGV[2]

local known = redis.call('HMGET', voucher, 'epoch', 'stock', 'seq', to, 'busy')
if known[1] ~= ARGV[1] or not known[2] or known[5] == '1' then
  return {1}
end
local stock, seq, total = tonumber(known[2]), tonumber(known[3]), tonumber(known[4] or 0)
if stock <= 0 or ARGV[3] == '0' then
  if known[4] then
    redis.call('HSET', voucher, to, known[4])
  end
  return {0, total, seq}
end
local given = math.ceil(stock / 2)
redis.call('HSET', voucher, 'stock', stock - given, to, total + given, 'seq', seq + 1) -- all of it or nothing
return {0, total + given, seq + 1}
