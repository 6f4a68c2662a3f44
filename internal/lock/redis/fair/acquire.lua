-- Acquire the lock for one lease if it is the caller's turn, or return its holder and
-- refresh the caller's queue entry.
--
-- KEYS[1]  the lock: a hash with the fields
--            owner       the holder
--            lease:<id>  when that lease ends, in ms of this server's clock
-- KEYS[2]  the queue: entries by their tickets (see queue.lua)
-- KEYS[3]  the deadlines of the entries, and under '' the time of the last refresh
-- ARGV[1]  the owner
-- ARGV[2]  the lease id, lease:<id>
-- ARGV[3]  the TTL, in ms
-- ARGV[4]  the caller's queue entry if it waits, else ''
-- ARGV[5]  its ticket, or 0
-- ARGV[6]  how long a queue entry lasts unless it is refreshed, in ms
--
-- Replies  0                     granted. Also where this lease holds the lock already, so
--                                that a repetition after a lost reply changes nothing
--          {owner, ttl, ticket}  refused: the holder ('' where it is another waiter's turn),
--                                for how long, and the caller's ticket
local lock, queue, deadlines = KEYS[1], KEYS[2], KEYS[3]
local owner, lease_id, ttl, entry, entry_ttl = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4], tonumber(ARGV[6])

local held = redis.call('HMGET', lock, 'owner', lease_id)
local holder = held[1]
local first = head(queue, deadlines, entry_ttl)
if holder == owner or not holder and (not first or first == entry) then
  redis.call('HSET', lock, 'owner', owner)
  prolong(lock, lease_id, held[2], now() + ttl)
  if entry ~= '' then
    remove(queue, deadlines, entry)
  end
  return 0
end

local left
if holder then
  left = redis.call('PTTL', lock)
else
  -- Free, and another waiter's turn. It may have been notified before it was subscribed.
  notify(lock, first)
  left = redis.call('ZSCORE', deadlines, first) - now()
end
local ticket = enqueue(queue, entry, ARGV[5], entry_ttl)
if entry ~= '' then
  redis.call('ZADD', deadlines, now() + entry_ttl, entry, now(), '')
  keep_alive(queue, deadlines, entry_ttl)
end
return {holder or '', left, ticket}
