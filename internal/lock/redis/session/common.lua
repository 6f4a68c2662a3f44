-- Functions for every script of a session. They come before its source, after a line
-- that defines whether the server is part of a cluster.

-- now returns this server's clock, in ms.
local function now()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- last_lease_end returns when the last lease of a lock that is a hash ends, in ms of
-- this server's clock; 0 where it has none.
local function last_lease_end(lock)
  local latest = 0
  local fields = redis.call('HGETALL', lock)
  for i = 1, #fields, 2 do
    if string.sub(fields[i], 1, 6) == 'lease:' then
      latest = math.max(latest, tonumber(fields[i + 1]))
    end
  end
  return latest
end

-- no_end stands for the end of a lease that has none.
local no_end = 2 ^ 52

-- expire_with sets the expiry of a lock that is a hash to the end of its last lease. So
-- a shorter re-entry does not cut the first lease, and no lease adds to another.
local function expire_with(lock, last_end)
  if last_end < no_end then
    redis.call('PEXPIREAT', lock, last_end)
  end
end

-- prolong sets the end of one lease of a lock that is a hash, unless it ends later
-- already: a command that arrives late, or twice, must not shorten it. current is the
-- lease's end so far, or false.
local function prolong(lock, lease_id, current, ends)
  if not current or tonumber(current) < ends then
    redis.call('HSET', lock, lease_id, ends)
  end
  expire_with(lock, last_lease_end(lock))
end

-- new_ticket returns a position in a queue: this server's clock, in us, as a string.
local function new_ticket()
  local time = redis.call('TIME')
  return string.format('%d%06d', time[1], time[2])
end

-- parse_entry takes a queue entry apart. An entry is "<channel> <lease id> <ttl> <owner>":
-- where to notify the waiter, and what it asks for. A channel begins with the lock's name.
local function parse_entry(lock, entry)
  local rest, lease_id, ttl, owner = string.match(string.sub(entry, #lock + 1), '^(:%S*) (lease:%S+) (%d+) (.*)$')
  return lock .. rest, lease_id, tonumber(ttl), owner
end

-- enqueue adds the caller's entry to a queue, unless it is there, and returns its ticket:
-- the given one, or a new one where that is '0'; and 1 where the entry was queued before
-- and no longer there. A caller that does not wait has the entry ''. The queue expires
-- entry_ttl ms after its last entry was refreshed.
local function enqueue(queue, entry, ticket, entry_ttl)
  if entry == '' then
    return ticket
  end
  local before = ticket ~= '0'
  if not before then
    ticket = new_ticket()
  end
  local added = redis.call('ZADD', queue, 'NX', ticket, entry)
  redis.call('PEXPIRE', queue, entry_ttl)
  return ticket, before and added == 1 and 1 or nil
end

-- pop_listener removes entries from the head of a queue, with the command pop, until the
-- message that message(lease_id) returns reaches a subscriber. It returns that entry, or
-- nil. A waiter without a subscriber has died. On a cluster PUBLISH counts only this
-- node's subscribers, so there the first entry is taken.
local function pop_listener(pop, lock, queue, message)
  while true do
    local entry = redis.call(pop, queue)
    if type(entry) == 'table' then
      entry = entry[1] -- of ZPOPMIN
    end
    if not entry then
      return nil
    end
    local channel, lease_id = parse_entry(lock, entry)
    if redis.call('PUBLISH', channel, message(lease_id)) > 0 or cluster then
      return entry
    end
  end
end

