-- Acquire the lock for one lease, or return its holder and join the queue.
--
-- KEYS[1]  the lock: a hash with the fields
--            owner       the holder
--            token       the holder's fencing token
--            lease:<id>  when that lease ends, in ms of this server's clock
-- KEYS[2]  the queue: one entry per waiting process, by their tickets
-- KEYS[3]  the newest token
-- ARGV[1]  the owner
-- ARGV[2]  the lease id, lease:<id>
-- ARGV[3]  the TTL, in ms
-- ARGV[4]  the caller's queue entry if it waits, else ''
-- ARGV[5]  its ticket, or 0
-- ARGV[6]  how long a queue entry lasts unless it is refreshed, in ms
--
-- Replies  token                 granted. Also where this lease holds the lock already: an
--                                earlier attempt whose reply was lost, or a release, granted
--                                it
--          {owner, ttl, ticket}  refused: the holder, PTTL (-1: no expiry), and the caller's
--                                ticket. A 1 follows where its entry was queued before and no
--                                longer there
local lock, queue, counter, owner, lease_id, ttl, entry =
  KEYS[1], KEYS[2], KEYS[3], ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]

local function refused(holder)
  return {holder, redis.call('PTTL', lock), enqueue(queue, entry, ARGV[5], ARGV[6])}
end

local held = redis.call('HMGET', lock, 'owner', 'token', lease_id)
local holder, token = held[1], held[2]
if holder and holder ~= owner then
  return refused(holder)
end
if not holder and entry ~= '' then
  -- The last lease expired, and all waiters noticed. The first in the queue gets the lock.
  local first = redis.call('ZRANGE', queue, 0, 0, 'WITHSCORES')
  local ticket = tonumber(ARGV[5])
  if first[1] and first[1] ~= entry and (ticket == 0 or ticket > tonumber(first[2])) then
    holder = grant_next(lock, queue, counter, tonumber(ARGV[6]))
    if holder and holder ~= owner then
      return refused(holder)
    end
  end
end
if not holder then
  token = next_token(counter)
  redis.call('HSET', lock, 'owner', owner, 'token', token)
end

prolong(lock, lease_id, held[3], now() + ttl)
if entry ~= '' then
  redis.call('ZREM', queue, entry)
end
return tonumber(token or redis.call('HGET', lock, 'token'))
