-- Return the holder of the lock, its leases, how long they last, and the waiters.
--
-- KEYS[1]  the lock (see acquire.lua)
-- KEYS[2]  the queue
--
-- Replies  {owner, count, ttl, 0, 0, {owner ...}}  the holder ('' for nobody), the number
--                                                  of its leases that have not ended, PTTL,
--                                                  and the waiters in order
local lock, owner, count, time = KEYS[1], '', 0, now()
local fields = redis.call('HGETALL', lock)
for i = 1, #fields, 2 do
  if fields[i] == 'owner' then
    owner = fields[i + 1]
  elseif tonumber(fields[i + 1]) > time then
    count = count + 1
  end
end
local waiting = {}
for i, entry in ipairs(redis.call('ZRANGE', KEYS[2], 0, -1)) do
  local _, _, _, waiter = parse_entry(lock, entry)
  waiting[i] = waiter
end
return {owner, count, owner == '' and 0 or redis.call('PTTL', lock), 0, 0, waiting}
