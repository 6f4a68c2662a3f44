-- Give up a place in the queue, and the lock if it was passed on to it.
--
-- KEYS[1]  the lock (see acquire.lua)
-- KEYS[2]  the queue
-- KEYS[3]  the newest token
-- ARGV[1]  the place
-- ARGV[2]  how long a place in the queue lasts unattended, in ms
--
-- Replies  1
local lock, queue, member = KEYS[1], KEYS[2], ARGV[1]
redis.call('ZREM', queue, member)
local _, lease, _, owner = parts(lock, member)
local held = redis.call('HMGET', lock, 'owner', lease)
if held[1] == owner and held[2] then
  redis.call('HDEL', lock, lease)
  if farthest(lock) == 0 then
    redis.call('DEL', lock)
    pass(lock, queue, KEYS[3], tonumber(ARGV[2]))
  end
end
return 1
