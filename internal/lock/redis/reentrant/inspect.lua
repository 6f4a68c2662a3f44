-- Say who holds the lock, by how many leases, and for how long.
--
-- KEYS[1]  the lock (see acquire.lua)
--
-- Replies  {}                  nobody
--          {owner, count, ttl} the holder, its leases that have not run out,
--                              and PTTL
local fields = redis.call('HGETALL', KEYS[1])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local owner, count = false, 0
for i = 1, #fields, 2 do
  if fields[i] == 'owner' then
    owner = fields[i + 1]
  elseif string.sub(fields[i], 1, 6) == 'lease:' and tonumber(fields[i + 1]) > now then
    count = count + 1
  end
end
if not owner then
  return {}
end
return {owner, count, redis.call('PTTL', KEYS[1])}
