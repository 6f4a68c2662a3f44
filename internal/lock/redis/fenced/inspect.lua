-- Return the holder of the lock, its leases, how long they last, the newest token, and the
-- length of the queue.
--
-- KEYS[1]  the lock (see acquire.lua)
-- KEYS[2]  the queue
-- KEYS[3]  the newest token
--
-- Replies  {owner, count, ttl, token, 0, queue}  the holder ('' for nobody), the number of
--                                                its leases that have not ended, PTTL, the
--                                                newest token that is known, and the number
--                                                of processes in the queue
local lock, waiting = KEYS[1], redis.call('ZCARD', KEYS[2])
local newest = tonumber(redis.call('GET', KEYS[3]) or 0)
local fields = redis.call('HGETALL', lock)
local time, owner, count = now(), '', 0
for i = 1, #fields, 2 do
  if fields[i] == 'owner' then
    owner = fields[i + 1]
  elseif string.sub(fields[i], 1, 6) == 'lease:' and tonumber(fields[i + 1]) > time then
    count = count + 1
  end
end
return {owner, count, owner == '' and 0 or redis.call('PTTL', lock), newest, 0, waiting}
