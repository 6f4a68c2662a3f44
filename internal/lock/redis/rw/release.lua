-- Release one lease. After the writer come the waiting readers, all at once; after the last
-- reader, or where no reader waits, the first waiting writer.
--
-- KEYS[1]  the lock (see state.lua)
-- KEYS[2]  the queue of writers
-- KEYS[3]  the waiting readers
-- ARGV[1]  the owner
-- ARGV[2]  the lease id, lease:<id>
-- ARGV[3]  the owner of the next waiting writer in this process, or ''
-- ARGV[4]  its lease id
-- ARGV[5]  its TTL, in ms
-- ARGV[6]  1 to hand the lock to it even though other processes wait
-- ARGV[7]  not used
-- ARGV[8]  the next waiter's queue entry, or ''
--
-- Replies  1       released
--          2       released; the owner has other leases for writing
--          {0}     released and handed to the next waiter
--          {0, 1}  the next waiter holds the lock already: through this same release, whose
--                  first reply was lost, or because its turn had come
--          0       not found: the lease expired, or the key was deleted
--         -1       another owner writes; its lock is left alone
local lock, queue, readers, owner, lease_id = KEYS[1], KEYS[2], KEYS[3], ARGV[1], ARGV[2]
local read = 'read ' .. lease_id .. ' ' .. owner
local held = redis.call('HMGET', lock, 'owner', lease_id, read, ARGV[4])
if ARGV[3] ~= '' and held[1] == ARGV[3] and held[4] then
  prolong(lock, ARGV[4], held[4], now() + ARGV[5])
  return {0, 1}
end
local ends = tonumber(held[3] or held[1] == owner and held[2] or 0)
if ends == 0 then
  return held[1] and held[1] ~= owner and -1 or 0
end

redis.call('HDEL', lock, held[3] and read or lease_id)
local s = state(lock)
local reply = ends > s.time and 1 or 0
if s.writers > 0 then
  expire_with(lock, s.last_end)
  return reply == 1 and not held[3] and 2 or reply
end
if s.readers > 0 then
  expire_with(lock, s.last_end)
  if not held[3] then
    admit_readers(lock, readers) -- the writer reads on, and others may too
  end
  return reply
end
if s.turn > s.time then
  redis.call('PEXPIREAT', lock, s.turn) -- other readers were notified together with this one
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
