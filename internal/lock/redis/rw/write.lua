-- Take the lock for a writer, or say who is in the way and wait in the queue.
--
-- KEYS[1]  the lock (see state.lua)
-- KEYS[2]  the queue of writers
-- KEYS[3]  the readers that wait
-- ARGV[1]  the owner
-- ARGV[2]  the lease, lease:<id>
-- ARGV[3]  the lease given, in ms
-- ARGV[4]  the caller's place if it waits, else ''
-- ARGV[5]  the ticket it has, or 0
-- ARGV[6]  how long a place in the queue lasts unattended, in ms
--
-- Replies  0                    granted; also when this lease had it already
--          {owner, ttl, ticket} refused: the writer, or one of the readers, how long
--                               they have the lock, and the place in the queue
--          INVALID ...          the owner reads: it would wait for itself
local lock, queue, owner, lease, given, member = KEYS[1], KEYS[2], ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]
local s = state(lock)

if s.reading[owner] and s.owner ~= owner then
  return redis.error_reply('INVALID a reader cannot become the writer: it would wait for itself')
end
local free = s.writers == 0 and s.readers == 0
if free and not s['for'] and s.turn == 0 and member ~= '' then
  -- The last lease ran out and everybody noticed. Who waits longest goes first.
  local first = redis.call('ZRANGE', queue, 0, 0, 'WITHSCORES')
  local ticket = tonumber(ARGV[5])
  if first[1] and first[1] ~= member and (ticket == 0 or ticket > tonumber(first[2])) then
    s['for'] = admit_writer(lock, queue)
  end
end
local mine = s.owner == owner or free and s.turn <= s.time and (not s['for'] or s['for'] == member)
if mine then
  if free then
    redis.call('DEL', lock)
  end
  redis.call('HSET', lock, 'owner', owner, lease, s.time + given)
  lasts(lock, math.max(s.latest, s.time + given))
  if member ~= '' then
    redis.call('ZREM', queue, member)
  end
  return 0
end

local ttl = s.latest - s.time
if free then
  ttl = redis.call('PTTL', lock)
elseif member ~= '' then
  -- From now on no new readers: they could keep a writer out for ever.
  redis.call('HSET', lock, 'wanted', s.time + ARGV[6])
end
return {s.owner or s.reader or '', ttl, queued(queue, member, ARGV[5], ARGV[6])}
