-- Move an entry to the dead letters and give back what was reserved for it.
--
-- KEYS[1]  the stream
-- KEYS[2]  the bucket: a hash with stock, seq and back, see the package ledger
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
--
-- Replies  0  the entry is gone, another consumer was faster; nothing was done
--          1  moved
--          2  moved, and the reservation given back
local stream, voucher, users, entry, user, order = KEYS[1], KEYS[2], KEYS[3], ARGV[2], ARGV[3], ARGV[4]

local found = redis.call('XRANGE', stream, entry, entry)[1]
if not found then
  redis.call('XACK', stream, ARGV[1], entry)
  redis.call('HDEL', KEYS[5], entry)
  return 0
end
-- Without the bucket's stock, Redis is being rebuilt from the database, which knows
-- of the rejection.
local reserved = order ~= '' and redis.call('HGET', users, user) == order and redis.call('HEXISTS', voucher, 'stock') == 1

local letter = found[2]
for _, more in ipairs({'reason', ARGV[5], 'detail', ARGV[6], 'from', entry}) do
  letter[#letter + 1] = more
end
redis.call('XADD', KEYS[4], '*', unpack(letter))
if reserved then
  redis.call('HDEL', users, user)
  redis.call('HINCRBY', voucher, 'stock', 1)
  redis.call('HINCRBY', voucher, 'back', 1)
  redis.call('HINCRBY', voucher, 'seq', 1)
end
redis.call('XDEL', stream, entry)
redis.call('XACK', stream, ARGV[1], entry)
redis.call('HDEL', KEYS[5], entry)
if order ~= '' then
  redis.call('PUBLISH', ARGV[7], string.match(order, '^%d+')) -- without its key
end
return reserved and 2 or 1
