-- Take the lock for one lease if it is the caller's turn, or say who holds it and
-- keep the caller's place in the queue.
--
-- KEYS[1]  the lock: a hash with the fields
--            owner       who holds it
--            lease:<id>  when that lease ends, in ms of this server's clock
-- KEYS[2]  the queue: places by their tickets (see queue.lua)
-- KEYS[3]  the places by when they end, and '' by when they were last looked after
-- ARGV[1]  the owner
-- ARGV[2]  the lease, lease:<id>
-- ARGV[3]  the lease given, in ms
-- ARGV[4]  the caller's place if it waits, else ''
-- ARGV[5]  the ticket it has, or 0
-- ARGV[6]  how long a place lasts unattended, in ms
--
-- Replies  0                    granted; also when this lease had it already, so
--                               that repeating the script after a lost reply
--                               changes nothing
--          {owner, ttl, ticket} refused: who holds it ('' where it is another's
--                               turn), for how long, and the place in the queue
local lock, queue, places = KEYS[1], KEYS[2], KEYS[3]
local owner, lease, given, member, place = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4], tonumber(ARGV[6])

local held = redis.call('HMGET', lock, 'owner', lease)
local holder = held[1]
local first = head(queue, places, place)
if holder == owner or not holder and (not first or first == member) then
  redis.call('HSET', lock, 'owner', owner)
  lengthened(lock, lease, held[2], now() + given)
  if member ~= '' then
    out(queue, places, member)
  end
  return 0
end

local ttl
if holder then
  ttl = redis.call('PTTL', lock)
else
  -- Free, and another's turn: it may have been told before it could hear.
  tell(lock, first)
  ttl = redis.call('ZSCORE', places, first) - now()
end
local at = queued(queue, member, ARGV[5], place)
if member ~= '' then
  redis.call('ZADD', places, now() + place, member, now(), '')
  kept(queue, places, place)
end
return {holder or '', ttl, at}
