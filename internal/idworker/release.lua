-- Gives a machine id back and leaves the mark where its holder really stopped.
--
-- KEYS[1]  lease of the machine id
-- KEYS[2]  mark of the machine id
-- ARGV[1]  the caller's token
-- ARGV[2]  the last tick the caller minted in; it mints no more
--
-- Replies  1  given back
--          0  it was not the caller's: nothing was done

if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
-- The lower mark keeps the expiry of the higher one, which is late enough.
redis.call('SET', KEYS[2], ARGV[2], 'KEEPTTL')
redis.call('DEL', KEYS[1])
return 1
