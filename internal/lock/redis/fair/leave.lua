-- Remove a queue entry. If it was its turn, notify the next waiter.
--
-- KEYS[1]  the lock (see acquire.lua)
-- KEYS[2]  the queue
-- KEYS[3]  the deadlines
-- ARGV[1]  the queue entry
-- ARGV[2]  how long a queue entry lasts unless it is refreshed, in ms
--
-- Replies  1
local lock, queue, deadlines = KEYS[1], KEYS[2], KEYS[3]
remove(queue, deadlines, ARGV[1])
if redis.call('EXISTS', lock) == 0 then
  local first = head(queue, deadlines, tonumber(ARGV[2]))
  if first then
    notify(lock, first)
  end
end
return 1
