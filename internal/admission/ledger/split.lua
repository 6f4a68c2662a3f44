-- Replace an entry that has several orders by entries of one order each, at the end of the stream.
-- They are delivered like new ones. An entry with one order stays.
--
-- KEYS[1]  the stream
-- KEYS[2]  the bucket: a hash, see the package ledger
-- KEYS[3]  a hash: entry -> who tried it alone, see attempt.lua
-- ARGV[1]  the group
-- ARGV[2]  the entry
--
-- Replies  how many entries there are instead
--          1 if the entry has one order, 0 if it is gone, because another consumer was faster.
--          Then nothing was done.
local stream, entry = KEYS[1], ARGV[2]

local found = redis.call('XRANGE', stream, entry, entry)[1]
if not found then
  redis.call('XACK', stream, ARGV[1], entry)
  return 0
end
local common, orders = {'t', string.match(entry, '^%d+')}, {}
for i = 1, #found[2], 2 do
  local name, value = found[2][i], found[2][i + 1]
  if name == 'o' or name == 'u' then
    return 1
  end
  if name == 'e' or name == 's' or name == 'p' then
    common[#common + 1] = name
    common[#common + 1] = value
  else
    orders[#orders + 1] = {name, value}
  end
end
if #orders == 0 then
  return 1
end
for _, order in ipairs(orders) do
  redis.call('XADD', stream, '*', 'o', order[2], 'u', order[1], unpack(common))
end
redis.call('XDEL', stream, entry)
redis.call('XACK', stream, ARGV[1], entry)
redis.call('HDEL', KEYS[3], entry)
if redis.call('HEXISTS', KEYS[2], 'extra') == 1 then
  redis.call('HINCRBY', KEYS[2], 'extra', 1 - #orders)
end
return #orders
