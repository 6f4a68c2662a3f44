-- Let one lease run its whole length again, from now.
--
-- KEYS[1]  the lock (see state.lua)
-- ARGV[1]  the owner
-- ARGV[2]  the lease, lease:<id>
-- ARGV[3]  the lease given, in ms
--
-- Replies  1  renewed
--          0  nobody holds the lock: it ran out, or the key was deleted
--         -1  another owner writes
--         -2  others hold the lock, or the owner does by other leases
local lock, owner, lease = KEYS[1], ARGV[1], ARGV[2]
local read = 'read ' .. lease .. ' ' .. owner
local held = redis.call('HMGET', lock, 'owner', lease, read)
local field = held[3] and read or held[1] == owner and held[2] and lease
local s = state(lock)
if not field or redis.call('HEXISTS', lock, field) == 0 then
  if s.writers == 0 and s.readers == 0 then
    return 0
  end
  return s.writers > 0 and s.owner ~= owner and -1 or -2
end
redis.call('HSET', lock, field, s.time + ARGV[3])
lasts(lock, state(lock).latest)
return 1
