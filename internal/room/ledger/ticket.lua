-- Give a user the number of the ticket that the user has, or the next one. The number counts before the user has it: a call
-- that stops in between leaves a number that nobody has.
--
-- KEYS[1]  the room: a hash, see the package ledger
-- KEYS[2]  some of its users: a hash, user -> visit
-- KEYS[3]  some of its addresses: a hash, address -> tickets in the draw
-- ARGV[1]  the user
-- ARGV[2]  the number on a ticket that the user has shown; '' for none
-- ARGV[3]  how many numbers the database has reserved, as far as the caller knows
-- ARGV[4]  how many numbers the caller knows to be told
-- ARGV[5]  for how long KEYS[2] and KEYS[3] are kept, in s
-- ARGV[6]  the address of the user, and ARGV[7] how many tickets it may have in the draw; 0 for no limit
--
-- Replies  {verdict, now, number, tickets}
--            verdict  0 the ticket has this number
--                     1 missing: Redis has no state of the room
--                     2 more numbers are to be reserved before one can be told
--                     3 the address has enough tickets in the draw
--            now      in ms of this server's clock
--            tickets  how many numbers were told
local room, users, user = KEYS[1], KEYS[2], ARGV[1]
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local has = redis.call('HMGET', room, 'born', 'tickets', 'reserved', 'drawn')
if not has[1] then
  return {1, now, 0, 0}
end
local tickets = math.max(tonumber(has[2]), tonumber(ARGV[4]))
local visit = redis.call('HGET', users, user)
local over = -1
if visit then
  local seq, before, untilMS, mark = string.match(visit, '^(%d+),(%-?%d+),(%d+),(.*)$')
  local passed = untilMS ~= '0' and (mark == 's' or now >= tonumber(untilMS))
  if not passed then
    return {0, now, tonumber(seq), tickets}
  end
  over = tonumber(seq)
elseif ARGV[2] ~= '' and tonumber(ARGV[2]) < tickets then
  -- Redis has forgotten the user. Whether the ticket was used already is asked for before it is worth a pass.
  redis.call('HSET', users, user, ARGV[2] .. ',-1,0,v')
  redis.call('EXPIRE', users, ARGV[5])
  return {0, now, tonumber(ARGV[2]), tickets}
end
local reserved = math.max(tonumber(has[3]), tonumber(ARGV[3]))
if tickets >= reserved then
  return {2, now, 0, tickets}
end
local limit = tonumber(ARGV[7])
if limit > 0 and tonumber(has[4]) < 0 then
  local own = tonumber(redis.call('HGET', KEYS[3], ARGV[6]) or 0)
  if own >= limit then
    return {3, now, 0, tickets}
  end
  redis.call('HSET', KEYS[3], ARGV[6], own + 1)
  redis.call('EXPIRE', KEYS[3], ARGV[5])
end
redis.call('HSET', room, 'tickets', tickets + 1, 'reserved', reserved)
redis.call('HSET', users, user, string.format('%d,%d,0,', tickets, over))
redis.call('EXPIRE', users, ARGV[5])
return {0, now, tickets, tickets + 1}
