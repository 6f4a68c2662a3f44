-- Let one lease run its whole length again, from now.
--
-- KEYS[1]  the lock (see acquire.lua)
-- ARGV[1]  the owner
-- ARGV[2]  the lease, lease:<id>
-- ARGV[3]  the lease given, in ms
--
-- Replies  1  renewed
--          0  nobody holds the lock: it ran out, or the key was deleted
--         -1  another owner holds it
--         -2  the owner holds it, but not by this lease
local lock, owner, lease, given = KEYS[1], ARGV[1], ARGV[2], tonumber(ARGV[3])
local held = redis.call('HMGET', lock, 'owner', lease)
if not held[1] then
  return 0
elseif held[1] ~= owner then
  return -1
elseif not held[2] then
  return -2
end
redis.call('HSET', lock, lease, now() + given)
lasts(lock, farthest(lock))
return 1
