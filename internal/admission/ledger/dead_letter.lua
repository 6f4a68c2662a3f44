-- Move an entry to the dead letters and give back what was reserved for it. A call that stops may be repeated.
--
-- KEYS[1]  the stream
-- KEYS[2]  the bucket: a hash with stock, seq, back and busy, see the package ledger
-- KEYS[3]  its users: a hash, user -> order
-- KEYS[4]  the stream of dead letters
-- KEYS[5]  a hash: entry -> who tried it alone, see attempt.lua
-- ARGV[1]  the group
-- ARGV[2]  the entry
-- ARGV[3]  the user and
-- ARGV[4]  the order of the reservation, as it is in KEYS[3]; '' if there is nothing to give back
-- ARGV[5]  the reason
-- ARGV[6]  the reason in a sentence
-- ARGV[7]  the channel on which orders that are final are published
-- ARGV[8]  the generation of the pair of database and Redis
--
-- Replies  0  the entry is gone, another consumer was faster; nothing was done
--          1  moved
--          2  moved, and the reservation given back
--          An error if the bucket is of a later generation: this process has another database.
local stream, voucher, users, entry, user, order = KEYS[1], KEYS[2], KEYS[3], ARGV[2], ARGV[3], ARGV[4]

local generation = redis.call('HGET', voucher, 'gen') or '0'
if tonumber(generation) > tonumber(ARGV[8]) then
  return redis.error_reply('UNPAIRED the bucket is of generation ' .. generation .. ', the caller of ' .. ARGV[8])
end
local found = redis.call('XRANGE', stream, entry, entry)[1]
if not found then
  redis.call('XACK', stream, ARGV[1], entry)
  redis.call('HDEL', KEYS[5], entry)
  return 0
end
-- Without the bucket's stock, Redis is being rebuilt from the database, which knows of the rejection. So is a bucket
-- that is busy: an earlier call, perhaps for this entry, stopped in its middle.
local known = redis.call('HMGET', voucher, 'stock', 'back', 'seq', 'busy')
local reserved = order ~= '' and redis.call('HGET', users, user) == order and known[1] and known[4] ~= '1'

-- What the server may refuse is tried first, where it changes nothing.
redis.call('XDEL', stream, '0-0')
redis.call('XACK', stream, ARGV[1], '0-0')
redis.call('HDEL', KEYS[5], '')
if reserved then
  redis.call('HDEL', users, '')
  redis.call('HSET', voucher, 'busy', 1)
end

local last = redis.call('XREVRANGE', KEYS[4], '+', '-', 'COUNT', 1)[1]
local moved = false -- by a call that stopped
for i = 1, last and #last[2] or 0, 2 do
  moved = moved or last[2][i] == 'from' and last[2][i + 1] == entry
end
if not moved then
  local letter = found[2]
  for _, more in ipairs({'reason', ARGV[5], 'detail', ARGV[6], 'from', entry}) do
    letter[#letter + 1] = more
  end
  local added = redis.pcall('XADD', KEYS[4], '*', unpack(letter))
  if type(added) == 'table' then -- an error
    if reserved then
      redis.call('HSET', voucher, 'busy', 0)
    end
    return added
  end
end
if reserved then
  redis.call('HDEL', users, user)
  redis.call('HSET', voucher, 'stock', known[1] + 1, 'back', known[2] + 1, 'seq', known[3] + 1, 'busy', 0)
end
redis.call('XDEL', stream, entry)
redis.call('XACK', stream, ARGV[1], entry)
redis.call('HDEL', KEYS[5], entry)
if order ~= '' then
  redis.pcall('PUBLISH', ARGV[7], string.match(order, '^%d+')) -- without its key; without it buyers wait for longer
end
return reserved and 2 or 1
