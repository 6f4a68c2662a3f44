-- Acquire the lock for a writer, or return the holder and join the queue.
--
-- KEYS[1]  the lock (see state.lua)
-- KEYS[2]  the queue of writers
-- KEYS[3]  the waiting readers
-- ARGV[1]  the owner
-- ARGV[2]  the lease id, lease:<id>
-- ARGV[3]  the TTL, in ms
-- ARGV[4]  the caller's queue entry if it waits, else ''
-- ARGV[5]  its ticket, or 0
-- ARGV[6]  how long a queue entry lasts unless it is refreshed, in ms
--
-- Replies  0                     granted; also where this lease holds the lock already
--          {owner, ttl, ticket}  refused: the writer or one of the readers, how long they
--                                have the lock, and the caller's ticket
--          INVALID ...           the owner reads: it would wait for itself
local lock, queue, owner, lease_id, ttl, entry = KEYS[1], KEYS[2], ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]
local s = state(lock)

if s.reading[owner] and s.owner ~= owner then
  return redis.error_reply('INVALID a reader cannot become the writer: it would wait for itself')
end
local free = s.writers == 0 and s.readers == 0
if free and not s['for'] and s.turn == 0 and entry ~= '' then
  -- The last lease expired, and all waiters noticed. The first in the queue gets the lock.
  local first = redis.call('ZRANGE', queue, 0, 0, 'WITHSCORES')
  local ticket = tonumber(ARGV[5])
  if first[1] and first[1] ~= entry and (ticket == 0 or ticket > tonumber(first[2])) then
    s['for'] = admit_writer(lock, queue)
  end
end
local granted = s.owner == owner or free and s.turn <= s.time and (not s['for'] or s['for'] == entry)
if granted then
  if free then
    redis.call('DEL', lock)
  end
  local ends = granted_end(s, lease_id, ttl)
  redis.call('HSET', lock, 'owner', owner, lease_id, ends)
  expire_with(lock, math.max(s.last_end, ends))
  if entry ~= '' then
    redis.call('ZREM', queue, entry)
  end
  return 0
end

local left = s.last_end - s.time
if free then
  left = redis.call('PTTL', lock)
elseif entry ~= '' then
  -- From now on no new readers get in. Otherwise they could keep a writer out for ever.
  redis.call('HSET', lock, 'wanted', s.time + ARGV[6])
end
return {s.owner or s.reader or '', left, enqueue(queue, entry, ARGV[5], ARGV[6])}
