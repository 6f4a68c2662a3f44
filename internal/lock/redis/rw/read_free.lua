-- The most frequent attempt: the lock is free, and nobody waits.
if redis.call('EXISTS', KEYS[1], KEYS[2], KEYS[3]) == 0 then
  local time = redis.call('TIME')
  local ends = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000) + ARGV[3])
  redis.call('HSET', KEYS[1], 'read ' .. ARGV[2] .. ' ' .. ARGV[1], ends)
  redis.call('PEXPIREAT', KEYS[1], ends)
  return 0
end

