-- Give one lease back. After the writer come the readers that wait, all at once;
-- after the last reader, or where none waits, the writer that waits longest.
--
-- KEYS[1]  the lock (see state.lua)
-- KEYS[2]  the queue of writers
-- KEYS[3]  the readers that wait
-- ARGV[1]  the owner
-- ARGV[2]  the lease, lease:<id>
-- ARGV[3]  the owner who is next to write in this process, or ''
-- ARGV[4]  its lease
-- ARGV[5]  the lease to be given to it, in ms
-- ARGV[6]  1 to hand the lock over even though other processes wait
-- ARGV[7]  -
-- ARGV[8]  the place in the queue that the next one has, or ''
--
-- Replies  1   given back
--          2   given back; the owner has other leases to write by
--          {0} given back, and handed over
--          {0, 1} the next one has it already: by this very release, whose first
--              reply was lost, or because its turn had come
--          0   the lease is not there: it ran out, or the key was deleted
--         -1   another owner writes; its lock is left alone
local lock, queue, readers, owner, lease = KEYS[1], KEYS[2], KEYS[3], ARGV[1], ARGV[2]
local read = 'read ' .. lease .. ' ' .. owner
local held = redis.call('HMGET', lock, 'owner', lease, read, ARGV[4])
if ARGV[3] ~= '' and held[1] == ARGV[3] and held[4] then
  lengthened(lock, ARGV[4], held[4], now() + ARGV[5])
  return {0, 1}
end
local deadline = tonumber(held[3] or held[1] == owner and held[2] or 0)
if deadline == 0 then
  return held[1] and held[1] ~= owner and -1 or 0
end

redis.call('HDEL', lock, held[3] and read or lease)
local s = state(lock)
local reply = deadline > s.time and 1 or 0
if s.writers > 0 then
  lasts(lock, s.latest)
  return reply == 1 and not held[3] and 2 or reply
end
if s.readers > 0 then
  lasts(lock, s.latest)
  if not held[3] then
    admit_readers(lock, readers) -- the writer reads on, and others may too
  end
  return reply
end
if s.turn > s.time then
  redis.call('PEXPIREAT', lock, s.turn) -- others were told with this one
  return reply
end
redis.call('DEL', lock)
if not held[3] and admit_readers(lock, readers) then
  return reply
end
if ARGV[3] ~= '' and (ARGV[6] == '1' or redis.call('EXISTS', queue) == 0) then
  redis.call('HSET', lock, 'owner', ARGV[3], ARGV[4], s.time + ARGV[5])
  redis.call('PEXPIRE', lock, ARGV[5])
  if ARGV[8] ~= '' then
    redis.call('ZREM', queue, ARGV[8])
  end
  return {0}
end
if not admit_writer(lock, queue) then
  admit_readers(lock, readers)
end
return reply
