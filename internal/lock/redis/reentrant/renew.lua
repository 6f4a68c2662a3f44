-- Prolong one lease by its whole length, from now.
--
-- KEYS[1]  the lock (see acquire.lua)
-- ARGV[1]  the owner
-- ARGV[2]  the lease id, lease:<id>
-- ARGV[3]  the TTL, in ms
--
-- Replies  1  renewed
--          0  nobody holds the lock: it expired or was deleted
--         -1  another owner holds it
--         -2  the owner holds it, but not with this lease
local lock, owner, lease_id, ttl = KEYS[1], ARGV[1], ARGV[2], tonumber(ARGV[3])
local value = redis.pcall('GET', lock)
if not value then
  return 0
end
if type(value) == 'string' then
  if value == lease_id .. ' ' .. owner then
    return redis.call('PEXPIRE', lock, ttl)
  end
  local _, holder = string.match(value, '^(lease:%S+) (.*)$')
  return holder == owner and -2 or -1
end

local held = redis.call('HMGET', lock, 'owner', lease_id)
if held[1] ~= owner then
  return -1
end
if not held[2] then
  return -2
end
redis.call('HSET', lock, lease_id, now() + ttl)
expire_with(lock, last_lease_end(lock))
return 1
