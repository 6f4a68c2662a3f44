-- Release one lease. With the owner's last lease the lock becomes free, and it is the first
-- waiter's turn: it is the holder at once if the caller names it, else it is notified.
--
-- KEYS[1]  the lock (see acquire.lua)
-- KEYS[2]  the queue
-- KEYS[3]  the deadlines
-- ARGV[1]  the owner
-- ARGV[2]  the lease id, lease:<id>
-- ARGV[3]  the owner of the next waiter in this process, or ''
-- ARGV[4]  its lease id
-- ARGV[5]  its TTL, in ms
-- ARGV[6]  not used
-- ARGV[7]  how long a queue entry lasts unless it is refreshed, in ms
--
-- Replies  1       released
--          2       released; the owner has other leases
--          {0}     released and handed to the next waiter
--          {0, 1}  the next waiter holds the lock already: through this same release, whose
--                  first reply was lost, or because its turn had come
--          0       not found: the lease expired, or the key was deleted
--         -1       another owner holds the lock; it is left alone
local lock, queue, deadlines, owner, lease_id = KEYS[1], KEYS[2], KEYS[3], ARGV[1], ARGV[2]
local held = redis.call('HMGET', lock, 'owner', lease_id, ARGV[4])
if not held[1] then
  return 0
elseif ARGV[3] ~= '' and held[1] == ARGV[3] and held[3] then
  prolong(lock, ARGV[4], held[3], now() + ARGV[5])
  return {0, 1}
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
local first = head(queue, deadlines, tonumber(ARGV[7]))
if first then
  local _, first_lease_id = parse_entry(lock, first)
  if first_lease_id == ARGV[4] then
    redis.call('HSET', lock, 'owner', ARGV[3], ARGV[4], time + ARGV[5])
    redis.call('PEXPIRE', lock, ARGV[5])
    remove(queue, deadlines, first)
    return {0}
  end
  notify(lock, first)
end
return ends > time and 1 or 0
