#!/bin/sh
# The entry point of the sentinels in docker-compose.yml. A sentinel writes what it learns into its configuration, so that
# is made once, on its volume.
set -eu
password=${REDIS_PASSWORD:-$(cat "$REDIS_PASSWORD_FILE")}
if ! [ -s /data/sentinel.conf ]; then
  cat >/data/sentinel.conf <<CONF
port 26379
dir /data
sentinel resolve-hostnames yes
sentinel announce-hostnames yes
sentinel announce-ip $(hostname)
sentinel monitor seckill redis 6379 2
sentinel auth-pass seckill $password
sentinel down-after-milliseconds seckill 2000
sentinel failover-timeout seckill 10000
CONF
fi
exec docker-entrypoint.sh redis-server /data/sentinel.conf --sentinel --protected-mode no
