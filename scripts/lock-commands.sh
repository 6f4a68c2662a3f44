#!/usr/bin/env bash
#
# Counts the commands that each lock sends to its servers for one order, on servers of its own. Prints a Markdown table on
# stdout, in about two minutes. Redis: the lines of MONITOR that name a lock's key, (un)subscribe, or come from a script.
# MySQL: Questions, less those of the order itself, measured under the lock none. ZooKeeper: packets received, including
# heartbeats.
#
# usage: scripts/lock-commands.sh [LOCK ...]
#
# From the environment: ORDERS (100) for each measurement, and the ports of scripts/two-instances.sh.
set -euo pipefail
cd "$(dirname "$0")/.."

if [[ ! ${LOCK_COMMANDS_STARTED:-} ]]; then
  [[ -x bin/k6 ]] || { echo "bin/k6 not found: make k6 builds it" >&2; exit 1; }
  export LOCK_COMMANDS_STARTED=1 LOCK_NODES=${LOCK_NODES:-3} REDIS_REPLICAS=${REDIS_REPLICAS:-1} ZOOKEEPER_PORT=${ZOOKEEPER_PORT:-12181}
  exec scripts/two-instances.sh "$PWD/scripts/lock-commands.sh" "$@"
fi

orders=${ORDERS:-100}
locks=("$@")
# All that the catalogue has; uuid-wrong-key never releases, and native needs REDIS_SERVER to be Valkey 9 or Redis 8.4.
((${#locks[@]} > 0)) || mapfile -t locks < <(sed -nE 's/^\t\t\{"([a-z-]+)", In.*/\1/p' internal/lock/catalogue.go | grep -vxE 'none|local|uuid-wrong-key|native')

dir=$(mktemp -d)
monitors=()
stop() {
  ((${#monitors[@]} == 0)) || kill "${monitors[@]}" 2>/dev/null || true
  monitors=()
}
trap 'stop; rm -rf "$dir"' EXIT

questions() {
  mariadb --no-defaults --protocol=tcp --host=127.0.0.1 --port="$MYSQL_PORT" --user=root --batch --skip-column-names \
    --execute="SHOW GLOBAL STATUS LIKE 'Questions'" | awk '{ print $2 }'
}

packets() {
  exec 3<>"/dev/tcp/127.0.0.1/$ZOOKEEPER_PORT"
  printf srvr >&3
  awk '$1 == "Received:" { print $2 }' <&3
  exec 3>&-
}

# measure LOCK SCOPE VUS: sets sent, inside, asked and got, each over all orders.
measure() {
  local port
  for ((port = REDIS_PORT; port <= REDIS_PORT + LOCK_NODES; port++)); do
    redis-cli -p "$port" MONITOR >"$dir/monitor-$port" &
    monitors+=($!)
  done
  sleep 0.3
  asked=$(questions) got=$(packets)
  bin/k6 run --quiet -e "LOCK=$1" -e "SCOPE=$2" -e "VUS=$3" -e "USERS=$orders" -e "STOCK=$orders" \
    -e LOCK_WAIT_MS=30000 -e DURATION=60s loadtest/seckill.js >&2 || true
  asked=$(($(questions) - asked)) got=$(($(packets) - got))
  sleep 0.3
  stop
  # The final audit has a lock of its own, which is not the order's.
  cat "$dir"/monitor-* | grep -Ei 'seckill:lock:| lua\] |"s?(un)?subscribe"' | grep -v '{audit:' >"$dir/commands" || true
  sent=$(grep -vc ' lua\] ' "$dir/commands" || true)
  inside=$(grep -c ' lua\] ' "$dir/commands" || true)
}

each() { awk -v n="$1" -v of="$orders" 'BEGIN { printf "%.1f", n / of }'; }

echo "| lock | buyers | Redis: sent | inside scripts | MySQL: statements | ZooKeeper: requests |"
echo "|---|---|---:|---:|---:|---:|"
# The commands of the order itself, without contention.
measure none user 1
own_asked=$asked own_got=$got
for kind in "user 1 one_after_the_other" "voucher 32 32_at_once"; do
  read -r scope vus said <<<"$kind"
  for lock in "${locks[@]}"; do
    measure "$lock" "$scope" "$vus"
    echo "| \`$lock\` | ${said//_/ } | $(each "$sent") | $(each "$inside") | $(each $((asked - own_asked))) | $(each $((got - own_got))) |"
  done
done
