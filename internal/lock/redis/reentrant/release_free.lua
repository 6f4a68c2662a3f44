-- The most frequent release: the lock has one lease, and nobody waits.
if ARGV[3] == '' and redis.call('EXISTS', KEYS[2]) == 0
  and redis.pcall('GET', KEYS[1]) == ARGV[2] .. ' ' .. ARGV[1] then
  return redis.call('DEL', KEYS[1])
end

