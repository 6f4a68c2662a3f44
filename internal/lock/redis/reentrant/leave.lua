-- Give up a place in the queue. What its process was told meanwhile, it passes on.
--
-- KEYS[1]  the lock (see acquire.lua)
-- KEYS[2]  the queue
-- ARGV[1]  the name of the process
--
-- Replies  1
local lock, queue, process = KEYS[1], KEYS[2], ARGV[1]
local left = redis.call('ZREM', queue, process)
local value = redis.pcall('GET', lock)
if value == 'for:' .. process or (left == 0 and not value) then
  redis.call('DEL', lock)
  offer(lock, queue)
end
return 1
