-- Draw, count what has lapsed, and call the next visitors, as far as the time since the last call of any process allows
-- it. Everything is written at once.
--
-- KEYS[1]  the room: a hash, see the package ledger
-- ARGV[1]  when the sale begins, in ms
-- ARGV[2]  1 while visitors are called, 0 while the sale is paused or over
-- ARGV[3]  how many passes are issued a second
-- ARGV[4]  how many tickets the draw of the database has; -1 if it has none, as far as the caller knows
-- ARGV[5]  how many ticket numbers and ARGV[6] up to which position the caller knows to be told
-- ARGV[7]  how many numbers the database has reserved, as far as the caller knows
-- ARGV[8]  a stock that was read, ARGV[9] how many passes were spent before that, ARGV[10] in which state; -1, 0, '' for none
-- ARGV[11] for how long the state is kept, in s
--
-- Replies  {verdict, now, tickets, drawn, serving, issued, spent, lapsed, share, backlog, reserved, save, born}
--            verdict  0 done
--                     1 missing: Redis has no state of the room
--            now      in ms of this server's clock
--            drawn    how many tickets the draw has; -1 before it
--            share    of those who were called, how many of 1000 have come
--            backlog  about how many who are called wait for a pass
--            save     1 for one caller a second: it tells the database up to where visitors were called
local room = KEYS[1]
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local second = math.floor(now / 1000)
local all = redis.call('HGETALL', room)
local has, samples = {}, {}
for i = 1, #all, 2 do
  local kind, at = string.match(all[i], '^(%a):(%d+)$')
  if kind then
    samples[#samples + 1] = {all[i], kind, tonumber(at), tonumber(all[i + 1])}
  end
  has[all[i]] = all[i + 1]
end
if not has.born then
  return {1, now}
end
local begin, rate = tonumber(ARGV[1]), tonumber(ARGV[3])
local drawn = tonumber(ARGV[4])
local settled = drawn >= 0
local tickets = math.max(tonumber(has.tickets), tonumber(ARGV[5]), drawn)
if not settled then
  drawn = tonumber(has.drawn)
  if drawn < 0 and now >= begin then
    drawn = tickets
  end
end
local serving = math.max(tonumber(has.serving), tonumber(ARGV[6]))
local reserved = math.max(tonumber(has.reserved), tonumber(ARGV[7]))

-- What passes have lapsed, and what the last seconds were like. A clock that jumps leaves samples of seconds far away.
local changes, gone, lapsed = {}, {}, tonumber(has.lapsed)
local called, came, recent, backlog = 0, 0, 0, 0
for _, sample in ipairs(samples) do
  local field, kind, at, n = unpack(sample)
  local age = second - at
  if kind == 'e' then
    if age >= 0 then
      lapsed = lapsed + n
      changes[#changes + 1] = field
      changes[#changes + 1] = 0
      gone[#gone + 1] = field
    end
  elseif age > 15 or age < -1 then
    gone[#gone + 1] = field
  elseif kind == 'c' then
    if age >= 3 and age < 13 then
      called = called + n
    elseif age < 3 then
      recent = recent + n
    end
  elseif kind == 'g' then
    if age < 10 then
      came = came + n
    end
    if age < 3 then
      recent = recent - n
    end
  elseif kind == 'w' and age < 10 then
    backlog = backlog + n
  end
end
-- Visitors who wait for a pass have come. A few more on both sides keep a handful of visitors from deciding.
local share = math.max(0.05, math.min(1, (came + backlog + 5) / (called + 5)))

local elapsed = math.max(0, math.min(1000, now - tonumber(has.last)))
local credit, next = tonumber(has.credit), 0
if ARGV[2] == '1' and settled and now >= begin and elapsed > 0 then
  local pace = rate / share
  if backlog < rate / 2 then
    pace = 1.1 * pace -- some who wait, for a second, keep the rate busy
  elseif backlog > rate + 2 then
    pace = 0
  end
  credit = math.min(credit + pace * elapsed / 1000, math.max(1, pace))
  next = math.min(math.floor(credit), tickets - serving)
  local left = 0
  if has.born == ARGV[10] then
    left = tonumber(ARGV[8]) - tonumber(has.issued) + lapsed + math.min(tonumber(ARGV[9]), tonumber(has.spent))
  end
  next = math.max(0, math.min(next, math.ceil((left - math.max(0, recent * share)) / share)))
  credit = credit - next
  if next > 0 then
    changes[#changes + 1] = 'c:' .. second
    changes[#changes + 1] = next + tonumber(has['c:' .. second] or 0)
  end
end
serving = serving + next
local save, saved = 0, tonumber(has.saved)
if now - saved >= 1000 or now < saved then
  save, saved = 1, now
end
redis.call('HSET', room, 'tickets', tickets, 'drawn', drawn, 'serving', serving, 'reserved', reserved, 'last', now,
  'credit', string.format('%.6f', credit), 'saved', saved, 'lapsed', lapsed, unpack(changes))
if #gone > 0 then
  redis.call('HDEL', room, unpack(gone))
end
redis.call('EXPIRE', room, ARGV[11])
return {
  0, now, tickets, drawn, serving, tonumber(has.issued), tonumber(has.spent), lapsed,
  math.floor(share * 1000), backlog, reserved, save, has.born,
}
