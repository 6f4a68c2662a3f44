-- Try every command that the scripts and the consumers need, on keys that nobody else uses, and remove the keys.
--
-- KEYS[1]  a hash, KEYS[2] another name for it
-- KEYS[3]  a stream
-- ARGV[1]  a channel
--
-- Replies  for each command that the server refuses its name and the error
local hash, renamed, stream = KEYS[1], KEYS[2], KEYS[3]
local refused = {}
local function try(...)
  local reply = redis.pcall(...)
  if type(reply) == 'table' and reply.err then
    refused[#refused + 1] = select(1, ...)
    refused[#refused + 1] = reply.err
  end
  return reply
end

try('TIME')
try('EXISTS', hash)
try('HSET', hash, 'f', '1')
try('HGET', hash, 'f')
try('HMGET', hash, 'f')
try('HGETALL', hash)
try('HLEN', hash)
try('HSCAN', hash, '0')
try('HDEL', hash, 'g')
try('EXPIRE', hash, 60)
try('PERSIST', hash)
local added = try('XADD', stream, '*', 'f', '1')
try('XLEN', stream)
try('XRANGE', stream, '-', '+')
try('XREVRANGE', stream, '+', '-')
try('XGROUP', 'CREATE', stream, 'g', '0', 'MKSTREAM')
try('XREADGROUP', 'GROUP', 'g', 'c', 'STREAMS', stream, '>')
try('XPENDING', stream, 'g')
if type(added) == 'string' then
  try('XCLAIM', stream, 'g', 'c', 0, added)
end
try('XAUTOCLAIM', stream, 'g', 'c', 0, '0')
try('XINFO', 'CONSUMERS', stream, 'g')
try('XACK', stream, 'g', '0-1')
try('XDEL', stream, '0-1')
try('XGROUP', 'DELCONSUMER', stream, 'g', 'c')
try('PUBLISH', ARGV[1], '')
if redis.call('EXISTS', hash) == 1 then
  try('RENAME', hash, renamed)
end
try('DEL', renamed)
try('UNLINK', hash, renamed, stream)
return refused
