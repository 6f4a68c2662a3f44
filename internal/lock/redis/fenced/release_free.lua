-- The most frequent release: the lock has one lease, and nobody waits.
if ARGV[3] == '' and redis.call('EXISTS', KEYS[2]) == 0 then
  local held = redis.call('HGETALL', KEYS[1])
  if #held == 6 and held[2] == ARGV[1] and held[5] == ARGV[2] then
    local time = redis.call('TIME')
    if tonumber(held[6]) > time[1] * 1000 + math.floor(time[2] / 1000) then
      return redis.call('DEL', KEYS[1])
    end
  end
end

