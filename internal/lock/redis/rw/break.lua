-- Free the lock, no matter who holds it, and notify the waiters.
--
-- KEYS[1]  the lock (see state.lua)
-- KEYS[2]  the queue of writers
-- KEYS[3]  the waiting readers
--
-- Replies  1  it was held
--          0  it was free
local lock = KEYS[1]
local s = state(lock)
if s.writers == 0 and s.readers == 0 then
  return 0
end
redis.call('DEL', lock)
if not admit_readers(lock, KEYS[3]) then
  admit_writer(lock, KEYS[2])
end
return 1
