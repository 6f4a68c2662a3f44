-- Leases a machine id to a process whose clock has passed its mark.
--
-- KEYS[1]  lease of the machine id: its holder's token, with an expiry
-- KEYS[2]  mark of the machine id: the last tick in which any holder may have minted
-- KEYS[3]  when the key space was first found empty, in ms since 1970
-- ARGV[1]  the caller's token, unique to this acquisition
-- ARGV[2]  time to live of the lease, in ms
-- ARGV[3]  the current tick by the caller's clock
-- ARGV[4]  the last tick in which the caller may mint before it renews
-- ARGV[5]  tick 0 in ms since 1970
-- ARGV[6]  how long a mark is kept after it has passed, in ms
-- ARGV[7]  grace period of an empty key space, in ms; 0: none
--
-- Replies  {"leased", 0}
--          {"held", ms}    another holder's lease, which expires in ms; -1: never
--          {"marked", t}   the mark is tick t, which the caller's clock has not passed
--          {"grace", ms}     the key space is younger than ARGV[7], for another ms
--
-- A repetition with the same token, as after a lost reply, gets the lease again.

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local grace = tonumber(ARGV[7])
if grace > 0 then
  redis.call('SETNX', KEYS[3], string.format('%.0f', now))
  local left = redis.call('GET', KEYS[3]) + grace - now
  if left > 0 then
    return {'grace', left}
  end
end

local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then
  return {'held', redis.call('PTTL', KEYS[1])}
end

local mark = tonumber(redis.call('GET', KEYS[2]) or '-1')
if not holder and mark >= tonumber(ARGV[3]) then
  return {'marked', mark}
end

mark = math.max(mark, tonumber(ARGV[4]))
local keep = math.max(0, ARGV[5] + mark * 10 - now) + ARGV[6]
redis.call('SET', KEYS[2], string.format('%.0f', mark), 'PX', string.format('%.0f', keep))
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return {'leased', 0}
