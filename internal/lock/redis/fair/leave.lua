-- Give up a place in the queue. If it was its turn, the next one is told.
--
-- KEYS[1]  the lock (see acquire.lua)
-- KEYS[2]  the queue
-- KEYS[3]  the places
-- ARGV[1]  the place
-- ARGV[2]  how long a place lasts unattended, in ms
--
-- Replies  1
local lock, queue, places = KEYS[1], KEYS[2], KEYS[3]
out(queue, places, ARGV[1])
if redis.call('EXISTS', lock) == 0 then
  local first = head(queue, places, tonumber(ARGV[2]))
  if first then
    tell(lock, first)
  end
end
return 1
