-- Take the lock for a reader, or say who is in the way and wait to be admitted.
--
-- KEYS[1]  the lock (see state.lua)
-- KEYS[2]  the queue of writers
-- KEYS[3]  the readers that wait
-- ARGV[1]  the owner
-- ARGV[2]  the lease, lease:<id>
-- ARGV[3]  the lease given, in ms
-- ARGV[4]  the caller's place if it waits, else ''
-- ARGV[5]  the ticket it has, or 0
-- ARGV[6]  how long a place lasts unattended, in ms
--
-- Replies  0                    granted; also when this lease had it already
--          {owner, ttl, ticket} refused: the writer ('' where one waits and was
--                               here before), for how long, and the ticket
local lock, readers, owner, lease, given, member = KEYS[1], KEYS[3], ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]
local s = state(lock)

local ttl
if s.reading[owner] or s.owner == owner then
  ttl = 0 -- reads already, or is the writer itself
elseif s.writers > 0 then
  ttl = s.latest - s.time
elseif s.turn > s.time then
  ttl = 0
elseif s['for'] then
  ttl = redis.call('PTTL', lock)
elseif s.readers > 0 then
  ttl = math.max(s.wanted - s.time, 0)
else
  ttl = 0
end
if ttl > 0 then
  return {s.owner or '', ttl, queued(readers, member, ARGV[5], ARGV[6])}
end

redis.call('HDEL', lock, 'for')
redis.call('HSET', lock, 'read ' .. lease .. ' ' .. owner, s.time + given)
lasts(lock, math.max(s.latest, s.time + given))
if s.turn > s.time and ARGV[5] ~= '0' then
  came(lock) -- it waited, and was told
end
if member ~= '' then
  redis.call('ZREM', readers, member)
end
return 0
