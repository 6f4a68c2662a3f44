-- A lock is a hash with the fields
--   owner                  the writer, while there is one
--   lease:<id>             when that lease of the writer ends
--   read lease:<id> OWNER  when that lease of a reader ends
--   wanted                 until when a waiting writer keeps new readers out
--   turn                   until when readers go before writers, after a writer
--   told                   how many readers of that turn have not come yet
--   for                    the queue entry of the writer that the free lock is reserved for
-- with times in ms of this server's clock. Writers wait in KEYS[2], readers in KEYS[3], both
-- by their tickets.

-- reserved_for is how long a turn, or a free lock, is reserved for waiters that were
-- notified, in ms: longer than a live waiter needs to come.
local reserved_for = 1000

-- state reads a lock and removes the leases that have ended. s.ends has the ends of the others,
-- by their fields.
local function state(lock)
  local time = now()
  local s = {time = time, writers = 0, readers = 0, last_end = 0, wanted = 0, turn = 0, reading = {}, ends = {}}
  local fields = redis.call('HGETALL', lock)
  for i = 1, #fields, 2 do
    local field, value = fields[i], fields[i + 1]
    local reader = string.match(field, '^read lease:%S+ (.*)$')
    if field == 'owner' or field == 'for' then
      s[field] = value
    elseif field == 'wanted' or field == 'turn' or field == 'told' then
      s[field] = tonumber(value)
    elseif tonumber(value) <= time then
      redis.call('HDEL', lock, field)
    else
      s.ends[field] = tonumber(value)
      s.last_end = math.max(s.last_end, s.ends[field])
      if reader then
        s.readers = s.readers + 1
        s.reading[reader] = true
        s.reader = reader
      else
        s.writers = s.writers + 1
      end
    end
  end
  if s.writers == 0 and s.owner then
    redis.call('HDEL', lock, 'owner')
    s.owner = nil
  end
  return s
end

-- granted_end returns when a lease that is granted ends: ttl from now, or later where it ends
-- later already. A command that arrives late, or twice, must not shorten it.
local function granted_end(s, field, ttl)
  return math.max(s.ends[field] or 0, s.time + ttl)
end

-- admit_readers starts a turn of the readers: it notifies all waiting readers, in all
-- processes, and keeps writers out until they have come or had the time to. It returns false
-- where none of them listens.
local function admit_readers(lock, readers)
  local entries = redis.call('ZRANGE', readers, 0, -1)
  if #entries == 0 then
    return false
  end
  redis.call('DEL', readers)
  local heard, told = {}, 0
  for _, entry in ipairs(entries) do
    local channel = parse_entry(lock, entry)
    if heard[channel] == nil then
      heard[channel] = redis.call('PUBLISH', channel, '*') > 0 or cluster
    end
    told = told + (heard[channel] and 1 or 0)
  end
  if told == 0 then
    return false
  end
  local left = redis.call('PTTL', lock)
  redis.call('HSET', lock, 'turn', now() + reserved_for, 'told', told)
  if left < reserved_for then
    redis.call('PEXPIRE', lock, reserved_for)
  end
  return true
end

-- reader_came records that a notified reader has come, or will not. The turn ends with the
-- last of them.
local function reader_came(lock)
  if redis.call('HINCRBY', lock, 'told', -1) <= 0 then
    redis.call('HDEL', lock, 'turn', 'told')
    return true
  end
  return false
end

-- admit_writer reserves a free lock for the first waiting writer that listens, and notifies
-- it. Returns its queue entry, or nil.
local function admit_writer(lock, queue)
  local entry = pop_listener('ZPOPMIN', lock, queue, function()
    return ''
  end)
  if entry then
    redis.call('HSET', lock, 'for', entry)
    redis.call('PEXPIRE', lock, reserved_for)
  end
  return entry
end

