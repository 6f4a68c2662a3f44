-- Replace what Redis knows of its pair with a database. The same call again changes nothing more.
--
-- KEYS[1]  the pair: a hash, see the package pairing
-- ARGV[1]  the generation and ARGV[2] the mark that are replaced; '' for none
-- ARGV[3]  the generation and ARGV[4] the mark from now on
-- ARGV[5]  the name of the database
--
-- Replies  1 Redis has the new generation and mark
--          0 Redis had others than those that were to be replaced; nothing was done
local known = redis.call('HMGET', KEYS[1], 'generation', 'mark')
local generation, mark = known[1] or '', known[2] or ''
if generation == ARGV[3] and mark == ARGV[4] then
  return 1
end
if generation ~= ARGV[1] or mark ~= ARGV[2] then
  return 0
end
redis.call('HSET', KEYS[1], 'generation', ARGV[3], 'mark', ARGV[4], 'database', ARGV[5])
return 1
