-- Read the state of a bucket of a voucher at one moment.
--
-- KEYS[1]  the bucket: a hash, see the package ledger
-- KEYS[2]  its accepted orders: a stream
-- KEYS[3]  its dead letters: a stream
--
-- Replies  {now, pending, dead, epoch, seq, stock, back, begin, end, ret, busy, gen, paused, to, from}
--            now      in ms of this server's clock
--            pending  how many accepted orders are not persisted yet
--            dead     how many dead letters there are
--            epoch…   the fields of the hash, -1 for one that is missing, 0 for ret, busy, gen and paused
--            to       bucket, the total that this bucket gave to it, bucket …
--            from     bucket, the total that arrived from it, bucket …
local clock = redis.call('TIME')
local known, to, from = {}, {}, {}
local all = redis.call('HGETALL', KEYS[1])
for i = 1, #all, 2 do
  local name, value = all[i], tonumber(all[i + 1])
  local direction, bucket = string.match(name, '^(%a+):(%d+)$')
  if not direction then
    known[name] = value
  else
    local list = direction == 'to' and to or from
    list[#list + 1] = tonumber(bucket)
    list[#list + 1] = value
  end
end
local pending = redis.call('XLEN', KEYS[2])
if pending > 0 then
  pending = pending + math.max(0, known.extra or 0)
end
return {
  clock[1] * 1000 + math.floor(clock[2] / 1000), pending, redis.call('XLEN', KEYS[3]),
  known.epoch or -1, known.seq or -1, known.stock or -1, known.back or -1,
  known.begin or -1, known['end'] or -1, known.ret or 0, known.busy or 0, known.gen or 0, known.paused or 0, to, from,
}
