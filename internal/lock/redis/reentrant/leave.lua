-- Give up a place in the queue, and the lock if it was passed on to it.
--
-- KEYS[1]  the lock (see acquire.lua)
-- KEYS[2]  the queue
-- ARGV[1]  the place
-- ARGV[2]  how long a place in the queue lasts unattended, in ms
--
-- Replies  1
local lock, queue, member = KEYS[1], KEYS[2], ARGV[1]
redis.call('LREM', queue, 1, member)
local _, lease, _, owner = parts(lock, member)
if redis.pcall('GET', lock) == lease .. ' ' .. owner and not pass(lock, queue, tonumber(ARGV[2])) then
  redis.call('DEL', lock)
end
return 1
