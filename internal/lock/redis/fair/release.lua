-- Give one lease back. Once its owner has no other, the lock goes to the first in
-- the queue: handed over where that is the one the caller names, else told.
--
-- KEYS[1]  the lock (see acquire.lua)
-- KEYS[2]  the queue
-- KEYS[3]  the places
-- ARGV[1]  the owner
-- ARGV[2]  the lease, lease:<id>
-- ARGV[3]  the owner who is next in this process, or ''
-- ARGV[4]  its lease
-- ARGV[5]  the lease to be given to it, in ms
-- ARGV[6]  -
-- ARGV[7]  how long a place in the queue lasts unattended, in ms
--
-- Replies  1   given back
--          2   given back; the owner has other leases
--          {0} given back, and handed over
--          {0, 1} the next one has it already: by this very release, whose first
--              reply was lost, or because its turn had come
--          0   the lease is not there: it ran out, or the key was deleted
--         -1   another owner holds the lock; it is left alone
local lock, queue, places, owner, lease = KEYS[1], KEYS[2], KEYS[3], ARGV[1], ARGV[2]
local held = redis.call('HMGET', lock, 'owner', lease, ARGV[4])
if not held[1] then
  return 0
elseif ARGV[3] ~= '' and held[1] == ARGV[3] and held[3] then
  lengthened(lock, ARGV[4], held[3], now() + ARGV[5])
  return {0, 1}
elseif held[1] ~= owner then
  return -1
elseif not held[2] then
  return 0
end

local deadline, time = tonumber(held[2]), now()
redis.call('HDEL', lock, lease)
local latest = farthest(lock)
if latest > time then
  -- Falls back to the lease that ends last among the others.
  lasts(lock, latest)
  return deadline > time and 2 or 0
end
redis.call('DEL', lock)
local first = head(queue, places, tonumber(ARGV[7]))
if first then
  local _, next_lease = parts(lock, first)
  if next_lease == ARGV[4] then
    redis.call('HSET', lock, 'owner', ARGV[3], ARGV[4], time + ARGV[5])
    redis.call('PEXPIRE', lock, ARGV[5])
    out(queue, places, first)
    return {0}
  end
  tell(lock, first)
end
return deadline > time and 1 or 0
