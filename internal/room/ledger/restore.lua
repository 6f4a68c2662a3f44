-- Make the state of a room from what the database has of it: at first, and after Redis has lost it. What is there already
-- stays.
--
-- KEYS[1]  the room: a hash, see the package ledger
-- ARGV[1]  a name for this state, which no earlier one had
-- ARGV[2]  how many tickets the draw has put in order; -1 before the draw
-- ARGV[3]  how many ticket numbers may have been told
-- ARGV[4]  up to which position visitors were called
-- ARGV[5]  for how long the state is kept, in s
--
-- Replies  1
if redis.call('HGET', KEYS[1], 'born') then
  return 1
end
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
redis.call('HSET', KEYS[1], 'born', ARGV[1], 'drawn', ARGV[2], 'tickets', ARGV[3], 'reserved', ARGV[3], 'serving', ARGV[4],
  'last', now, 'credit', 0, 'tokens', 0, 'filled', now, 'saved', 0, 'issued', 0, 'spent', 0, 'lapsed', 0)
redis.call('EXPIRE', KEYS[1], ARGV[5])
return 1
