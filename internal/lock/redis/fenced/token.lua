-- next_token returns a fencing token greater than every one before it: the server's clock in
-- us, or one more than the newest token if that is greater. Either of the two is enough: the
-- counter covers a clock that steps back, and the clock covers a counter that is lost (a
-- failover, FLUSHALL, the end of its hour). So the counter need not be kept for ever.
local function next_token(counter)
  local newest = tonumber(redis.call('GET', counter) or 0)
  local token = string.format('%.0f', math.max(newest + 1, tonumber(new_ticket())))
  redis.call('SET', counter, token, 'PX', 3600000)
  return token
end

-- grant_next grants a free lock, with a new token, to the first waiter in the queue that
-- listens, and notifies it. The lease lasts for half the time of a queue entry; the waiter
-- renews it. Returns the new owner, or nil.
local function grant_next(lock, queue, counter, entry_ttl)
  if redis.call('EXISTS', queue) == 0 then
    return nil
  end
  local token = next_token(counter)
  local entry = pop_listener('ZPOPMIN', lock, queue, function(lease_id)
    return 'granted:' .. token .. ' ' .. lease_id
  end)
  if not entry then
    return nil
  end
  local _, lease_id, ttl, owner = parse_entry(lock, entry)
  local first_ttl = math.min(ttl, math.floor(entry_ttl / 2))
  redis.call('HSET', lock, 'owner', owner, 'token', token, lease_id, now() + first_ttl)
  redis.call('PEXPIRE', lock, first_ttl)
  return owner
end

