-- Give away half of what a bucket has, rounded up, to a bucket that has nothing. It is in
-- transit until take.lua has put it there; the ledger has it in between, for whoever looks.
--
-- KEYS[1]  the bucket that gives: a hash, see package admkey
-- ARGV[1]  the epoch under which the caller believes it to be open
-- ARGV[2]  the number of the other bucket
-- ARGV[3]  1 to give; 0 to write the ledger down again, as it is, and no more: whoever waits
--          for replicas on this connection then waits until they have it
--
-- Replies  {verdict, total, seq}
--            verdict  0 done, as far as there was something to give
--                     1 closed: not open under that epoch
--            total    all that it has given to the other one in this epoch
--          Nothing was done unless the verdict is 0, and only it is there then.
local voucher, to = KEYS[1], 'to:' .. ARGV[2]

local known = redis.call('HMGET', voucher, 'epoch', 'stock', 'seq', to)
if known[1] ~= ARGV[1] or not known[2] then
  return {1}
end
local stock = tonumber(known[2])
if stock <= 0 or ARGV[3] == '0' then
  if known[4] then
    redis.call('HSET', voucher, to, known[4])
  end
  return {0, tonumber(known[4] or 0), tonumber(known[3])}
end
local given = math.ceil(stock / 2)
redis.call('HINCRBY', voucher, 'stock', -given)
return {0, redis.call('HINCRBY', voucher, to, given), redis.call('HINCRBY', voucher, 'seq', 1)}
