#!/bin/sh
# The entry point of redis-cluster-1 to -3 in docker-compose.yml: start-redis.sh, and when the server answers, this node
# takes its third of the slots and meets the others. Both may be repeated: a slot that is taken is refused, and a node that
# is met again under another address is found there.
set -eu
export REDISCLI_AUTH="${REDIS_PASSWORD:-$(cat "$REDIS_PASSWORD_FILE")}"
name=$(hostname)
number=${name##*-}
(
  until [ "$(redis-cli ping 2>/dev/null)" = PONG ]; do sleep 0.2; done
  redis-cli cluster addslotsrange $(((number - 1) * 16384 / 3)) $((number * 16384 / 3 - 1)) || true
  # Until all three know each other at the addresses they have now.
  for _ in 1 2 3 4 5 6 7 8 9 10; do
    for other in redis-cluster-1 redis-cluster-2 redis-cluster-3; do
      address=$(getent hosts "$other" | awk '{ print $1; exit }')
      [ -z "$address" ] || redis-cli cluster meet "$address" 6379 >/dev/null || true
    done
    sleep 1
  done
) &
unset REDISCLI_AUTH
exec sh /usr/local/bin/start-redis "$@"
