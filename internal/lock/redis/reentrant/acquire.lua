-- Acquire the lock for one lease, or return its holder and join the queue.
--
-- KEYS[1]  the lock. A string while it has one lease: "<lease id> <owner>". A hash once
--          its owner has several:
--            owner       the holder
--            lease:<id>  when that lease ends, in ms of this server's clock
-- KEYS[2]  the queue: a list with one entry per waiting process
-- ARGV[1]  the owner
-- ARGV[2]  the lease id, lease:<id>
-- ARGV[3]  the TTL, in ms
-- ARGV[4]  the caller's queue entry if it waits, else ''
-- ARGV[5]  1 if the entry was queued before, else 0
-- ARGV[6]  how long a queue entry lasts unless it is refreshed, in ms
-- ARGV[7]  1 if this attempt is a repetition, else 0
--
-- Replies  0                  granted. Also where this lease holds the lock already: an
--                             earlier attempt whose reply was lost, or a release, granted it
--          {owner, ttl, '1'}  refused and queued: the holder, and PTTL (-1: no expiry). A 1
--                             follows where the entry was queued before and no longer there
local lock, queue, owner, lease_id, ttl, entry = KEYS[1], KEYS[2], ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]

local function granted()
  if entry ~= '' then
    redis.call('LREM', queue, 1, entry)
  end
  return 0
end

-- An entry that was queued before and is no longer there was notified and came late, or the
-- queue was lost: it becomes the first again.
local function refused(holder)
  local left, gone = redis.call('PTTL', lock), nil
  if entry ~= '' then
    if ARGV[5] == '0' and ARGV[7] == '0' then
      redis.call('RPUSH', queue, entry)
    elseif not redis.call('LPOS', queue, entry) then
      redis.call(ARGV[5] == '0' and 'RPUSH' or 'LPUSH', queue, entry)
      gone = 1
    end
    redis.call('PEXPIRE', queue, ARGV[6])
  end
  return {holder, left, '1', gone}
end

-- Adds a lease for an owner that has some already.
local function reenter()
  prolong(lock, lease_id, redis.call('HGET', lock, lease_id), now() + ttl)
  return granted()
end

local value = redis.pcall('GET', lock)
if type(value) == 'table' then -- an error: the lock is a hash
  local holder = redis.call('HGET', lock, 'owner')
  if holder ~= owner then
    return refused(holder)
  end
  return reenter()
end

if not value then
  if entry ~= '' then
    -- The last lease expired, and all waiters noticed. The first in the queue gets the lock.
    local first = redis.call('LINDEX', queue, 0)
    if first and first ~= entry and (ARGV[5] == '0' or redis.call('LPOS', queue, entry)) then
      if grant_next(lock, queue, tonumber(ARGV[6])) then
        value = redis.call('GET', lock)
      end
    end
  end
  if not value then
    redis.call('SET', lock, lease_id .. ' ' .. owner, 'PX', ttl)
    return granted()
  end
end

local held, holder = string.match(value, '^(lease:%S+) (.*)$')
if not held then
  return redis.error_reply('WRONGTYPE the key holds a string that is no lock')
elseif holder ~= owner then
  return refused(holder)
elseif held == lease_id then
  local left = redis.call('PTTL', lock)
  if left >= 0 and left < ttl then
    redis.call('PEXPIRE', lock, ttl)
  end
  return granted()
end

-- The same owner: from here on the lock is a hash, and each lease has its own end.
local left = redis.call('PTTL', lock)
redis.call('DEL', lock)
redis.call('HSET', lock, 'owner', owner, held, left >= 0 and now() + left or no_end)
return reenter()
