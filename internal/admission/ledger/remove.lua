-- Remove keys of a bucket of a voucher that was forgotten. One call does a bounded amount of
-- work: UNLINK removes a key at once, and another thread frees its memory.
--
-- KEYS[1]  the bucket: a hash, see the package ledger
-- KEYS[2]  its users: a hash, user -> order
-- KEYS[3]  its accepted orders: a stream
-- KEYS[4]  its dead letters: a stream
-- KEYS[5]  its tries: a hash
-- ARGV[1]  the closed epoch under which the voucher was forgotten
-- ARGV[2]  1 to remove all keys; 0 to remove the users only, while processes may still
--          read the stream
--
-- Replies  {verdict, keys}
--            verdict  0 removed, as far as there was something to remove
--                     1 the bucket is not closed under that epoch: it was opened again, or
--                       Redis has older data
--                     2 accepted orders are not persisted yet
--            keys     how many of the keys there were before
--          With a verdict other than 0 nothing was done.
local keys = redis.call('EXISTS', unpack(KEYS))
if keys == 0 then
  return {0, 0}
end
if redis.call('HGET', KEYS[1], 'epoch') ~= ARGV[1] then
  return {1, keys}
end
if redis.call('XLEN', KEYS[3]) > 0 then
  return {2, keys}
end
redis.call('UNLINK', KEYS[2])
if ARGV[2] == '1' then
  redis.call('UNLINK', KEYS[1], KEYS[3], KEYS[4], KEYS[5])
end
return {0, keys}
