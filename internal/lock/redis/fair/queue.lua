-- The queue has the places of all waiters by their tickets, and a second set, KEYS[3],
-- when each of them ends if it is not looked after.

-- tell tells a waiter that it is its turn.
local function tell(lock, member)
  local channel, lease = parts(lock, member)
  redis.call('PUBLISH', channel, lease)
end

-- out takes a place away.
local function out(queue, places, member)
  redis.call('ZREM', queue, member)
  redis.call('ZREM', places, member)
  if redis.call('EXISTS', queue) == 0 then
    redis.call('DEL', places)
  end
end

-- kept keeps the queue for long enough.
local function kept(queue, places, place)
  redis.call('PEXPIRE', queue, 10 * place)
  redis.call('PEXPIRE', places, 10 * place)
end

-- head is the first place in the queue, after those that ended were taken away.
-- Waiters look after their places three times in the time that one lasts. Where
-- nobody did for half of it, it is the server that stood still, and nobody loses a
-- place for that; not a second time, though, before its own waiter did again.
local function head(queue, places, place)
  local time = now()
  local before = redis.call('ZSCORE', places, '')
  if before and time - before > place / 2 then
    for _, member in ipairs(redis.call('ZRANGE', queue, 0, -1)) do
      -- Once, until its waiter looks after it again, which makes the end a whole number.
      if (redis.call('ZSCORE', places, member) or 0) % 1 == 0 then
        redis.call('ZADD', places, time + place + 0.5, member)
      end
    end
    redis.call('ZREM', places, '')
  end
  while true do
    local first = redis.call('ZRANGE', queue, 0, 0)[1]
    if not first then
      return nil
    end
    local ends = redis.call('ZSCORE', places, first)
    if ends and tonumber(ends) > time then
      kept(queue, places, place)
      return first
    end
    out(queue, places, first)
  end
end

