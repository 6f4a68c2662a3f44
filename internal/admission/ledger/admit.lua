-- Decide about a batch of orders of one bucket, in the order given. The script checks
-- everything before it writes anything. The same call again changes nothing more, and
-- gives the same answer for the orders that it accepted. If the server refuses the first
-- entry, nothing was done; if the script stops later, the bucket stays busy.
--
-- KEYS[1]  the bucket: a hash, see the package ledger
-- KEYS[2]  its users: a hash, user -> order
-- KEYS[3]  its accepted orders: a stream
-- ARGV[1]  the epoch under which the caller believes the bucket to be open
-- ARGV[2]  the greatest seq that the caller has seen in that epoch
-- ARGV[3]  the back that the caller has seen with it
-- ARGV[4]  the user of the last order that the caller saw accepted, or ''
-- ARGV[5]  that order, as it is in KEYS[2]
-- ARGV[6]  how many orders may be pending
-- ARGV[7]  when the call is too old to act, in ms of this server's clock
-- ARGV[8]  the traceparent of this call, for each entry; '' for none
-- ARGV[9]  how many orders an entry of KEYS[3] may have
-- ARGV[10…] user, order, user, order ...
--
-- An order is its id or, if its request has an idempotency key, the id, a colon and the key. A 0 precedes
-- an order that takes a unit again because its money came late: the sale's window and a pause do not concern it.
--
-- Replies  {verdict, now, seq, stock, back, outcomes, earlier}
--            verdict   0 decided
--                      1 closed: the bucket is not open under that epoch
--                      2 data lost: the caller has seen more than Redis has
--                      3 late: the call arrived after ARGV[7]
--                      4 torn: a script that changed the bucket stopped in its middle
--            now       in ms of this server's clock
--            outcomes  one letter for each pair:
--                        a  accepted
--                        r  repeated: this order was accepted before
--                        k  repeated: an order with the same key was accepted before
--                        o  the user has another order
--                        b  the sale has not begun
--                        e  the sale has ended
--                        p  the sale is paused
--                        s  sold out
--                        w  wait: too many orders are pending
--            earlier   the ids of the orders of all k, separated by spaces
--          With a verdict other than 0 nothing was done, and the reply is {verdict, now}.
local voucher, users, orders = KEYS[1], KEYS[2], KEYS[3]
local epoch, lastUser, lastOrder = ARGV[1], ARGV[4], ARGV[5]
local trace, perEntry = ARGV[8], tonumber(ARGV[9])

local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local known = redis.call('HMGET', voucher, 'epoch', 'seq', 'stock', 'back', 'begin', 'end', 'extra', 'busy', 'paused')
if known[1] ~= epoch or not known[3] then
  return {1, now}
end
if known[8] == '1' then
  return {4, now}
end
local seq, stock, back = tonumber(known[2]), tonumber(known[3]), tonumber(known[4])
local seenBack = tonumber(ARGV[3])
if seq < tonumber(ARGV[2]) or back < seenBack then
  return {2, now}
end
if now > tonumber(ARGV[7]) then
  return {3, now}
end

local asked = {lastUser}
for i = 10, #ARGV, 2 do
  asked[#asked + 1] = ARGV[i]
end
local held = redis.call('HMGET', users, unpack(asked))
if lastUser ~= '' and back == seenBack and held[1] ~= lastOrder then
  return {2, now}
end
local entries, extra = redis.call('XLEN', orders), 0
if entries > 0 then
  extra = tonumber(known[7] or 0)
end
local room = tonumber(ARGV[6]) - entries - extra

local refusal -- for users without an order
if now < tonumber(known[5]) then
  refusal = 'b'
elseif now >= tonumber(known[6]) then
  refusal = 'e'
elseif known[9] == '1' then
  refusal = 'p'
end

-- earlierUnderKey returns the id of the order that a user has, if it has the key of the given one.
local function earlierUnderKey(has, order)
  local key = string.match(order, ':.+$')
  if key and string.sub(has, -#key) == key then
    return string.sub(has, 1, -#key - 1)
  end
end

local outcomes, accepted, taken, repeated, earlier = {}, {}, {}, false, {}
for i = 2, #asked do
  local user, order = asked[i], ARGV[7 + 2 * i]
  local has = held[i] or taken[user]
  if has then
    local id = has ~= order and earlierUnderKey(has, order)
    outcomes[i - 1] = has == order and 'r' or id and 'k' or 'o'
    earlier[#earlier + 1] = id or nil
    repeated = repeated or outcomes[i - 1] ~= 'o'
  elseif refusal and string.byte(order) ~= 48 then
    outcomes[i - 1] = refusal
  elseif stock <= 0 then
    outcomes[i - 1] = 's'
  elseif room <= 0 then
    outcomes[i - 1] = 'w'
  else
    stock, room = stock - 1, room - 1
    taken[user] = order
    accepted[#accepted + 1] = user
    accepted[#accepted + 1] = order
    outcomes[i - 1] = 'a'
  end
end

if #accepted > 0 then
  redis.call('HSET', voucher, 'busy', 1)
  -- All orders of a call have the seq of its last one: Redis has all of them or none, and turning a
  -- number into text costs as much as a tenth of the script.
  seq = seq + #accepted / 2
  local call, last = redis.pcall, string.format('%d', seq)
  for i = 1, #accepted, 2 * perEntry do
    local to = math.min(i + 2 * perEntry - 1, #accepted)
    local alone = to == i + 1
    local added
    if alone and trace == '' then
      added = call('XADD', orders, '*', 'o', accepted[to], 'u', accepted[i], 'e', epoch, 's', last)
    elseif alone then
      added = call('XADD', orders, '*', 'o', accepted[to], 'u', accepted[i], 'e', epoch, 's', last, 'p', trace)
    elseif trace == '' then
      added = call('XADD', orders, '*', 'e', epoch, 's', last, unpack(accepted, i, to))
    else
      added = call('XADD', orders, '*', 'e', epoch, 's', last, 'p', trace, unpack(accepted, i, to))
    end
    if type(added) == 'table' then -- an error
      if i == 1 then
        redis.call('HSET', voucher, 'busy', 0)
      end
      return added
    end
    extra = extra + (to - i - 1) / 2
  end
  redis.call('HSET', users, unpack(accepted))
  redis.call('HSET', voucher, 'seq', seq, 'stock', stock, 'extra', extra, 'busy', 0) -- whole numbers are sent as such
elseif repeated then
  -- This changes nothing, but a WAIT on this connection then also waits until replicas have
  -- what another connection wrote about these orders.
  redis.call('HSET', voucher, 'seq', seq)
end
return {0, now, seq, stock, back, table.concat(outcomes), table.concat(earlier, ' ')}
