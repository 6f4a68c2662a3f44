#!/bin/bash
# The entry point of galera-1 to -3 in docker-compose.yml: the image's own, as a node of the cluster. Arguments are options
# of mariadbd.
#
# A node that was a member and was killed knows whom it was with, and starts at once: Galera joins it to the others, or,
# if all were killed, forms the cluster again when all are back. A cluster begins at galera-1 when it has no data, and at
# the node that was stopped last when all were stopped in order. Any other node waits until one serves.
set -eu
name=$(hostname)
data=/var/lib/mysql
password=${MARIADB_PASSWORD:-$(cat "$MARIADB_PASSWORD_FILE")}

# served reports whether another node is in a cluster that takes queries.
served() {
  local other
  for other in galera-1 galera-2 galera-3; do
    if [[ $other != "$name" ]] && MYSQL_PWD=$password mariadb --skip-ssl --connect-timeout=2 --host="$other" \
      --user="$MARIADB_USER" --execute='SELECT 1' "$MARIADB_DATABASE" >/dev/null 2>&1; then
      return
    fi
  done
  return 1
}

# A node that never got its first copy has a state without a cluster's name.
may_begin() {
  local state=$data/grastate.dat
  if [[ -e $state ]] && ! grep -q '^uuid: *00000000-0000' "$state"; then
    grep -q '^safe_to_bootstrap: 1' "$state"
  else
    [[ $name == galera-1 ]]
  fi
}

options=(
  --binlog-format=ROW --innodb-autoinc-lock-mode=2
  --wsrep-on=ON --wsrep-provider=/usr/lib/galera/libgalera_smm.so --wsrep-cluster-name=seckill
  --wsrep-node-name="$name" --wsrep-node-address="$name" --wsrep-slave-threads=4
  # The node that gives a copy to one that joins writes nothing meanwhile: preferably that is the one without clients.
  --wsrep-sst-method=rsync "--wsrep-sst-donor=galera-3,"
  # A read that waits for other nodes is answered before the service gives up its connection, after 10 s.
  --wsrep-provider-options="gcache.size=128M;repl.causal_read_timeout=PT8S;pc.wait_prim_timeout=PT2M"
)
cluster=gcomm://galera-1,galera-2,galera-3

if ! [[ -e $data/gvwstate.dat ]]; then
  until served; do
    if may_begin; then
      options+=(--wsrep-new-cluster)
      break
    fi
    echo "$name waits for another node"
    sleep 1
  done
elif position=$(mariadbd --user=mysql "$@" "${options[@]}" --wsrep-cluster-address="$cluster" --wsrep-recover 2>&1 |
  sed -n 's/.*Recovered position: *//p') && [[ -n $position ]]; then
  # With its position a node gets what it missed, and without it a copy of everything.
  options+=(--wsrep-start-position="$position")
fi
exec docker-entrypoint.sh mariadbd "$@" "${options[@]}" --wsrep-cluster-address="$cluster"
