-- Functions that every script of a session may use. They go before its source.

-- now is this server's clock, in ms.
local function now()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- farthest is when the last lease ends of a lock that is a hash, in ms of this
-- server's clock; 0 where it has none.
local function farthest(lock)
  local latest = 0
  local fields = redis.call('HGETALL', lock)
  for i = 1, #fields, 2 do
    if string.sub(fields[i], 1, 6) == 'lease:' then
      latest = math.max(latest, tonumber(fields[i + 1]))
    end
  end
  return latest
end

-- never is the end of a lease that has none.
local never = 2 ^ 52

-- lasts lets a lock that is a hash live as long as the lease that ends last: a
-- shorter re-entry does not cut the first lease, and no lease adds to another.
local function lasts(lock, latest)
  if latest < never then
    redis.call('PEXPIREAT', lock, latest)
  end
end

-- ticket is a place in a queue: this server's clock, in us, as a string.
local function ticket()
  local time = redis.call('TIME')
  return string.format('%d%06d', time[1], time[2])
end

-- queued takes the caller's place in a queue, with the ticket it has or, if that is
-- '0', with a new one, and returns the ticket. A queue that nobody looks after ends
-- by itself after place ms.
local function queued(queue, member, has, place)
  if member == '' then
    return has
  end
  local at = has
  if at == '0' then
    at = ticket()
  end
  redis.call('ZADD', queue, 'NX', at, member)
  redis.call('PEXPIRE', queue, place)
  return at
end

-- announce tells the process that waits longest that a lock is free, and returns
-- its name for the lock to be kept for it, or nil. A process that has gone does not
-- listen, so the next is told as well; on a cluster nobody may seem to listen,
-- since only this node's subscribers count.
local function announce(queue)
  local first
  for _ = 1, 8 do
    local member = redis.call('ZPOPMIN', queue)[1]
    if not member then
      break
    end
    if redis.call('PUBLISH', member, '') > 0 then
      return member
    end
    first = first or member
  end
  return first
end

-- offer gives a lock that is free to the process that waits longest: it is told,
-- and for a moment nobody else gets in. Returns its name, or nil.
local function offer(lock, queue)
  local told = announce(queue)
  if told then
    redis.call('SET', lock, 'for:' .. told, 'PX', 250)
  end
  return told
end
