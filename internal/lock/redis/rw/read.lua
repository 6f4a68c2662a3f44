-- Acquire the lock for a reader, or return the holder and join the waiting readers.
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
--          {owner, ttl, ticket}  refused: the writer ('' where one waits and came first),
--                                for how long, and the caller's ticket
local lock, readers, owner, lease_id, ttl, entry = KEYS[1], KEYS[3], ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]
local s = state(lock)

local wait
if s.reading[owner] or s.owner == owner then
  wait = 0 -- it reads already, or is the writer
elseif s.writers > 0 then
  wait = s.last_end - s.time
elseif s.turn > s.time then
  wait = 0
elseif s['for'] then
  wait = redis.call('PTTL', lock)
elseif s.readers > 0 then
  wait = math.max(s.wanted - s.time, 0)
else
  wait = 0
end
if wait > 0 then
  return {s.owner or '', wait, enqueue(readers, entry, ARGV[5], ARGV[6])}
end

redis.call('HDEL', lock, 'for')
local field = 'read ' .. lease_id .. ' ' .. owner
local ends = granted_end(s, field, ttl)
local new = redis.call('HSET', lock, field, ends) == 1
expire_with(lock, math.max(s.last_end, ends))
if new and s.turn > s.time and ARGV[5] ~= '0' then
  reader_came(lock) -- it waited and was notified; a repeated attempt does not count again
end
if entry ~= '' then
  redis.call('ZREM', readers, entry)
end
return 0
