-- Take the lock for one lease, or say who holds it and wait in the queue.
--
-- KEYS[1]  the lock: a hash with the fields
--            owner       who holds it
--            token       the holder's fencing token
--            lease:<id>  when that lease ends, in ms of this server's clock
--          or the string "for:<process>" in the moment after a release in which it
--          is kept for who was told
-- KEYS[2]  the queue: the processes that wait, by their tickets
-- KEYS[3]  the newest token
-- ARGV[1]  the owner
-- ARGV[2]  the lease, lease:<id>
-- ARGV[3]  the lease given, in ms
-- ARGV[4]  the name of the caller's process if it waits, else ''
-- ARGV[5]  the ticket it has, or 0
-- ARGV[6]  how long a place in the queue lasts unattended, in ms
-- ARGV[7]  1 if others of the process go on waiting
--
-- Replies  token                granted; also when this lease had it already, so
--                               that repeating the script after a lost reply
--                               changes nothing
--          {owner, ttl, ticket} refused: who holds it, PTTL (-1: it has no
--                               expiry) and the place in the queue
local lock, queue, owner, lease, given, process = KEYS[1], KEYS[2], ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]

local function refused(holder)
  return {holder, redis.call('PTTL', lock), queued(queue, process, ARGV[5], ARGV[6])}
end

local value = redis.pcall('GET', lock)
local token
if type(value) == 'table' then -- a hash: somebody holds it
  local held = redis.call('HMGET', lock, 'owner', 'token')
  if held[1] ~= owner then
    return refused(held[1])
  end
  token = held[2] -- the same holder, the same token
elseif value and string.sub(value, 1, 4) ~= 'for:' then
  return redis.error_reply('WRONGTYPE the key holds a string that is no lock')
elseif value and value ~= 'for:' .. process then
  return refused('')
elseif not value and process ~= '' then
  -- The last lease ran out and everybody noticed. Who waits longest goes first.
  local first = redis.call('ZRANGE', queue, 0, 0, 'WITHSCORES')
  local mine = tonumber(ARGV[5])
  if first[1] and first[1] ~= process and (mine == 0 or mine > tonumber(first[2])) then
    if offer(lock, queue) ~= process then
      return refused('')
    end
  end
end
if not token then
  token = next_token(KEYS[3])
  redis.call('DEL', lock)
  redis.call('HSET', lock, 'owner', owner, 'token', token)
end

redis.call('HSET', lock, lease, now() + given)
lasts(lock, farthest(lock))
if process ~= '' then
  redis.call('ZREM', queue, process)
  if ARGV[7] == '1' then
    queued(queue, process, '0', ARGV[6])
  end
end
return tonumber(token)
