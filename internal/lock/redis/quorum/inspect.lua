-- Says who has a node, and for how long.
--
-- KEYS[1]  the lock
--
-- Replies  {value or nil, PTTL}
return {redis.call('GET', KEYS[1]), redis.call('PTTL', KEYS[1])}
