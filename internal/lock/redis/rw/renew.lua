-- Prolong one lease by its whole length, from now.
--
-- KEYS[1]  the lock (see state.lua)
-- ARGV[1]  the owner
-- ARGV[2]  the lease id, lease:<id>
-- ARGV[3]  the TTL, in ms
--
-- Replies  1  renewed
--          0  nobody holds the lock: it expired or was deleted
--         -1  another owner writes
--         -2  others hold the lock, or the owner holds it with other leases
local lock, owner, lease_id = KEYS[1], ARGV[1], ARGV[2]
local read = 'read ' .. lease_id .. ' ' .. owner
local held = redis.call('HMGET', lock, 'owner', lease_id, read)
local field = held[3] and read or held[1] == owner and held[2] and lease_id
local s = state(lock)
if not field or redis.call('HEXISTS', lock, field) == 0 then
  if s.writers == 0 and s.readers == 0 then
    return 0
  end
  return s.writers > 0 and s.owner ~= owner and -1 or -2
end
redis.call('HSET', lock, field, s.time + ARGV[3])
expire_with(lock, state(lock).last_end)
return 1
