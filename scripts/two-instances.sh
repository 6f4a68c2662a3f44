#!/usr/bin/env bash
#
# Runs two API processes in lab mode on a MariaDB, a Redis and a payment sandbox of their own, until Ctrl-C, for the load
# tests that need two processes. Everything is in a temporary folder, which is removed at the end. No other server is touched.
#
# usage: scripts/two-instances.sh [COMMAND [ARG ...]]
#   With a command: runs it with BASE_URL and the ports below set, then stops and exits with its exit code.
#
# From the environment:
#   API_PORT (8081, and the next one), MYSQL_PORT (13306), REDIS_PORT (16379), PAYMENT_PORT (8070)
#   LOCK_NODES (0)   the number of additional independent redis-servers, for the locks multi and red, on the ports after
#                    REDIS_PORT
#   REDIS_REPLICAS (0)   the number of replicas of the first server, for the lock waited, on the ports after those
#   REDIS_SERVER (redis-server)   the program, for the lock native: $(scripts/valkey-root.sh --path)/valkey-server
#   ZOOKEEPER_PORT   start a ZooKeeper on this port, for zk-node and zk-queue; unset: none. SECKILL_TEST_ZOOKEEPER is the
#                    folder of a ZooKeeper release to run instead of Debian's package
set -euo pipefail
cd "$(dirname "$0")/.."

# The servers' programs may be outside a user's PATH.
PATH=$PATH:/usr/sbin:/usr/local/sbin

api=${API_PORT:-8081} mysql=${MYSQL_PORT:-13306} redis=${REDIS_PORT:-16379} payment=${PAYMENT_PORT:-8070}
nodes=${LOCK_NODES:-0} replicas=${REDIS_REPLICAS:-0} redis_server=${REDIS_SERVER:-redis-server} zookeeper=${ZOOKEEPER_PORT:-}
if [[ ! $nodes =~ ^[0-9]$ ]]; then
  echo "LOCK_NODES is \"$nodes\"; 0 to 9" >&2
  exit 1
fi

programs=(go "$redis_server" mariadbd mariadb-install-db mariadb)
ports=("$api" $((api + 1)) "$mysql" "$payment")
for ((port = redis; port <= redis + nodes + replicas; port++)); do
  ports+=("$port")
done
if [[ $zookeeper ]]; then
  programs+=(java)
  ports+=("$zookeeper")
  if [[ ${SECKILL_TEST_ZOOKEEPER:-} ]]; then
    jars="$SECKILL_TEST_ZOOKEEPER/lib/*:$SECKILL_TEST_ZOOKEEPER/*"
  else
    jars=/usr/share/java/zookeeper.jar
    [[ -e $jars ]] || { echo "$jars not found; make infra installs ZooKeeper" >&2; exit 1; }
  fi
fi
for program in "${programs[@]}"; do
  command -v "$program" >/dev/null || { echo "$program not found on PATH; make infra installs the servers" >&2; exit 1; }
done
for port in "${ports[@]}"; do
  if (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then
    echo "port $port is taken: set API_PORT, MYSQL_PORT, REDIS_PORT, PAYMENT_PORT or ZOOKEEPER_PORT" >&2
    exit 1
  fi
done

dir=$(mktemp -d)
pids=()
stop() {
  trap - EXIT
  trap '' INT TERM # an impatient second Ctrl-C must not leave the rest running
  # The services first, then the servers that they use.
  for ((i = ${#pids[@]} - 1; i >= 0; i--)); do
    kill "${pids[i]}" 2>/dev/null || true
    wait "${pids[i]}" 2>/dev/null || true
  done
  rm -rf "$dir"
}
trap stop EXIT
trap 'exit 130' INT TERM

# await NAME COMMAND ...: waits until the command succeeds, at most half a minute.
await() {
  local name=$1
  shift
  for _ in {1..150}; do
    "$@" >/dev/null 2>&1 && return
    sleep 0.2
  done
  echo "$name did not start; its log:" >&2
  tail -n 20 "$dir/$name.log" >&2
  exit 1
}

# The first server is for orders and locks, the others are the independent nodes.
lock_addrs=
for ((port = redis; port <= redis + nodes; port++)); do
  mkdir "$dir/redis-$port"
  "$redis_server" --bind 127.0.0.1 --port "$port" --dir "$dir/redis-$port" --save '' --appendonly no >"$dir/redis-$port.log" 2>&1 &
  pids+=($!)
  ((port == redis)) || lock_addrs+=${lock_addrs:+,}127.0.0.1:$port
done
for ((port = redis + nodes + 1; port <= redis + nodes + replicas; port++)); do
  mkdir "$dir/redis-$port"
  "$redis_server" --bind 127.0.0.1 --port "$port" --dir "$dir/redis-$port" --save '' --appendonly no \
    --replicaof 127.0.0.1 "$redis" --repl-diskless-sync-delay 0 >"$dir/redis-$port.log" 2>&1 &
  pids+=($!)
done

if [[ $zookeeper ]]; then
  printf '%s\n' "dataDir=$dir/zookeeper" "clientPort=$zookeeper" clientPortAddress=127.0.0.1 maxClientCnxns=0 \
    admin.enableServer=false 4lw.commands.whitelist=srvr >"$dir/zoo.cfg"
  java -Xmx128m -XX:+UseSerialGC -Dzookeeper.forceSync=no -cp "$jars" \
    org.apache.zookeeper.server.ZooKeeperServerMain "$dir/zoo.cfg" >"$dir/zookeeper.log" 2>&1 &
  pids+=($!)
fi

mariadb-install-db --no-defaults --user="$(id -un)" --datadir="$dir/mysql" --skip-test-db \
  --auth-root-authentication-method=normal >"$dir/mariadb.log" 2>&1
mariadbd --no-defaults --user="$(id -un)" --datadir="$dir/mysql" --socket="$dir/mysql.sock" --pid-file="$dir/mysql.pid" \
  --bind-address=127.0.0.1 --port="$mysql" --skip-name-resolve >"$dir/mariadb.log" 2>&1 &
pids+=($!)
await mariadb mariadb --no-defaults --socket="$dir/mysql.sock" --user=root --execute='CREATE DATABASE IF NOT EXISTS seckill'

if [[ $zookeeper ]]; then
  await zookeeper bash -c "exec 3<>/dev/tcp/127.0.0.1/$zookeeper"
fi
go build -o "$dir/api" ./cmd/api
export SECKILL_LOCK_REDIS_ADDRS=$lock_addrs SECKILL_ZOOKEEPER_ADDRS=${zookeeper:+127.0.0.1:$zookeeper}
export SECKILL_MYSQL_DSN="root@tcp(127.0.0.1:$mysql)/seckill" SECKILL_REDIS_ADDRS="127.0.0.1:$redis" SECKILL_LAB=1 SECKILL_SHUTDOWN_DELAY=0s
SECKILL_JWT_SECRET=$(head -c 32 /dev/urandom | base64)
SECKILL_PAYMENT_API_KEY=$(head -c 32 /dev/urandom | base64)
SECKILL_PAYMENT_WEBHOOK_SECRET=whsec_$(head -c 32 /dev/urandom | base64)
export SECKILL_JWT_SECRET SECKILL_PAYMENT_API_KEY SECKILL_PAYMENT_WEBHOOK_SECRET
"$dir/api" payment-sandbox -listen "127.0.0.1:$payment" -webhook-url "http://127.0.0.1:$api/api/v1/payments/events" >"$dir/payment.log" 2>&1 &
pids+=($!)
await payment bash -c "exec 3<>/dev/tcp/127.0.0.1/$payment"
servers=${#pids[@]} # what follows are the instances
export SECKILL_PAYMENT_URL="http://127.0.0.1:$payment"
for port in "$api" $((api + 1)); do
  "$dir/api" -addr "127.0.0.1:$port" >"$dir/api-$port.log" 2>&1 &
  pids+=($!)
  await "api-$port" "$dir/api" healthcheck -addr "127.0.0.1:$port"
done

export REDIS_PORT=$redis MYSQL_PORT=$mysql LOCK_NODES=$nodes ZOOKEEPER_PORT=$zookeeper
export BASE_URL="http://127.0.0.1:$api,http://127.0.0.1:$((api + 1))"
if (($# > 0)); then
  "$@"
else
  echo "two instances, lab mode: BASE_URL=$BASE_URL (processes ${pids[*]:servers}); Ctrl-C stops them"
  wait -n
  echo "a process ended; the logs end with:" >&2
  tail -n 3 "$dir"/*.log >&2
  exit 1
fi
