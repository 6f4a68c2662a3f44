-- Make sure that a stream has its group, where Redis has the voucher. A forgotten voucher has no
-- keys, and a consumer that learns of it late must not create any.
--
-- KEYS[1]  the stream
-- KEYS[2]  the bucket: a hash, see the package ledger
-- ARGV[1]  the group
--
-- Replies  1  the group is there
--          0  Redis has neither the voucher nor the stream
if redis.call('EXISTS', KEYS[1], KEYS[2]) == 0 then
  return 0
end
local made = redis.pcall('XGROUP', 'CREATE', KEYS[1], ARGV[1], '0', 'MKSTREAM')
if type(made) == 'table' and made.err and not string.find(made.err, 'BUSYGROUP', 1, true) then
  return made
end
return 1
