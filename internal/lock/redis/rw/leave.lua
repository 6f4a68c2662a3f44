-- Remove a queue entry. Where no writer waits any more, new readers are let in again.
--
-- KEYS[1]  the lock (see state.lua)
-- KEYS[2]  the queue of writers
-- KEYS[3]  the waiting readers
-- ARGV[1]  the queue entry of a writer or a reader
--
-- Replies  1
local lock, queue, readers, entry = KEYS[1], KEYS[2], KEYS[3], ARGV[1]
if redis.call('ZREM', readers, entry) == 1 then
  return 1
end
local left = redis.call('ZREM', queue, entry)
local s = state(lock)
local free = s.writers == 0 and s.readers == 0
if string.find(entry, ':r@', #lock + 1, true) == #lock + 1 then
  -- A reader that was notified, and gives up. If it has a lease by now, it has come already.
  local _, lease_id, _, owner = parse_entry(lock, entry)
  local came = redis.call('HEXISTS', lock, 'read ' .. lease_id .. ' ' .. owner) == 1
  if not came and s.turn > s.time and reader_came(lock) and free then
    redis.call('DEL', lock)
    if not admit_writer(lock, queue) then
      admit_readers(lock, readers)
    end
  end
elseif free and (s['for'] == entry or left == 0 and not s['for'] and s.turn == 0) then
  redis.call('DEL', lock)
  if not admit_writer(lock, queue) then
    admit_readers(lock, readers)
  end
elseif s.wanted > 0 and redis.call('EXISTS', queue) == 0 then
  redis.call('HDEL', lock, 'wanted')
  if s.writers == 0 then
    admit_readers(lock, readers)
  end
end
return 1
