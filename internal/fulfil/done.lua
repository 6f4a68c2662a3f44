-- Take entries out of the stream that are done with, and tell who waits for them.
--
-- KEYS[1]  the stream
-- KEYS[2]  a hash: entry -> how often it was tried alone
-- ARGV[1]  the group
-- ARGV[2]  the channel of orders that are final
-- ARGV[3]  their ids, with blanks between them; '' tells nobody
-- ARGV[4…] the entries
--
-- Replies  how many were still there
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
