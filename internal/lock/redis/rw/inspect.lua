-- Return the holders of the lock, how long they have it, and the number of waiters.
--
-- KEYS[1]  the lock (see state.lua)
-- KEYS[2]  the queue of writers
-- KEYS[3]  the waiting readers
--
-- Replies  {owner, count, ttl, 0, shared, waiting}  the writer, or one of the readers
--                                                   ('' for nobody), the number of leases,
--                                                   when the last of them ends, 1 if they
--                                                   are readers', and the number of waiting
--                                                   processes and readers
local lock = KEYS[1]
local s = state(lock)
local ttl = s.last_end - s.time
if s.last_end >= no_end then
  ttl = -1
end
return {
  s.owner or s.reader or '', s.writers + s.readers, s.last_end == 0 and 0 or ttl,
  0, s.writers == 0 and s.readers > 0 and 1 or 0,
  redis.call('ZCARD', KEYS[2]) + redis.call('ZCARD', KEYS[3]),
}
