-- Take the lock for one lease, or say who holds it and wait in the queue.
--
-- KEYS[1]  the lock: a hash with the fields
--            owner       who holds it
--            token       the holder's fencing token
--            lease:<id>  when that lease ends, in ms of this server's clock
-- KEYS[2]  the queue: one waiter of each process, by their tickets
-- KEYS[3]  the newest token
-- ARGV[1]  the owner
-- ARGV[2]  the lease, lease:<id>
-- ARGV[3]  the lease given, in ms
-- ARGV[4]  the caller's place if it waits, else ''
-- ARGV[5]  the ticket it has, or 0
-- ARGV[6]  how long a place in the queue lasts unattended, in ms
--
-- Replies  token                granted; also when this lease has it already: by an
--                               earlier attempt whose reply was lost, or because it
--                               was passed on to it
--          {owner, ttl, ticket} refused: who holds it, PTTL (-1: it has no
--                               expiry) and the place in the queue
local lock, queue, counter, owner, lease, given, member =
  KEYS[1], KEYS[2], KEYS[3], ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]

local function refused(holder)
  return {holder, redis.call('PTTL', lock), queued(queue, member, ARGV[5], ARGV[6])}
end

local held = redis.call('HMGET', lock, 'owner', 'token', lease)
local holder, token = held[1], held[2]
if holder and holder ~= owner then
  return refused(holder)
end
if not holder and member ~= '' then
  -- The last lease ran out and everybody noticed. Who waits longest goes first.
  local first = redis.call('ZRANGE', queue, 0, 0, 'WITHSCORES')
  local mine = tonumber(ARGV[5])
  if first[1] and first[1] ~= member and (mine == 0 or mine > tonumber(first[2])) then
    holder = pass(lock, queue, counter, tonumber(ARGV[6]))
    if holder and holder ~= owner then
      return refused(holder)
    end
  end
end
if not holder then
  token = next_token(counter)
  redis.call('HSET', lock, 'owner', owner, 'token', token)
end

lengthened(lock, lease, held[3], now() + given)
if member ~= '' then
  redis.call('ZREM', queue, member)
end
return tonumber(token or redis.call('HGET', lock, 'token'))
