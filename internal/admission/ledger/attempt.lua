-- Begin or end an attempt to write an entry alone. An attempt that ends its process stays begun. A process has
-- at most one attempt at an entry, so both calls may be repeated.
--
-- KEYS[1]  a hash: entry -> the processes whose attempts have not ended, separated by spaces
-- ARGV[1]  the entry
-- ARGV[2]  the process
-- ARGV[3]  for how long the hash is kept, in s; 0 ends the attempt
--
-- Replies  the other processes that have an attempt that has not ended
local entry, process, keep = ARGV[1], ARGV[2], tonumber(ARGV[3])
local others = {}
for other in string.gmatch(redis.call('HGET', KEYS[1], entry) or '', '%S+') do
  if other ~= process then
    others[#others + 1] = other
  end
end
local all = table.concat(others, ' ')
if keep > 0 then
  all = all .. ' ' .. process
end
if all == '' then
  redis.call('HDEL', KEYS[1], entry)
else
  redis.call('HSET', KEYS[1], entry, all)
end
if keep > 0 then
  redis.call('EXPIRE', KEYS[1], keep)
end
return others
