-- Take the lock for one lease, or say who holds it and wait in the queue.
--
-- KEYS[1]  the lock. A string while it has one lease: "<lease> <owner>". A hash once
--          its owner has several:
--            owner       who holds it
--            lease:<id>  when that lease ends, in ms of this server's clock
-- KEYS[2]  the queue: a list of one waiter of each process
-- ARGV[1]  the owner
-- ARGV[2]  the lease, lease:<id>
-- ARGV[3]  the lease given, in ms
-- ARGV[4]  the caller's place if it waits, else ''
-- ARGV[5]  1 if it was in the queue before, else 0
-- ARGV[6]  how long a place in the queue lasts unattended, in ms
-- ARGV[7]  1 if this attempt is a repetition, else 0
--
-- Replies  0                    granted; also when this lease has it already: by an
--                               earlier attempt whose reply was lost, or because it
--                               was passed on to it
--          {owner, ttl, '1'}    refused, and in the queue: who holds it, and PTTL
--                               (-1: it has no expiry)
local lock, queue, owner, lease, given, member = KEYS[1], KEYS[2], ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]

local function granted()
  if member ~= '' then
    redis.call('LREM', queue, 1, member)
  end
  return 0
end

-- A place that is not there any more was told of the lock and did not come in time,
-- or was lost with the queue: it is the first again.
local function refused(holder)
  local ttl = redis.call('PTTL', lock)
  if member ~= '' then
    if ARGV[5] == '0' and ARGV[7] == '0' then
      redis.call('RPUSH', queue, member)
    elseif not redis.call('LPOS', queue, member) then
      redis.call(ARGV[5] == '0' and 'RPUSH' or 'LPUSH', queue, member)
    end
    redis.call('PEXPIRE', queue, ARGV[6])
  end
  return {holder, ttl, '1'}
end

-- Takes one more lease for an owner who has some already.
local function reenter()
  lengthened(lock, lease, redis.call('HGET', lock, lease), now() + given)
  return granted()
end

local value = redis.pcall('GET', lock)
if type(value) == 'table' then -- not a string
  local holder = redis.call('HGET', lock, 'owner')
  if holder ~= owner then
    return refused(holder)
  end
  return reenter()
end

if not value then
  if member ~= '' then
    -- The last lease ran out and everybody noticed. Who waits longest goes first.
    local first = redis.call('LINDEX', queue, 0)
    if first and first ~= member and (ARGV[5] == '0' or redis.call('LPOS', queue, member)) then
      if pass(lock, queue, tonumber(ARGV[6])) then
        value = redis.call('GET', lock)
      end
    end
  end
  if not value then
    redis.call('SET', lock, lease .. ' ' .. owner, 'PX', given)
    return granted()
  end
end

local held, holder = string.match(value, '^(lease:%S+) (.*)$')
if not held then
  return redis.error_reply('WRONGTYPE the key holds a string that is no lock')
elseif holder ~= owner then
  return refused(holder)
elseif held == lease then
  local left = redis.call('PTTL', lock)
  if left >= 0 and left < given then
    redis.call('PEXPIRE', lock, given)
  end
  return granted()
end

-- The owner again: from here on each lease has an end of its own.
local left = redis.call('PTTL', lock)
redis.call('DEL', lock)
redis.call('HSET', lock, 'owner', owner, held, left >= 0 and now() + left or never)
return reenter()
