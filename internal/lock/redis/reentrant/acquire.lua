-- Take the lock for one lease, or say who holds it.
--
-- KEYS[1]  the lock: a hash with the fields
--            owner       who holds it
--            lease:<id>  when that lease ends, in ms of this server's clock
--            awaited     there if somebody waits for a message
-- ARGV[1]  the owner
-- ARGV[2]  the lease's field, lease:<id>
-- ARGV[3]  the lease given, in ms
-- ARGV[4]  1 to be woken by a message when the lock is refused, else 0
--
-- Replies  1            granted; also when this lease had it already, so that
--                       repeating the script after a lost reply changes nothing
--          {owner, ttl} refused: who holds it, and PTTL (-1: it has no expiry)
local holder = redis.call('HGET', KEYS[1], 'owner')
if holder and holder ~= ARGV[1] then
  if ARGV[4] == '1' then
    redis.call('HSETNX', KEYS[1], 'awaited', 1)
  end
  return {holder, redis.call('PTTL', KEYS[1])}
end

local given = tonumber(ARGV[3])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('HSET', KEYS[1], 'owner', ARGV[1], ARGV[2], now + given)

-- The key lives as long as the lease that ends last. A re-entry with a shorter
-- lease must not cut the first one, and no lease adds to another.
if not holder or redis.call('PTTL', KEYS[1]) < given then
  redis.call('PEXPIRE', KEYS[1], given)
end
return 1
