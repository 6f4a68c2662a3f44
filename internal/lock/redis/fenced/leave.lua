-- Remove a queue entry, and release the lock if it was granted to that entry.
--
-- KEYS[1]  the lock (see acquire.lua)
-- KEYS[2]  the queue
-- KEYS[3]  the newest token
-- ARGV[1]  the queue entry
-- ARGV[2]  how long a queue entry lasts unless it is refreshed, in ms
--
-- Replies  1
local lock, queue, entry = KEYS[1], KEYS[2], ARGV[1]
redis.call('ZREM', queue, entry)
local _, lease_id, _, owner = parse_entry(lock, entry)
local held = redis.call('HMGET', lock, 'owner', lease_id)
if held[1] == owner and held[2] then
  redis.call('HDEL', lock, lease_id)
  local last_end = last_lease_end(lock)
  if last_end > 0 then
    expire_with(lock, last_end)
  else
    redis.call('DEL', lock)
    grant_next(lock, queue, KEYS[3], tonumber(ARGV[2]))
  end
end
return 1
