-- Take back the stock of orders that were cancelled, expired or refunded, and let their users
-- order again. The same call again, or an earlier one that arrives late, changes nothing.
--
-- KEYS[1]  the bucket: a hash, see the package ledger
-- KEYS[2]  its users: a hash, user -> order
-- ARGV[1]  the epoch under which the database counted the returns
-- ARGV[2]  all that the database has counted for this bucket in that epoch
-- ARGV[3]  user, order, user, order ... as they are in KEYS[2]
--
-- Replies  {verdict, added, seq}
--            verdict  0 done
--                     1 closed: the bucket is not open under that epoch, or is busy
--            added    what was added to the stock
--          With verdict 1 nothing was done, and the reply is {1}.
local voucher, users = KEYS[1], KEYS[2]

local known = redis.call('HMGET', voucher, 'epoch', 'stock', 'seq', 'ret', 'back', 'busy')
if known[1] ~= ARGV[1] or not known[2] or known[6] == '1' then
  return {1}
end
local asked, gone = {}, {}
for i = 3, #ARGV, 2 do
  asked[#asked + 1] = ARGV[i]
end
if #asked > 0 then
  local held = redis.call('HMGET', users, unpack(asked))
  for i = 1, #asked do
    if held[i] == ARGV[2 + 2 * i] then -- otherwise the user has ordered again
      gone[#gone + 1] = asked[i]
    end
  end
end
local added = math.max(0, tonumber(ARGV[2]) - tonumber(known[4] or 0))
if added == 0 and #gone == 0 then
  return {0, 0, tonumber(known[3])}
end
-- The units and their total are written at once. A call that stops before it removes the users is repeated: it then adds
-- no units, and back counts these users again, which does no harm.
local seq, ret = known[3] + 1, added > 0 and ARGV[2] or known[4] or 0
redis.call('HSET', voucher, 'stock', known[2] + added, 'ret', ret, 'back', known[5] + #gone, 'seq', seq)
if #gone > 0 then
  redis.call('HDEL', users, unpack(gone))
end
return {0, added, seq}
