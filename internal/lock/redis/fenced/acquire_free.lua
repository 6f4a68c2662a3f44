-- The most frequent attempt: the lock is free, and nobody waits. The token is that of
-- next_token (see token.lua), in one command unless the clock is behind the newest token.
-- Numbers are turned into strings once: a command would convert each again, and more slowly.
if redis.call('EXISTS', KEYS[1], KEYS[2]) == 0 then
  local time = redis.call('TIME')
  local us = time[1] * 1000000 + time[2]
  local token, ends = string.format('%.0f', us), string.format('%.0f', math.floor(us / 1000) + ARGV[3])
  local newest = redis.call('SET', KEYS[3], token, 'PX', '3600000', 'GET')
  if newest and tonumber(newest) >= us then
    us = newest + 1
    token = string.format('%.0f', us)
    redis.call('SET', KEYS[3], token, 'PX', '3600000')
  end
  redis.call('HSET', KEYS[1], 'owner', ARGV[1], 'token', token, ARGV[2], ends)
  redis.call('PEXPIREAT', KEYS[1], ends)
  return us
end

