-- Release one lease. With the owner's last lease the lock becomes free. It goes to the next
-- waiter of the same process, or else to the first waiter in the queue.
--
-- KEYS[1]  the lock (see acquire.lua)
-- KEYS[2]  the queue
-- KEYS[3]  the newest token
-- ARGV[1]  the owner
-- ARGV[2]  the lease id, lease:<id>
-- ARGV[3]  the owner of the next waiter in this process, or ''
-- ARGV[4]  its lease id
-- ARGV[5]  its TTL, in ms
-- ARGV[6]  1 to hand the lock to it even though other processes wait
-- ARGV[7]  how long a queue entry lasts unless it is refreshed, in ms
-- ARGV[8]  the next waiter's queue entry, or ''
--
-- Replies  1           released
--          2           released; the owner has other leases
--          {token}     released and handed to the next waiter, with this token
--          {token, 1}  the next waiter holds the lock already: through this same release,
--                      whose first reply was lost, or through another one
--          0           not found: the lease expired, or the key was deleted
--         -1           another owner holds the lock; it is left alone
local lock, queue, owner, lease_id = KEYS[1], KEYS[2], ARGV[1], ARGV[2]
local held = redis.call('HMGET', lock, 'owner', lease_id, 'token', ARGV[4])
if not held[1] then
  return 0
elseif ARGV[3] ~= '' and held[1] == ARGV[3] and held[4] then
  prolong(lock, ARGV[4], held[4], now() + ARGV[5])
  return {tonumber(held[3]), 1}
elseif held[1] ~= owner then
  return -1
elseif not held[2] then
  return 0
end

local ends, time = tonumber(held[2]), now()
redis.call('HDEL', lock, lease_id)
local last_end = last_lease_end(lock)
if last_end > time then
  -- The lock lasts until the last of the owner's other leases ends.
  expire_with(lock, last_end)
  return ends > time and 2 or 0
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
grant_next(lock, queue, KEYS[3], tonumber(ARGV[7]))
return ends > time and 1 or 0
