-- Give one lease back. The lock is free once its owner has no other, and goes to
-- the next waiter of the same process, or to who waits longest in the queue.
--
-- KEYS[1]  the lock (see acquire.lua)
-- KEYS[2]  the queue
-- KEYS[3]  the newest token
-- ARGV[1]  the owner
-- ARGV[2]  the lease, lease:<id>
-- ARGV[3]  the owner who is next in this process, or ''
-- ARGV[4]  its lease
-- ARGV[5]  the lease to be given to it, in ms
-- ARGV[6]  1 to hand the lock over even though other processes wait
-- ARGV[7]  how long a place in the queue lasts unattended, in ms
-- ARGV[8]  the place in the queue that the next one has, or ''
--
-- Replies  1        given back
--          2        given back; the owner has other leases
--          {token}  given back, and handed over with this token
--          {token, 1} the next one has it already: by this very release, whose
--                   first reply was lost, or because it was passed on to it
--          0        the lease is not there: it ran out, or the key was deleted
--         -1        another owner holds the lock; it is left alone
local lock, queue, owner, lease = KEYS[1], KEYS[2], ARGV[1], ARGV[2]
local held = redis.call('HMGET', lock, 'owner', lease, 'token', ARGV[4])
if not held[1] then
  return 0
elseif ARGV[3] ~= '' and held[1] == ARGV[3] and held[4] then
  lengthened(lock, ARGV[4], held[4], now() + ARGV[5])
  return {tonumber(held[3]), 1}
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
if ARGV[3] ~= '' and (ARGV[6] == '1' or redis.call('EXISTS', queue) == 0) then
  local token = next_token(KEYS[3])
  redis.call('HSET', lock, 'owner', ARGV[3], 'token', token, ARGV[4], time + ARGV[5])
  redis.call('PEXPIRE', lock, ARGV[5])
  if ARGV[8] ~= '' then
    redis.call('ZREM', queue, ARGV[8])
  end
  return {tonumber(token)}
end
pass(lock, queue, KEYS[3], tonumber(ARGV[7]))
return deadline > time and 1 or 0
