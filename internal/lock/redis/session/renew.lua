-- Prolong one lease by its whole length, from now. This is the renewal of every lock that
-- is a hash with the fields of package fair; a protocol may have one of its own.
--
-- KEYS[1]  the lock: a hash with the fields
--            owner       the holder
--            lease:<id>  when that lease ends, in ms of this server's clock
-- ARGV[1]  the owner
-- ARGV[2]  the lease id, lease:<id>
-- ARGV[3]  the TTL, in ms
--
-- Replies  1  renewed
--          0  nobody holds the lock: it expired or was deleted
--         -1  another owner holds it
--         -2  the owner holds it, but not with this lease
local lock, owner, lease_id, ttl = KEYS[1], ARGV[1], ARGV[2], tonumber(ARGV[3])
local held = redis.call('HMGET', lock, 'owner', lease_id)
if not held[1] then
  return 0
elseif held[1] ~= owner then
  return -1
elseif not held[2] then
  return -2
end
redis.call('HSET', lock, lease_id, now() + ttl)
expire_with(lock, last_lease_end(lock))
return 1
