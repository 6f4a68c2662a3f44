-- Renews the lease of a machine id and moves its mark ahead.
--
-- KEYS[1]  lease of the machine id
-- KEYS[2]  mark of the machine id
-- ARGV[1]  the caller's token
-- ARGV[2]  time to live of the lease, in ms
-- ARGV[3]  the last tick in which the caller may mint before it renews again
-- ARGV[4]  tick 0 in ms since 1970
-- ARGV[5]  how long a mark is kept after it has passed, in ms
--
-- Replies  {"renewed", ""}
--          {"gone", ""}      there is no lease: it has expired or was deleted
--          {"held", token}   another holder has the lease

local holder = redis.call('GET', KEYS[1])
if not holder then
  return {'gone', ''}
end
if holder ~= ARGV[1] then
  return {'held', holder}
end

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

-- While the lease lasts the mark never moves back, although the caller's clock may.
local mark = math.max(tonumber(redis.call('GET', KEYS[2]) or '-1'), tonumber(ARGV[3]))
local keep = math.max(0, ARGV[4] + mark * 10 - now) + ARGV[5]
redis.call('SET', KEYS[2], string.format('%.0f', mark), 'PX', string.format('%.0f', keep))
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return {'renewed', ''}
