-- A lock is a hash with the fields
--   owner                  the writer, while there is one
--   lease:<id>             when that lease of the writer ends
--   read lease:<id> OWNER  when that lease of a reader ends
--   wanted                 until when a waiting writer keeps new readers out
--   turn                   until when readers go before writers, after a writer
--   told                   how many of them are still to come
--   for                    the place of the writer that the free lock is kept for
-- with times in ms of this server's clock. Writers wait in KEYS[2], readers in
-- KEYS[3], under their tickets.

-- how long a turn, or a free lock, is kept for who was told, in ms: longer than anybody
-- who lives needs to come
local kept = 1000

-- state reads a lock and takes out what ran out.
local function state(lock)
  local time = now()
  local s = {time = time, writers = 0, readers = 0, latest = 0, wanted = 0, turn = 0, reading = {}}
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
      s.latest = math.max(s.latest, tonumber(value))
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

-- admit_readers tells every reader that waits, in all processes, and lets no writer
-- in before they have come, or had the time to. Returns false where nobody listens.
local function admit_readers(lock, readers)
  local members = redis.call('ZRANGE', readers, 0, -1)
  if #members == 0 then
    return false
  end
  redis.call('DEL', readers)
  local heard, told = {}, 0
  for _, member in ipairs(members) do
    local channel = parts(lock, member)
    if heard[channel] == nil then
      heard[channel] = redis.call('PUBLISH', channel, '*') > 0 or cluster
    end
    told = told + (heard[channel] and 1 or 0)
  end
  if told == 0 then
    return false
  end
  local left = redis.call('PTTL', lock)
  redis.call('HSET', lock, 'turn', now() + kept, 'told', told)
  if left < kept then
    redis.call('PEXPIRE', lock, kept)
  end
  return true
end

-- came notes that a reader that was told has come, or will not. The turn is over with
-- the last of them.
local function came(lock)
  if redis.call('HINCRBY', lock, 'told', -1) <= 0 then
    redis.call('HDEL', lock, 'turn', 'told')
    return true
  end
  return false
end

-- admit_writer keeps a free lock for the writer that waits longest, and tells it.
local function admit_writer(lock, queue)
  local told = first_out('ZPOPMIN', lock, queue, function()
    return ''
  end)
  if told then
    redis.call('HSET', lock, 'for', told)
    redis.call('PEXPIRE', lock, kept)
  end
  return told
end

