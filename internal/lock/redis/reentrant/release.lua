-- Give one lease back; the lock is free once its owner has no other.
--
-- KEYS[1]  the lock (see acquire.lua)
-- KEYS[2]  the channel on which a free lock is announced to those who wait
-- ARGV[1]  the owner
-- ARGV[2]  the lease's field, lease:<id>
--
-- Replies  1  given back
--          0  the lease is not there: it ran out, or the key was deleted
--         -1  another owner holds the lock; it is left alone
local held = redis.call('HMGET', KEYS[1], 'owner', ARGV[2], 'awaited')
local holder, deadline, awaited = held[1], held[2] and tonumber(held[2]), held[3]
if not holder then
  return 0
end
if holder ~= ARGV[1] then
  return -1
end
if not deadline then
  return 0
end

-- The fields are the owner, the mark of those who wait, and the leases.
if redis.call('HLEN', KEYS[1]) == (awaited and 3 or 2) then
  -- The only lease. The key would be gone if it had run out.
  redis.call('DEL', KEYS[1])
  if awaited then
    redis.call('PUBLISH', KEYS[2], 1)
  end
  return 1
end

-- Others of the same owner: the lock falls back to the lease among them that
-- ends last. What ran out unreleased counts for nothing.
redis.call('HDEL', KEYS[1], ARGV[2])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local latest = now
local fields = redis.call('HGETALL', KEYS[1])
for i = 1, #fields, 2 do
  if string.sub(fields[i], 1, 6) == 'lease:' then
    latest = math.max(latest, tonumber(fields[i + 1]))
  end
end
if latest > now then
  redis.call('PEXPIREAT', KEYS[1], latest)
else
  redis.call('DEL', KEYS[1])
  if awaited then
    redis.call('PUBLISH', KEYS[2], 1)
  end
end
return deadline > now and 1 or 0
