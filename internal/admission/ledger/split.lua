-- Replace an entry that has several orders by entries of one order each, at the end of the stream.
-- They are delivered like new ones. An entry with one order stays. If the server refuses a command, nothing was done.
--
-- KEYS[1]  the stream
-- KEYS[2]  the bucket: a hash, see the package ledger
-- KEYS[3]  a hash: entry -> who tried it alone, see attempt.lua
-- ARGV[1]  the group
-- ARGV[2]  the entry
-- ARGV[3]  the generation of the pair of database and Redis
--
-- Replies  how many entries there are instead
--          1 if the entry has one order, 0 if it is gone, because another consumer was faster.
--          Then nothing was done.
--          An error if the bucket is of a later generation: this process has another database.
local stream, entry = KEYS[1], ARGV[2]

local bucket = redis.call('HMGET', KEYS[2], 'gen', 'extra')
if tonumber(bucket[1] or 0) > tonumber(ARGV[3]) then
  return redis.error_reply('UNPAIRED the bucket is of generation ' .. bucket[1] .. ', the caller of ' .. ARGV[3])
end
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
local extra = bucket[2]
-- What the server may refuse is tried first, where it changes nothing.
redis.call('XDEL', stream, '0-0')
redis.call('XACK', stream, ARGV[1], '0-0')
redis.call('HDEL', KEYS[3], '')
local added, failed = {}, nil
for _, order in ipairs(orders) do
  local id = redis.pcall('XADD', stream, '*', 'o', order[2], 'u', order[1], unpack(common))
  if type(id) == 'table' then
    failed = id
    break
  end
  added[#added + 1] = id
end
if not failed then
  local removed = redis.pcall('XDEL', stream, entry)
  failed = type(removed) == 'table' and removed
end
if failed then
  if #added > 0 then
    redis.call('XDEL', stream, unpack(added))
  end
  return failed
end
if extra then -- too high until the stream is empty if the script stops here, never too low
  redis.call('HSET', KEYS[2], 'extra', math.max(0, extra + 1 - #orders))
end
redis.call('XACK', stream, ARGV[1], entry)
redis.call('HDEL', KEYS[3], entry)
return #orders
