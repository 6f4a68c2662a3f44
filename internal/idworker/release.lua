-- Releases a machine id and moves its mark back to the last tick that was used.
--
-- KEYS[1]  lease of the machine id
-- KEYS[2]  mark of the machine id
-- ARGV[1]  the caller's token
-- ARGV[2]  the last tick in which the caller minted; it mints no more
--
-- Replies  1  released
--          0  the caller does not hold the lease: nothing was done

if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
-- The lower mark keeps the expiry of the higher one, which is late enough.
redis.call('SET', KEYS[2], ARGV[2], 'KEEPTTL')
redis.call('DEL', KEYS[1])
return 1
