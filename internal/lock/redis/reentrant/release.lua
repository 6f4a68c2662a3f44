-- Release one lease. With the owner's last lease the lock becomes free. It goes to the next
-- waiter of the same process, or else to the first waiter in the queue.
--
-- KEYS[1]  the lock (see acquire.lua)
-- KEYS[2]  the queue
-- ARGV[1]  the owner
-- ARGV[2]  the lease id, lease:<id>
-- ARGV[3]  the owner of the next waiter in this process, or ''
-- ARGV[4]  its lease id
-- ARGV[5]  its TTL, in ms
-- ARGV[6]  1 to hand the lock to it even though other processes wait
-- ARGV[7]  how long a queue entry lasts unless it is refreshed, in ms
-- ARGV[8]  the next waiter's queue entry, or ''
--
-- Replies  1       released
--          2       released; the owner has other leases
--          {0}     released and handed to the next waiter
--          {0, 1}  the next waiter holds the lock already: through this same release, whose
--                  first reply was lost, or through another one
--          0       not found: the lease expired, or the key was deleted
--         -1       another owner holds the lock; it is left alone
local lock, queue, owner, lease_id = KEYS[1], KEYS[2], ARGV[1], ARGV[2]
local next_value = ARGV[4] .. ' ' .. ARGV[3]

local function free()
  if ARGV[3] ~= '' and (ARGV[6] == '1' or redis.call('EXISTS', queue) == 0) then
    redis.call('SET', lock, next_value, 'PX', ARGV[5])
    if ARGV[8] ~= '' then
      redis.call('LREM', queue, 1, ARGV[8])
    end
    return {0}
  end
  if not grant_next(lock, queue, tonumber(ARGV[7])) then
    redis.call('DEL', lock)
  end
  return 1
end

local value = redis.pcall('GET', lock)
if type(value) == 'string' then
  if value == lease_id .. ' ' .. owner then
    return free()
  elseif ARGV[3] ~= '' and value == next_value then
    if redis.call('PTTL', lock) < tonumber(ARGV[5]) then
      redis.call('PEXPIRE', lock, ARGV[5])
    end
    return {0, 1}
  end
  local _, holder = string.match(value, '^(lease:%S+) (.*)$')
  return holder == owner and 0 or -1
end
if not value then
  return 0
end

local held = redis.call('HMGET', lock, 'owner', lease_id)
local holder, ends = held[1], held[2] and tonumber(held[2])
if holder ~= owner then
  return -1
end
if not ends then
  return 0
end
-- The lock lasts until the last of the owner's other leases ends. Leases that expired
-- without a release do not count.
redis.call('HDEL', lock, lease_id)
local time, last_end = now(), last_lease_end(lock)
if last_end > time then
  expire_with(lock, last_end)
  return ends > time and 2 or 0
end
local reply = free()
if ends <= time and reply == 1 then
  return 0
end
return reply
