-- Add to a bucket what another bucket has given to it and what has not arrived yet. The same
-- call again, or an earlier one that arrives late, changes nothing.
--
-- KEYS[1]  the bucket that takes: a hash, see the package ledger
-- ARGV[1]  the epoch under which the caller believes the bucket to be open
-- ARGV[2]  the number of the bucket that gave
-- ARGV[3]  all that it has given to this one in the epoch
--
-- Replies  {verdict, taken, seq}
--            verdict  0 done
--                     1 closed: the bucket is not open under that epoch, or is busy
--          With verdict 1 nothing was done, and the reply is {1}.
local voucher, from = KEYS[1], 'from:' .. ARGV[2]

local known = redis.call('HMGET', voucher, 'epoch', 'stock', 'seq', from, 'busy')
if known[1] ~= ARGV[1] or not known[2] or known[5] == '1' then
  return {1}
end
local taken = tonumber(ARGV[3]) - tonumber(known[4] or 0)
if taken <= 0 then
  return {0, 0, tonumber(known[3])}
end
local seq = known[3] + 1
redis.call('HSET', voucher, 'stock', known[2] + taken, from, ARGV[3], 'seq', seq) -- all of it or nothing
return {0, taken, seq}
