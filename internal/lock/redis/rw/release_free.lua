-- The most frequent release: the lock has one lease, of a writer or a reader, and nobody
-- waits.
if ARGV[3] == '' and redis.call('EXISTS', KEYS[2], KEYS[3]) == 0 then
  local held = redis.call('HGETALL', KEYS[1])
  if #held == 4 and held[2] == ARGV[1] and held[3] == ARGV[2]
    or #held == 2 and held[1] == 'read ' .. ARGV[2] .. ' ' .. ARGV[1] then
    local time = redis.call('TIME')
    if tonumber(held[#held]) > time[1] * 1000 + math.floor(time[2] / 1000) then
      return redis.call('DEL', KEYS[1])
    end
  end
end

