-- Mark a pass as in use by a request, as spent by its order, or as free again. A pass in use is counted as live for longer,
-- since its order may be under way when it lapses.
--
-- KEYS[1]  the room: a hash, see the package ledger
-- KEYS[2]  some of its users: a hash, user -> visit
-- ARGV[1]  the user
-- ARGV[2]  the number on the pass
-- ARGV[3]  when the pass lapses, in ms
-- ARGV[4]  use, spent or free
-- ARGV[5]  a name of the request, which begins with u
-- ARGV[6]  how long an order may be under way, in s
-- ARGV[7]  passes lapse for the accounts at multiples of this, in s
--
-- Replies  {verdict, now}
--            verdict  0 done
--                     1 missing: Redis has no state of the room
--                     2 Redis does not know the pass
--                     3 the pass has lapsed
--                     4 the pass is spent, or in use by another request
--            now      in ms of this server's clock
local room, users, user = KEYS[1], KEYS[2], ARGV[1]
local verb, request = ARGV[4], ARGV[5]
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local grain = tonumber(ARGV[7])
local lapses = math.ceil(tonumber(ARGV[3]) / 1000 / grain) * grain
local late = lapses + math.ceil(tonumber(ARGV[6]) / grain) * grain
local has = redis.call('HMGET', room, 'born', 'spent', 'e:' .. lapses, 'e:' .. late)
if not has[1] then
  return {1, now}
end
local visit = redis.call('HGET', users, user)
if not visit then
  return {2, now}
end
local seq, over, untilMS, mark = string.match(visit, '^(%d+),(%-?%d+),(%d+),(.*)$')
if seq ~= ARGV[2] or untilMS ~= ARGV[3] then
  return {2, now}
end
local head = seq .. ',' .. over .. ',' .. untilMS .. ','
local normal, longer = tonumber(has[3] or 0), tonumber(has[4] or 0)
if verb == 'use' then
  if mark == request then
    return {0, now}
  elseif mark ~= '' then
    return {4, now}
  elseif now >= tonumber(untilMS) then
    return {3, now}
  end
  -- The count comes first: a call that stops in between leaves the sum as it is.
  if normal > 0 then
    redis.call('HSET', room, 'e:' .. lapses, normal - 1, 'e:' .. late, longer + 1)
  end
  redis.call('HSET', users, user, head .. request)
  return {0, now}
end
-- The mark comes first: a call that stops in between leaves a pass that counts as live until it lapses.
if verb == 'spent' and mark ~= 's' then
  redis.call('HSET', users, user, head .. 's')
  local field, live = 'e:' .. late, longer
  if mark == '' then -- a repetition of the request has failed, and freed it
    field, live = 'e:' .. lapses, normal
  end
  if live > 0 then
    redis.call('HSET', room, 'spent', tonumber(has[2]) + 1, field, live - 1)
  end
elseif verb == 'free' and mark == request then
  redis.call('HSET', users, user, head)
  if longer > 0 and now < lapses * 1000 then
    redis.call('HSET', room, 'e:' .. lapses, normal + 1, 'e:' .. late, longer - 1)
  end
end
return {0, now}
