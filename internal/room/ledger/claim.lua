-- Give a visitor who is called a pass, or the pass that the visitor has. A pass counts before the visitor has it: a call that
-- stops in between leaves one that lapses.
--
-- Of the passes that are live, each finds a unit. The caller knew D passes to be spent, and then read a stock of S units.
-- Passes that were spent since, and live ones, are at most issued - lapsed - D. Each of them takes one unit of these S at
-- most, and nobody else takes one. So another pass may be issued while issued - lapsed - D < S.
--
-- KEYS[1]  the room: a hash, see the package ledger
-- KEYS[2]  some of its users: a hash, user -> visit
-- ARGV[1]  the user
-- ARGV[2]  the number on the user's ticket
-- ARGV[3]  how many passes are issued a second
-- ARGV[4]  for how long a pass is valid, in ms
-- ARGV[5]  a stock that was read, ARGV[6] how many passes were spent before that, ARGV[7] in which state; -1, 0, '' for none
-- ARGV[8]  what the database knows of a user whom Redis does not know: '' not asked, 'n' no order, 'o' an order
-- ARGV[9]  for how long KEYS[2] is kept, in s
-- ARGV[10] passes lapse for the accounts at multiples of this, in s
--
-- Replies  {verdict, now, until, number}
--            verdict  0 the visitor has a pass
--                     1 missing: Redis has no state of the room
--                     2 the stock was read in another state, or not at all
--                     3 called, and the rate is awaited
--                     4 called, and a unit is awaited
--                     5 the pass was spent
--                     6 over: the pass has lapsed, or the user has another ticket
--                     7 Redis does not know the user: the database is to be asked
--            now      in ms of this server's clock
--            until    when the pass lapses, in ms; 0 without one
--            number   that of the ticket of the pass; 0 without one
local room, users, user, number = KEYS[1], KEYS[2], ARGV[1], tonumber(ARGV[2])
local rate = tonumber(ARGV[3])
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local second = math.floor(now / 1000)
local has = redis.call('HMGET', room, 'born', 'issued', 'lapsed', 'spent', 'tokens', 'filled', 'g:' .. second, 'w:' .. second)
if not has[1] then
  return {1, now, 0, 0}
end
local visit = redis.call('HGET', users, user)
local seq, over, untilMS, mark
if visit then
  seq, over, untilMS, mark = string.match(visit, '^(%d+),(%-?%d+),(%d+),(.*)$')
  seq, over, untilMS = tonumber(seq), tonumber(over), tonumber(untilMS)
  if number <= over then
    return {6, now, 0, 0}
  elseif mark == 's' and number <= seq then
    return {5, now, 0, 0}
  elseif untilMS > now and number <= seq then
    return {0, now, untilMS, seq}
  elseif untilMS > 0 and number <= seq then
    return {6, now, 0, 0}
  end
end
-- The visitor has no pass. The smaller one of two tickets counts, unless an order or a pass came between them: Redis has
-- lost the visit of one of them.
if not visit or mark == 'v' or seq ~= number then
  if ARGV[8] == '' then
    return {7, now, 0, 0}
  elseif ARGV[8] == 'o' then
    redis.call('HSET', users, user, string.format('%d,%d,1,s', number, number - 1))
    redis.call('EXPIRE', users, ARGV[9])
    return {5, now, 0, 0}
  end
  if visit and number > seq then
    over = untilMS > 0 and seq or over
  end
  over = over or -1
  redis.call('HSET', users, user, string.format('%d,%d,0,', number, over))
  redis.call('EXPIRE', users, ARGV[9])
end
if has[1] ~= ARGV[7] then
  return {2, now, 0, 0}
end
local issued = tonumber(has[2])
local tokens = tonumber(has[5])
local elapsed = math.max(0, math.min(1000, now - tonumber(has[6]))) -- whatever the clock does
tokens = math.min(math.max(1, rate / 4), tokens + rate * elapsed / 1000)
local verdict = 0
if issued - tonumber(has[3]) - math.min(tonumber(ARGV[6]), tonumber(has[4])) >= tonumber(ARGV[5]) then
  verdict = 4
elseif tokens < 1 then
  verdict = 3
end
local since = mark and string.match(mark, '^w(%d+)$')
if verdict ~= 0 then
  local changes = {'tokens', string.format('%.6f', tokens), 'filled', now}
  if not since then -- counted once, however often the visitor asks
    changes[5], changes[6] = 'w:' .. second, tonumber(has[8] or 0) + 1
  end
  redis.call('HSET', room, unpack(changes))
  if not since then
    redis.call('HSET', users, user, string.format('%d,%d,0,w%d', number, over, second))
    redis.call('EXPIRE', users, ARGV[9])
  end
  return {verdict, now, 0, 0}
end
untilMS = now + tonumber(ARGV[4])
local grain = tonumber(ARGV[10])
local lapses = 'e:' .. math.ceil(untilMS / 1000 / grain) * grain
local live = tonumber(redis.call('HGET', room, lapses) or 0)
local changes = {'issued', issued + 1, 'tokens', string.format('%.6f', tokens - 1), 'filled', now,
  'g:' .. second, tonumber(has[7] or 0) + 1, lapses, live + 1}
if since then
  local waiting = tonumber(redis.call('HGET', room, 'w:' .. since) or 0)
  if waiting > 0 then
    changes[#changes + 1], changes[#changes + 2] = 'w:' .. since, waiting - 1
  end
end
redis.call('HSET', room, unpack(changes))
redis.call('HSET', users, user, string.format('%d,%d,%d,', number, over, untilMS))
redis.call('EXPIRE', users, ARGV[9])
return {0, now, untilMS, number}
