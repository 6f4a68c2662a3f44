-- The most frequent attempt: the lock is free, nobody waits, and the clock is ahead of the
-- newest token (see token.lua).
if redis.call('EXISTS', KEYS[1], KEYS[2]) == 0 then
  local time = redis.call('TIME')
  local us = time[1] * 1000000 + time[2]
  if us > tonumber(redis.call('GET', KEYS[3]) or 0) then
    local token, ends = string.format('%.0f', us), math.floor(us / 1000) + ARGV[3]
    redis.call('SET', KEYS[3], token, 'PX', 3600000)
    redis.call('HSET', KEYS[1], 'owner', ARGV[1], 'token', token, ARGV[2], ends)
    redis.call('PEXPIREAT', KEYS[1], ends)
    return us
  end
end

