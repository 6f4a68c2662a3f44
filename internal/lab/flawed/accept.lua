-- Accepts an order of a user who has none, if there is a unit.
--
-- KEYS[1]  the stock
-- KEYS[2]  the order of each user
-- KEYS[3]  exists while the sale is paused
-- KEYS[4]  the stream of accepted orders; missing: the caller sends the order
-- ARGV[1]  the user
-- ARGV[2]  the order's id
--
-- Replies {'accepted', id}, {'ordered', the id of the order that the user has}, {'sold out', '0'} or
-- {'paused', '0'}.

if redis.call('EXISTS', KEYS[3]) == 1 then
  return {'paused', '0'}
end
local has = redis.call('HGET', KEYS[2], ARGV[1])
if has then
  return {'ordered', has}
end
if tonumber(redis.call('GET', KEYS[1])) < 1 then
  return {'sold out', '0'}
end
redis.call('DECR', KEYS[1])
redis.call('HSET', KEYS[2], ARGV[1], ARGV[2])
if KEYS[4] then
  redis.call('XADD', KEYS[4], '*', 'order', ARGV[2], 'user', ARGV[1])
end
return {'accepted', ARGV[2]}
