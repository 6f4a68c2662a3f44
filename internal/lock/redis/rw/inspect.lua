-- Say who holds the lock, by how many leases, for how long, and how many wait.
--
-- KEYS[1]  the lock (see state.lua)
-- KEYS[2]  the queue of writers
-- KEYS[3]  the readers that wait
--
-- Replies  {owner, count, ttl, 0, shared, waiting}  the writer, or one of the readers
--                                                   ('' for nobody), the leases, how
--                                                   long the last of them runs, 1
--                                                   where they are readers', and the
--                                                   processes and readers that wait
local lock = KEYS[1]
local s = state(lock)
local ttl = s.latest - s.time
if s.latest >= never then
  ttl = -1
end
return {
  s.owner or s.reader or '', s.writers + s.readers, s.latest == 0 and 0 or ttl,
  0, s.writers == 0 and s.readers > 0 and 1 or 0,
  redis.call('ZCARD', KEYS[2]) + redis.call('ZCARD', KEYS[3]),
}
