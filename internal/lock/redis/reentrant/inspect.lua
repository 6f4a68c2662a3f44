-- Return the holder of the lock, its leases, how long they last, and the length of the queue.
--
-- KEYS[1]  the lock (see acquire.lua)
-- KEYS[2]  the queue
--
-- Replies  {owner, count, ttl, 0, 0, queue}  the holder ('' for nobody), the number of its
--                                            leases that have not ended, PTTL, and the
--                                            number of processes in the queue
local lock, waiting = KEYS[1], redis.call('LLEN', KEYS[2])
local value = redis.pcall('GET', lock)
if not value then
  return {'', 0, 0, 0, 0, waiting}
end
if type(value) == 'string' then
  local holder = string.match(value, '^lease:%S+ (.*)$')
  return {holder, 1, redis.call('PTTL', lock), 0, 0, waiting}
end
local fields = redis.call('HGETALL', lock)
local time, owner, count = now(), '', 0
for i = 1, #fields, 2 do
  if fields[i] == 'owner' then
    owner = fields[i + 1]
  elseif tonumber(fields[i + 1]) > time then
    count = count + 1
  end
end
return {owner, count, redis.call('PTTL', lock), 0, 0, waiting}
