-- Say how a voucher stands, at one moment.
--
-- KEYS[1]  the voucher: a hash, see package admkey
-- KEYS[2]  its accepted orders: a stream
--
-- Replies  {now, pending, epoch, seq, stock, back}
--            now      in ms of this server's clock
--            pending  how many orders are on their way
--          and the fields of the hash, -1 for one that is missing
local clock = redis.call('TIME')
local reply = {clock[1] * 1000 + math.floor(clock[2] / 1000), redis.call('XLEN', KEYS[2])}
local known = redis.call('HMGET', KEYS[1], 'epoch', 'seq', 'stock', 'back')
for i = 1, 4 do
  reply[i + 2] = tonumber(known[i] or -1)
end
return reply
