-- pass makes the waiter that waits longest the holder of a lock that is free, and
-- tells it. Until it was heard of, it has the lock for half as long as a place in the
-- queue lasts. Returns the new owner, or nil.
local function pass(lock, queue, place)
  local member = first_out('LPOP', lock, queue, function(lease)
    return 'granted:0 ' .. lease
  end)
  if not member then
    return nil
  end
  local _, lease, ttl, owner = parts(lock, member)
  redis.call('SET', lock, lease .. ' ' .. owner, 'PX', math.min(ttl, math.floor(place / 2)))
  return owner
end

