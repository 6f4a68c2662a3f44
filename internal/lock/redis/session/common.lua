-- Functions that every script of a session may use. They go before its source, after
-- a line that says whether the server is part of a cluster.

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

-- lengthened lets a lease of a lock that is a hash end at ends, if that is later than
-- it does: a command that arrives late, or a second time, must not take from it.
local function lengthened(lock, lease, had, ends)
  if not had or tonumber(had) < ends then
    redis.call('HSET', lock, lease, ends)
  end
  lasts(lock, farthest(lock))
end

-- ticket is a place in a queue: this server's clock, in us, as a string.
local function ticket()
  local time = redis.call('TIME')
  return string.format('%d%06d', time[1], time[2])
end

-- A place in a queue is called "<channel> <lease> <ttl> <owner>": where to tell the
-- waiter, and what it asks for. A channel begins with the lock's name.
local function parts(lock, member)
  local rest, lease, ttl, owner = string.match(string.sub(member, #lock + 1), '^(:%S*) (lease:%S+) (%d+) (.*)$')
  return lock .. rest, lease, tonumber(ttl), owner
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

-- first_out takes the first place that somebody listens at out of a queue (by the
-- command pop), says to it what say(lease) returns, and returns its name, or nil.
-- Whoever does not listen has gone; but on a cluster only this node's subscribers
-- count, and the first is taken at its word.
local function first_out(pop, lock, queue, say)
  while true do
    local member = redis.call(pop, queue)
    if type(member) == 'table' then
      member = member[1] -- of ZPOPMIN
    end
    if not member then
      return nil
    end
    local channel, lease = parts(lock, member)
    if redis.call('PUBLISH', channel, say(lease)) > 0 or cluster then
      return member
    end
  end
end
