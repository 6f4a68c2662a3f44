-- Give up a place. Where no writer waits any more, readers need not stand back.
--
-- KEYS[1]  the lock (see state.lua)
-- KEYS[2]  the queue of writers
-- KEYS[3]  the readers that wait
-- ARGV[1]  the place: a writer's, or a reader's
--
-- Replies  1
local lock, queue, readers, member = KEYS[1], KEYS[2], KEYS[3], ARGV[1]
if redis.call('ZREM', readers, member) == 1 then
  return 1
end
local left = redis.call('ZREM', queue, member)
local s = state(lock)
local free = s.writers == 0 and s.readers == 0
if string.find(member, ':r@', #lock + 1, true) == #lock + 1 then
  -- A reader that was told, and gives up.
  if s.turn > s.time and came(lock) and free then
    redis.call('DEL', lock)
    if not admit_writer(lock, queue) then
      admit_readers(lock, readers)
    end
  end
elseif free and (s['for'] == member or left == 0 and not s['for'] and s.turn == 0) then
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
