-- The queue is a sorted set of all waiters' entries by their tickets. A second one, deadlines
-- (KEYS[3]), says when each entry ends unless it is refreshed. Its member '' has the time of
-- the last refresh of any entry.

-- notify tells a waiter that it is its turn.
local function notify(lock, entry)
  local channel, lease_id = parse_entry(lock, entry)
  redis.call('PUBLISH', channel, lease_id)
end

-- remove removes an entry.
local function remove(queue, deadlines, entry)
  redis.call('ZREM', queue, entry)
  redis.call('ZREM', deadlines, entry)
  if redis.call('EXISTS', queue) == 0 then
    redis.call('DEL', deadlines)
  end
end

-- keep_alive keeps the two sets from expiring while they are in use.
local function keep_alive(queue, deadlines, entry_ttl)
  redis.call('PEXPIRE', queue, 10 * entry_ttl)
  redis.call('PEXPIRE', deadlines, 10 * entry_ttl)
end

-- head returns the first entry in the queue, after it has removed the entries that ended.
-- Waiters refresh their entries three times in the life of one. Where no entry was refreshed
-- for half of that life, it is the server that stood still: each entry then gets a new life.
-- It gets only one until its waiter refreshes it.
local function head(queue, deadlines, entry_ttl)
  local time = now()
  local last_refresh = redis.call('ZSCORE', deadlines, '')
  if last_refresh and time - last_refresh > entry_ttl / 2 then
    for _, entry in ipairs(redis.call('ZRANGE', queue, 0, -1)) do
      -- The half marks an entry that got a new life. A refresh sets a whole number.
      if (redis.call('ZSCORE', deadlines, entry) or 0) % 1 == 0 then
        redis.call('ZADD', deadlines, time + entry_ttl + 0.5, entry)
      end
    end
    redis.call('ZREM', deadlines, '')
  end
  while true do
    local first = redis.call('ZRANGE', queue, 0, 0)[1]
    if not first then
      return nil
    end
    local ends = redis.call('ZSCORE', deadlines, first)
    if ends and tonumber(ends) > time then
      keep_alive(queue, deadlines, entry_ttl)
      return first
    end
    remove(queue, deadlines, first)
  end
end

