-- Remove a queue entry, and release the lock if it was granted to that entry.
--
-- KEYS[1]  the lock (see acquire.lua)
-- KEYS[2]  the queue
-- ARGV[1]  the queue entry
-- ARGV[2]  how long a queue entry lasts unless it is refreshed, in ms
--
-- Replies  1
local lock, queue, entry = KEYS[1], KEYS[2], ARGV[1]
redis.call('LREM', queue, 1, entry)
local _, lease_id, _, owner = parse_entry(lock, entry)
if redis.pcall('GET', lock) == lease_id .. ' ' .. owner and not grant_next(lock, queue, tonumber(ARGV[2])) then
  redis.call('DEL', lock)
end
return 1
