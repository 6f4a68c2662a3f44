-- Take the lock for one lease, or say who holds it and wait in the queue.
--
-- KEYS[1]  the lock. A string while it has one lease: "<lease> <owner>". A hash once
--          its owner has several:
--            owner       who holds it
--            lease:<id>  when that lease ends, in ms of this server's clock
-- KEYS[2]  the queue: one waiter of each process, by their tickets
-- ARGV[1]  the owner
-- ARGV[2]  the lease, lease:<id>
-- ARGV[3]  the lease given, in ms
-- ARGV[4]  the caller's place if it waits, else ''
-- ARGV[5]  the ticket it has, or 0
-- ARGV[6]  how long a place in the queue lasts unattended, in ms
--
-- Replies  0                    granted; also when this lease has it already: by an
--                               earlier attempt whose reply was lost, or because it
--                               was passed on to it
--          {owner, ttl, ticket} refused: who holds it, PTTL (-1: it has no
--                               expiry) and the place in the queue
local lock, queue, owner, lease, given, member = KEYS[1], KEYS[2], ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]

local function granted()
  if member ~= '' then
    redis.call('ZREM', queue, member)
  end
  return 0
end

local function refused(holder)
  return {holder, redis.call('PTTL', lock), queued(queue, member, ARGV[5], ARGV[6])}
end

-- Takes one more lease for an owner who has some already.
local function reenter()
  redis.call('HSET', lock, lease, now() + given)
  lasts(lock, farthest(lock))
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
    local first = redis.call('ZRANGE', queue, 0, 0, 'WITHSCORES')
    local mine = tonumber(ARGV[5])
    if first[1] and first[1] ~= member and (mine == 0 or mine > tonumber(first[2])) then
      local holder = pass(lock, queue, tonumber(ARGV[6]))
      if holder and holder ~= owner then
        return refused(holder)
      end
    end
  end
  redis.call('SET', lock, lease .. ' ' .. owner, 'PX', given)
  return granted()
end

local held, holder = string.match(value, '^(lease:%S+) (.*)$')
if not held then
  return redis.error_reply('WRONGTYPE the key holds a string that is no lock')
elseif holder ~= owner then
  return refused(holder)
elseif held == lease then
  redis.call('PEXPIRE', lock, given)
  return granted()
end

-- The owner again: from here on each lease has an end of its own.
local left = redis.call('PTTL', lock)
redis.call('DEL', lock)
redis.call('HSET', lock, 'owner', owner, held, left >= 0 and now() + left or never)
return reenter()
