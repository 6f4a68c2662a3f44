-- Say who holds the lock, by how many leases, for how long, and who waits.
--
-- KEYS[1]  the lock (see acquire.lua)
-- KEYS[2]  the queue
--
-- Replies  {owner, count, ttl, 0, 0, {owner ...}}  the holder ('' for nobody), its
--                                                  leases that have not run out,
--                                                  PTTL, and who waits, in order
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
for i, member in ipairs(redis.call('ZRANGE', KEYS[2], 0, -1)) do
  local _, _, _, who = parts(lock, member)
  waiting[i] = who
end
return {owner, count, owner == '' and 0 or redis.call('PTTL', lock), 0, 0, waiting}
