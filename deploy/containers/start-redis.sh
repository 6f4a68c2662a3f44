#!/bin/sh
# The entry point of every Redis in docker-compose.yml: the image's own, with the password in a file in memory. A replica
# uses it towards its primary too. Arguments are options of redis-server.
set -eu
password=${REDIS_PASSWORD:-$(cat "$REDIS_PASSWORD_FILE")}
# Also read by the user to whom the image's entry point changes.
printf 'requirepass "%s"\nmasterauth "%s"\n' "$password" "$password" >/run/redis/redis.conf
exec docker-entrypoint.sh redis-server /run/redis/redis.conf "$@"
