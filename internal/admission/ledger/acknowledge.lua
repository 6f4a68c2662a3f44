-- Take entries whose orders are persisted out of the stream and publish the orders. A call that stops may be
-- repeated. Then extra may be too high until the stream is empty, never too low.
--
-- KEYS[1]  the stream
-- KEYS[2]  a hash: entry -> who tried it alone, see attempt.lua
-- KEYS[3]  the bucket: a hash, see the package ledger
-- ARGV[1]  the group
-- ARGV[2]  the channel on which orders that are final are published
-- ARGV[3]  the ids of the orders, separated by spaces; '' to publish nothing
-- ARGV[4]  how many of the entries have several orders
-- ARGV[5]  the generation of the pair of database and Redis
-- ARGV[6…] these entries, each followed by the number of its orders; then the other entries
--
-- Replies  how many of the entries were still there
--          An error if the bucket is of a later generation: this process has another database.
local stream = KEYS[1]
local first = 6 + 2 * tonumber(ARGV[4]) -- of the entries with one order
local entries = {unpack(ARGV, first)}
local bucket = redis.call('HMGET', KEYS[3], 'gen', 'extra')
if tonumber(bucket[1] or 0) > tonumber(ARGV[5]) then
  return redis.error_reply('UNPAIRED the bucket is of generation ' .. bucket[1] .. ', the caller of ' .. ARGV[5])
end
local gone, extra = 0, 0
if #entries > 0 then
  gone = redis.call('XDEL', stream, unpack(entries))
end
for i = 6, first - 1, 2 do
  if redis.call('XDEL', stream, ARGV[i]) == 1 then
    gone, extra = gone + 1, extra + tonumber(ARGV[i + 1]) - 1
  end
  entries[#entries + 1] = ARGV[i]
end
local known = bucket[2]
if known and extra > 0 then
  redis.call('HSET', KEYS[3], 'extra', math.max(0, known - extra))
end
redis.call('XACK', stream, ARGV[1], unpack(entries))
if redis.call('EXISTS', KEYS[2]) == 1 then
  redis.call('HDEL', KEYS[2], unpack(entries))
end
if ARGV[3] ~= '' then
  redis.pcall('PUBLISH', ARGV[2], ARGV[3]) -- without it buyers wait for longer
end
return gone
