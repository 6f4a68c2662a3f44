#!/bin/bash
# The entry point of the stand-in for MariaDB's image, docker-entrypoint.sh: what that one does with an empty data folder,
# as far as docker-compose.yml asks for it, and then the server as the user mysql. Debian's configuration is not the
# image's: it listens on loopback only.
set -euo pipefail
[[ $1 == mariadbd ]]

data=/var/lib/mysql
socket=/run/mysqld/mysqld.sock
mkdir -p "${socket%/*}"
chown mysql: "${socket%/*}" "$data"
printf '[client-server]\nsocket=%s\n' "$socket" >/etc/mysql/my.cnf

if [[ ! -d $data/mysql ]]; then
  password=${MARIADB_PASSWORD:-$(cat "$MARIADB_PASSWORD_FILE")}
  mariadb-install-db --user=mysql --datadir="$data" --skip-test-db --auth-root-authentication-method=socket >/dev/null
  mariadbd --user=mysql --datadir="$data" --skip-networking --wsrep-on=OFF &
  for ((i = 0; i < 600; i++)); do
    mariadb --execute='SELECT 1' >/dev/null 2>&1 && break
    sleep 0.1
  done
  mariadb <<SQL
CREATE DATABASE \`$MARIADB_DATABASE\`;
CREATE USER '$MARIADB_USER'@'%' IDENTIFIED BY '$password';
GRANT ALL ON \`$MARIADB_DATABASE\`.* TO '$MARIADB_USER'@'%';
SHUTDOWN;
SQL
  wait $!
fi

exec setpriv --reuid=mysql --regid=mysql --init-groups "$@"
