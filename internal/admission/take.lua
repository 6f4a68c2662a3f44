-- Take in what another bucket has given: all of it that has not come here yet. The same
-- call again, or an earlier one that comes late, changes nothing.
--
-- KEYS[1]  the bucket that takes: a hash, see package admkey
-- ARGV[1]  the epoch under which the caller believes it to be open
-- ARGV[2]  the number of the bucket that gave
-- ARGV[3]  all that it has given to this one in the epoch
--
-- Replies  {verdict, taken, seq}
--            verdict  0 done
--                     1 closed: not open under that epoch
--          Nothing was done unless the verdict is 0, and only it is there then.
local voucher, from = KEYS[1], 'from:' .. ARGV[2]

local known = redis.call('HMGET', voucher, 'epoch', 'stock', 'seq', from)
if known[1] ~= ARGV[1] or not known[2] then
  return {1}
end
local taken = tonumber(ARGV[3]) - tonumber(known[4] or 0)
if taken <= 0 then
  return {0, 0, tonumber(known[3])}
end
redis.call('HINCRBY', voucher, 'stock', taken)
redis.call('HSET', voucher, from, ARGV[3])
return {0, taken, redis.call('HINCRBY', voucher, 'seq', 1)}
