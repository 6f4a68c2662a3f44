-- The most frequent release: the lock has one lease, and nobody waits. The key expires with
-- its last lease, so this lease has not ended.
if ARGV[3] == '' and redis.call('EXISTS', KEYS[2]) == 0 then
  local held = redis.call('HGETALL', KEYS[1])
  if #held == 6 and held[2] == ARGV[1] and held[5] == ARGV[2] then
    return redis.call('DEL', KEYS[1])
  end
end

