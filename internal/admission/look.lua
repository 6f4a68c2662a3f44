-- Say how a bucket of a voucher stands, at one moment.
--
-- KEYS[1]  the voucher: a hash, see package admkey
-- KEYS[2]  its accepted orders: a stream
--
-- Replies  {now, pending, epoch, seq, stock, back, to, from}
--            now      in ms of this server's clock
--            pending  how many orders are on their way
--            epoch…   the fields of the hash, -1 for one that is missing
--            to       the ledger: bucket, how much this one gave to it, bucket …
--            from     bucket, how much of what it gave has come here, bucket …
local clock = redis.call('TIME')
local known, to, from = {}, {}, {}
local all = redis.call('HGETALL', KEYS[1])
for i = 1, #all, 2 do
  local name, value = all[i], tonumber(all[i + 1])
  local way, bucket = string.match(name, '^(%a+):(%d+)$')
  if not way then
    known[name] = value
  else
    local list = way == 'to' and to or from
    list[#list + 1] = tonumber(bucket)
    list[#list + 1] = value
  end
end
return {
  clock[1] * 1000 + math.floor(clock[2] / 1000), redis.call('XLEN', KEYS[2]),
  known.epoch or -1, known.seq or -1, known.stock or -1, known.back or -1, to, from,
}
