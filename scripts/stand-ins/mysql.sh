#!/bin/bash
# The entry point of the stand-in for MySQL's image: what that image does with an empty data folder, as far as
# docker-compose.yml asks for it.
set -euo pipefail

data=/var/lib/mysql
socket=/run/mysqld/mysqld.sock
mkdir -p /run/mysqld /var/lib/mysql-files

if [[ ! -d $data/mysql ]]; then
  password=${MYSQL_PASSWORD:-$(cat "$MYSQL_PASSWORD_FILE")}
  mysqld --no-defaults --initialize-insecure --user=root --datadir="$data"
  mysqld --no-defaults --user=root --datadir="$data" --socket="$socket" --skip-networking --mysqlx=OFF &
  for ((i = 0; i < 600; i++)); do
    mysql --no-defaults --socket="$socket" --user=root --execute='SELECT 1' >/dev/null 2>&1 && break
    sleep 0.1
  done
  mysql --no-defaults --socket="$socket" --user=root <<SQL
CREATE DATABASE \`$MYSQL_DATABASE\`;
CREATE USER '$MYSQL_USER'@'%' IDENTIFIED BY '$password';
GRANT ALL ON \`$MYSQL_DATABASE\`.* TO '$MYSQL_USER'@'%';
ALTER USER root@localhost IDENTIFIED BY RANDOM PASSWORD;
SHUTDOWN;
SQL
  wait $!
fi

exec mysqld --no-defaults --user=root --datadir="$data" --socket="$socket" --mysqlx=OFF "$@"
