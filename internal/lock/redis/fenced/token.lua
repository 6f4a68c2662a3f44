-- next_token draws a fencing token that is greater than every one before it: the
-- server's clock in us, or one more than the newest token where the clock does not
-- show more. Either of the two is enough: a clock that steps back is caught by the
-- counter, and a counter that is lost (a failover, FLUSHALL, the end of its hour)
-- by the clock. So it needs not be kept for ever.
local function next_token(counter)
  local newest = tonumber(redis.call('GET', counter) or 0)
  local token = string.format('%.0f', math.max(newest + 1, tonumber(ticket())))
  redis.call('SET', counter, token, 'PX', 3600000)
  return token
end

-- pass makes the waiter that waits longest the holder of a lock that is free, with a
-- new token, and tells it. Until it was heard of, it has the lock for half as long as a
-- place in the queue lasts. Returns the new owner, or nil.
local function pass(lock, queue, counter, place)
  if redis.call('EXISTS', queue) == 0 then
    return nil
  end
  local token = next_token(counter)
  local member = first_out('ZPOPMIN', lock, queue, function(lease)
    return 'granted:' .. token .. ' ' .. lease
  end)
  if not member then
    return nil
  end
  local _, lease, ttl, owner = parts(lock, member)
  local given = math.min(ttl, math.floor(place / 2))
  redis.call('HSET', lock, 'owner', owner, 'token', token, lease, now() + given)
  redis.call('PEXPIRE', lock, given)
  return owner
end

