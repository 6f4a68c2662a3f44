-- next_token draws a fencing token that is greater than every one before it: the
-- server's clock in us, or one more than the newest token where the clock does not
-- show more. Either of the two is enough: a clock that steps back is caught by the
-- counter, and a counter that is lost (a failover, FLUSHALL, the end of its hour)
-- by the clock. So it needs not be kept for ever.
local function next_token(counter)
  local newest = tonumber(redis.call('GET', counter) or 0)
  local token = string.format('%.0f', math.max(newest + 1, tonumber(ticket())))
  redis.call('SET', counter, token, 'PX', 3600000)
  return token
end

