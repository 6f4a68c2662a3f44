-- Remove a consumer from the group, unless entries are pending under its name: nobody would
-- be given them any more.
--
-- KEYS[1]  the stream
-- ARGV[1]  the group
-- ARGV[2]  the consumer
--
-- Replies  1  removed, or there was no such consumer
--          0  entries are pending under its name
if #redis.call('XPENDING', KEYS[1], ARGV[1], '-', '+', 1, ARGV[2]) > 0 then
  return 0
end
redis.call('XGROUP', 'DELCONSUMER', KEYS[1], ARGV[1], ARGV[2])
return 1
