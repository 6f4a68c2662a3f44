-- Return the key's value on this node and how long it lasts.
--
-- KEYS[1]  the lock
--
-- Replies  {value or nil, PTTL}
return {redis.call('GET', KEYS[1]), redis.call('PTTL', KEYS[1])}
