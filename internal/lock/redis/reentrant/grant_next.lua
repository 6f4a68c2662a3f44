-- grant_next grants a free lock to the first waiter in the queue that listens, and notifies
-- it. The lease lasts for half the time of a queue entry; the waiter renews it. Returns the
-- new owner, or nil.
local function grant_next(lock, queue, entry_ttl)
  local entry = pop_listener('LPOP', lock, queue, function(lease_id)
    return 'granted:0 ' .. lease_id
  end)
  if not entry then
    return nil
  end
  local _, lease_id, ttl, owner = parse_entry(lock, entry)
  redis.call('SET', lock, lease_id .. ' ' .. owner, 'PX', math.min(ttl, math.floor(entry_ttl / 2)))
  return owner
end

