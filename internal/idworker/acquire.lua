-- Leases a machine id to a process whose clock has passed its mark.
--
-- KEYS[1]  lease of the machine id: its holder's token, with an expiry
-- KEYS[2]  mark of the machine id: the last tick any holder may have minted in
-- KEYS[3]  birth of this key space: when it was first seen empty, in ms
-- ARGV[1]  the caller's token, never used for another acquisition
-- ARGV[2]  how long to lease, in ms
-- ARGV[3]  the tick it is by the caller's clock
-- ARGV[4]  the last tick the caller may mint in before it renews
-- ARGV[5]  tick 0 in ms since 1970
-- ARGV[6]  how long a mark is kept once it has passed, in ms
-- ARGV[7]  how long nothing is leased in an empty key space, in ms; 0: no wait
--
-- Replies  {"leased", 0}
--          {"held", ms}    somebody's lease, for another ms
--          {"marked", t}   the mark is tick t, which the caller's clock has not passed
--          {"settling", ms}  the key space is younger than ARGV[7], for another ms
--
-- A repetition with the same token, as after a lost reply, is leased again.

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local settle = tonumber(ARGV[7])
if settle > 0 then
  redis.call('SETNX', KEYS[3], string.format('%.0f', now))
  local left = redis.call('GET', KEYS[3]) + settle - now
  if left > 0 then
    return {'settling', left}
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
