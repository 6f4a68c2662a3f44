-- Take entries whose orders are persisted out of the stream and publish the orders.
--
-- KEYS[1]  the stream
-- KEYS[2]  a hash: entry -> how often it was tried alone
-- ARGV[1]  the group
-- ARGV[2]  the channel on which orders that are final are published
-- ARGV[3]  the ids of the orders, separated by spaces; '' to publish nothing
-- ARGV[4…] the entries
--
-- Replies  how many of the entries were still there
local entries = {unpack(ARGV, 4)}
local gone = redis.call('XDEL', KEYS[1], unpack(entries))
redis.call('XACK', KEYS[1], ARGV[1], unpack(entries))
if redis.call('EXISTS', KEYS[2]) == 1 then
  redis.call('HDEL', KEYS[2], unpack(entries))
end
if ARGV[3] ~= '' then
  redis.call('PUBLISH', ARGV[2], ARGV[3])
end
return gone
