-- Give one lease back. The lock is free once its owner has no other, and goes to
-- the next waiter of the same process, or to who waits longest in the queue.
--
-- KEYS[1]  the lock (see acquire.lua)
-- KEYS[2]  the queue
-- ARGV[1]  the owner
-- ARGV[2]  the lease, lease:<id>
-- ARGV[3]  the owner who is next in this process, or ''
-- ARGV[4]  its lease
-- ARGV[5]  the lease to be given to it, in ms
-- ARGV[6]  1 to hand the lock over even though other processes wait
-- ARGV[7]  how long a place in the queue lasts unattended, in ms
-- ARGV[8]  the place in the queue that the next one has, or ''
--
-- Replies  1   given back
--          2   given back; the owner has other leases
--          {0} given back, and handed over
--          {0, 1} the next one has it already: by this very release, whose first
--              reply was lost, or because it was passed on to it
--          0   the lease is not there: it ran out, or the key was deleted
--         -1   another owner holds the lock; it is left alone
local lock, queue, owner, lease = KEYS[1], KEYS[2], ARGV[1], ARGV[2]
local successor = ARGV[4] .. ' ' .. ARGV[3]

local function free()
  if ARGV[3] ~= '' and (ARGV[6] == '1' or redis.call('EXISTS', queue) == 0) then
    redis.call('SET', lock, successor, 'PX', ARGV[5])
    if ARGV[8] ~= '' then
      redis.call('LREM', queue, 1, ARGV[8])
    end
    return {0}
  end
  if not pass(lock, queue, tonumber(ARGV[7])) then
    redis.call('DEL', lock)
  end
  return 1
end

local value = redis.pcall('GET', lock)
if type(value) == 'string' then
  if value == lease .. ' ' .. owner then
    return free()
  elseif ARGV[3] ~= '' and value == successor then
    if redis.call('PTTL', lock) < tonumber(ARGV[5]) then
      redis.call('PEXPIRE', lock, ARGV[5])
    end
    return {0, 1}
  end
  local held, holder = string.match(value, '^(lease:%S+) (.*)$')
  return holder == owner and 0 or -1
end
if not value then
  return 0
end

local held = redis.call('HMGET', lock, 'owner', lease)
local holder, deadline = held[1], held[2] and tonumber(held[2])
if holder ~= owner then
  return -1
end
if not deadline then
  return 0
end
-- The lock falls back to the lease that ends last among the others. What ran out
-- unreleased counts for nothing.
redis.call('HDEL', lock, lease)
local time, latest = now(), farthest(lock)
if latest > time then
  lasts(lock, latest)
  return deadline > time and 2 or 0
end
local reply = free()
if deadline <= time and reply == 1 then
  return 0
end
return reply
