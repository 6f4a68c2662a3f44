#!/usr/bin/env bash
#
# Runs docker-compose.yml as an operator does, and fails with the logs of the containers if anything is not as it should
# be: builds the image, starts every profile, buys under both flows through the load balancer, runs k6, replaces the
# instances one by one, kills one and Redis under load, uses a Redis Cluster, Sentinel and a Galera cluster whose nodes are
# killed under load, restarts everything with its volumes, and stops. Nothing is left but images.
#
# usage: scripts/compose-test.sh
#
# A container engine that has docker compose 2 and has the images, or can pull them, is used, with a project of its own.
# As root on Debian there can be an engine of its own, with stand-ins for the images (compose-engine.sh). Elsewhere the
# run is skipped, and it says what is missing.
#
# SECKILL_COMPOSE_ENGINE=own   use an engine of its own although there is one
# REQUIRE_INFRA=1              a run that would be skipped fails
set -euo pipefail
cd "$(dirname "$0")/.."

project=seckill-compose-test
work=$(mktemp -d)
image=seckill:compose-test
entrance=http://127.0.0.1:18080
prometheus=http://127.0.0.1:19090
grafana=http://127.0.0.1:13000
jaeger=http://127.0.0.1:11686

say() { printf '[%4d s] %s\n' "$SECONDS" "$*"; }
die() { say "FAILED: $*"; exit 1; }

main() {
  trap finish EXIT
  trap 'exit 130' INT TERM
  settings
  choose_engine
  # A run that was killed leaves its volumes, whose servers have other passwords.
  docker rm --force "$project-alone" >/dev/null 2>&1 || true
  compose --profile '*' down --volumes --remove-orphans >/dev/null 2>&1
  step "image" build
  step "laboratory" laboratory
  step "the image alone" alone
  step "default profile" up
  step "an order under locked" buy '{}' 201
  step "an order under admission" buy '{"flow":"admission"}' 202
  step "k6, locked" load locked SCENARIO=all
  step "k6, admission" load admission SCENARIO=all FLOW=admission
  step "profile locks" with_locks
  step "profile zookeeper" with_zookeeper
  step "profile observe" observed
  step "who reaches whom" apart
  step "rolling update, locked" rolling_update LOCK=reentrant
  step "rolling update, admission" rolling_update FLOW=admission
  step "an instance is killed, locked" kill_under_load api LOCK=reentrant
  step "an instance is killed, admission" kill_under_load api FLOW=admission
  step "Redis is killed, locked" kill_under_load redis LOCK=reentrant
  step "Redis is killed, admission" kill_under_load redis FLOW=admission
  step "four instances, 20,000 buyers" rush
  step "too many connections for k6" too_many
  step "profile cluster" with_cluster
  step "profile sentinel" with_sentinels
  step "profile galera" with_galera
  step "everything again, with its volumes" restart
  step "stop" stop
  say "all is well"
}

# step NAME COMMAND...: the command, and how long it took.
step() {
  local name=$1 begun=$SECONDS
  shift
  say "$name"
  "$@"
  printf '%9s %s: %d s\n' "" "$name" $((SECONDS - begun))
}

see() { printf '%9s %s\n' "" "$*"; }

# The secrets of .env, and ports that nobody else uses.
settings() {
  local name
  for name in ${!SECKILL_@} ${!MYSQL_@} ${!OTEL_@}; do
    [[ $name == SECKILL_COMPOSE_ENGINE ]] || unset "$name" # compose prefers the environment to the file
  done
  secret() { head -c 32 /dev/urandom | od -An -tx1 | tr -d ' \n'; }
  jwt_secret=$(secret) admin_token=$(secret)
  cat >"$work/env" <<END
MYSQL_PASSWORD=$(secret)
SECKILL_REDIS_PASSWORD=$(secret)
SECKILL_SUBNET=172.30.91.0/24
SECKILL_JWT_SECRET=$jwt_secret
SECKILL_ADMIN_TOKEN=$admin_token
SECKILL_IMAGE=$image
API_PORT=${entrance##*:}
PROMETHEUS_PORT=${prometheus##*:}
GRAFANA_PORT=${grafana##*:}
JAEGER_PORT=${jaeger##*:}
END
}

compose() { docker compose --ansi never --progress quiet "${options[@]}" "$@"; }
options=(--project-name "$project" --env-file "$work/env")

# shellcheck source=scripts/debian-mirror.sh
. scripts/debian-mirror.sh
# shellcheck source=scripts/compose-engine.sh
. scripts/compose-engine.sh

choose_engine() {
  local missing
  if [[ ${SECKILL_COMPOSE_ENGINE:-} != own ]] && missing=$(engine_missing) && [[ -z $missing ]]; then
    say "engine: $(docker version --format '{{.Server.Version}}')"
    return
  fi
  missing=$(own_engine_missing)
  if [[ -n $missing ]]; then
    say "skipped: needs docker compose 2 with the images, or for an engine of its own $missing"
    [[ ${REQUIRE_INFRA:-} != 1 ]] || exit 1
    exit 0
  fi
  step "engine" start_own_engine
  step "stand-ins" make_stand_ins
}

# engine_missing prints what the engine that is there lacks; nothing if it will do.
engine_missing() {
  local image
  docker info >/dev/null 2>&1 || { echo "an engine"; return; }
  docker compose version --short 2>/dev/null | grep -q '^v\?[2-9]' || { echo "docker compose 2"; return; }
  for image in $(all_images); do
    has_image "$image" || docker pull -q "$image" >/dev/null 2>&1 || { echo "$image"; return; }
  done
}

# all_images prints every image that the files name, apart from the one that is built.
all_images() {
  {
    compose --profile '*' config --images | grep -v '^seckill:'
    sed -n 's/^FROM \([^ ]*\).*/\1/p' Dockerfile
  } | sort -u
}

build() {
  local commit
  commit=$(git rev-parse HEAD 2>/dev/null || echo unknown)
  compose build --build-arg COMMIT="$commit" >"$work/build.log" 2>&1 || {
    tail -n 40 "$work/build.log"
    die "docker compose build"
  }
  see "$(docker run --rm "$image" -version)"
  mapfile -t tokens < <(docker run --rm -e SECKILL_JWT_SECRET="$jwt_secret" --entrypoint /usr/local/bin/lab "$image" \
    tokens --users 20)
}

# laboratory: an experiment in the image, which has no shell, no network and no server but what it starts itself.
laboratory() {
  local how
  for how in "docker run --rm --entrypoint lab $image" "compose run --rm -T lab"; do
    $how run naive-wrong-release >"$work/lab" 2>&1 || { cat "$work/lab"; die "$how run naive-wrong-release"; }
    see "$(tail -n 1 "$work/lab")"
  done
}

# alone: docker run, with the lines of docs/deploy.md. Without a setting it would be in lab mode for everybody.
alone() {
  ! docker run --rm --name "$project-alone" "$image" >"$work/alone" 2>&1 || die "docker run of the image serves everybody"
  grep -o 'SECKILL_LAB_ALLOW_REMOTE.*' "$work/alone" | sed 's/^/          /' || { cat "$work/alone"; die "docker run does not say what is missing"; }
  docker run --detach --rm --name "$project-alone" --publish "${entrance#http://}:8080" \
    --env SECKILL_LAB_ALLOW_REMOTE=1 "$image" >/dev/null
  await "the published port answers" in_engine curl -sf -o "$work/alone" "$entrance/api/v1/vouchers"
  docker stop "$project-alone" >/dev/null
  await "its port is free" gone
}

gone() { ! docker inspect "$project-alone" >/dev/null 2>&1; }

up() {
  compose up --detach --wait --no-build
  see "$(compose ps --format '{{.Service}} {{.Health}}' | sort | tr '\n' ',')"
}

# call METHOD PATH TOKEN [BODY]: the answer's status and body.
call() {
  local body=()
  (($# < 4)) || body=(-H 'Content-Type: application/json' -d "$4")
  in_engine curl -sS -w '\n%{http_code}' -X "$1" -H "Authorization: Bearer $3" "${body[@]}" "$entrance$2" |
    awk '{ body = body last; last = $0 } END { print last, body }'
}

# field NAME: the value of a field in the JSON on standard input.
field() { sed -n "s/.*\"$1\":\"\{0,1\}\([^\",}]*\).*/\1/p"; }

# create POLICY: a voucher that is on sale, and its id.
create() {
  call POST /api/v1/vouchers "$admin_token" "{\"title\":\"compose\",\"stock\":100,\"begin_at\":\"2020-01-01T00:00:00Z\",
    \"end_at\":\"2100-01-01T00:00:00Z\",\"policy\":$1}" | tee "$work/answer" | field id
  grep -q ^201 "$work/answer" || die "a voucher with the policy $1: $(cat "$work/answer")"
}

# buy POLICY STATUS: an order is answered with the status, becomes confirmed, and is the user's only one.
buy() {
  local voucher answer order
  voucher=$(create "$1")
  answer=$(call POST "/api/v1/vouchers/$voucher/orders" "${tokens[0]}")
  see "$answer"
  [[ $answer == "$2 "* ]] || die "wanted $2"
  order=$(field order_id <<<"$answer")
  answer=$(call GET "/api/v1/orders/$order?wait=20s" "${tokens[0]}")
  [[ $answer == 200*'"confirmed"'* ]] || die "the order is not confirmed: $answer"
  answer=$(call POST "/api/v1/vouchers/$voucher/orders" "${tokens[0]}")
  [[ $answer == 409*already_ordered* ]] || die "the same user again: $answer"
  answer=$(call GET "/api/v1/vouchers/$voucher/audit" "$admin_token")
  [[ $answer == 200*'"orders":1,'*'"balanced":true'* ]] || die "the audit: $answer"
}

# load NAME VARIABLE=VALUE...: the load generator of the file. It exits 0 if the sale was right: nothing oversold,
# nothing sold twice, no accepted order lost.
load() {
  local name=$1 variables=() pair
  shift
  for pair in "$@"; do variables+=(-e "$pair"); done
  if ! compose --profile load run --rm --no-deps -T "${variables[@]}" k6 >"$work/k6-$name" 2>&1; then
    cat "$work/k6-$name"
    die "k6 $*"
  fi
  grep -E 'sold right|requests in| %$|accepted:' "$work/k6-$name" | sed 's/^/        /'
}

with_locks() {
  options+=(--profile locks)
  uncomment SECKILL_LOCK_REDIS_ADDRS
  up
  buy '{"lock":"multi"}' 201
  buy '{"lock":"red"}' 201
}

with_zookeeper() {
  options+=(--profile zookeeper)
  uncomment SECKILL_ZOOKEEPER_ADDRS
  up
  buy '{"lock":"zk-node"}' 201
  buy '{"lock":"zk-queue"}' 201
  compose stop zookeeper-1
  see "one of three servers is stopped"
  await "an order under two servers" buys '{"lock":"zk-node"}' 201
  compose start zookeeper-1
}

# buys POLICY STATUS: as buy, and false where that ends the run.
buys() { (buy "$@") >"$work/buys" 2>&1; }

# instead SETTING=VALUE...: the instances are replaced by ones with other settings.
instead() {
  cp "$work/env" "$work/env.before"
  printf '%s\n' "$@" >>"$work/env"
  up
}

as_before() {
  mv "$work/env.before" "$work/env"
  up
}

# A Redis Cluster of three primaries, over which a voucher's stock is split. A primary that is killed comes back with
# what it knew.
with_cluster() {
  local voucher shards
  options+=(--profile cluster)
  instead SECKILL_REDIS_ADDRS=redis-cluster-1:6379,redis-cluster-2:6379,redis-cluster-3:6379
  buy '{}' 201
  buy '{"flow":"admission","buckets":6}' 202
  load cluster FLOW=admission BUCKETS=6 USERS=2000 STOCK=500
  # shellcheck disable=SC2016 # expanded in the container
  shards=$(for node in 1 2 3; do
    compose exec -T "redis-cluster-$node" sh -c 'REDISCLI_AUTH=$REDIS_PASSWORD redis-cli dbsize'
  done | tr '\n' ' ')
  see "keys in the three primaries: $shards"
  [[ " $shards" != *" 0 "* ]] || die "a primary has nothing"
  docker kill "$(compose ps -q redis-cluster-2)" >/dev/null
  up
  await "orders after a primary came back" buys '{"flow":"admission","buckets":6}' 202
  as_before
}

# The primary that three sentinels name, before and after a failover.
with_sentinels() {
  local before
  options+=(--profile sentinel)
  instead SECKILL_REDIS_ADDRS=sentinel-1:26379,sentinel-2:26379,sentinel-3:26379 SECKILL_REDIS_MASTER=seckill
  buy '{"flow":"admission"}' 202
  before=$(primary)
  compose exec -T sentinel-1 redis-cli -p 26379 SENTINEL FAILOVER seckill
  await "another primary" primary_is_not "$before"
  see "the primary was $before, and is $(primary)"
  await "orders after the failover" buys '{"flow":"admission"}' 202
  await "the old primary follows" follows "$before"
  compose exec -T sentinel-1 redis-cli -p 26379 SENTINEL FAILOVER seckill
  await "the first primary again" primary_is "$before"
  await "orders after the second failover" buys '{"flow":"admission"}' 202
  as_before
}

# A Galera cluster of three nodes, two of which are written to. Each of the two is killed under load and comes back with
# what it missed. What Redis knows of vouchers belongs to one database, so it is emptied while no instance runs.
with_galera() {
  local node written database=galera-3
  options+=(--profile galera)
  compose stop api
  # shellcheck disable=SC2016 # expanded in the container
  compose exec -T redis sh -c 'REDISCLI_AUTH=$REDIS_PASSWORD redis-cli FLUSHALL' >/dev/null
  instead "$(sed -n 's/^#\(SECKILL_MYSQL_DSN=.*galera.*\)/\1/p' .env.example)"
  buy '{}' 201
  buy '{"flow":"admission"}' 202
  load galera-locked SCENARIO=all
  load galera-admission SCENARIO=all FLOW=admission
  for node in galera-1 galera-2; do
    written=$(on "$node" "SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME = 'wsrep_local_commits'")
    see "$node committed $written transactions of $(clients_of "$node")"
    ((written > 20)) || die "$node is not written to" # of 200 orders, half of them in batches
  done
  kill_under_load galera-2 LOCK=reentrant DURATION=120s
  kill_under_load galera-1 FLOW=admission DURATION=120s
  await "the same orders on all nodes" same_on_all_nodes
  compose exec -T api /usr/local/bin/api reconcile >"$work/reconcile" || { cat "$work/reconcile"; die "api reconcile"; }
  see "$(tail -n 1 "$work/reconcile")"
}

# on NODE QUERY: the answer of another database server.
on() {
  local database=$1
  sql "$2"
}

# clients_of NODE: the addresses that are connected to it.
clients_of() {
  on "$1" "SELECT GROUP_CONCAT(DISTINCT SUBSTRING_INDEX(HOST, ':', 1) ORDER BY HOST SEPARATOR ' ')
    FROM information_schema.PROCESSLIST WHERE USER = 'seckill' AND HOST NOT RLIKE '^(127|localhost)'"
}

same_on_all_nodes() {
  local node sum first=""
  for node in 1 2 3; do
    sum=$(database=galera-$node && sum_of_orders)
    [[ ${first:=$sum} == "$sum" ]] || return 1
  done
  see "on each node: $sum"
}

primary() { compose exec -T sentinel-1 redis-cli -p 26379 SENTINEL GET-MASTER-ADDR-BY-NAME seckill | sed -n 1p; }
primary_is() { [[ $(primary) == "$1" ]]; }
primary_is_not() { [[ $(primary) != "$1" ]]; }
follows() {
  # shellcheck disable=SC2016 # expanded in the container
  compose exec -T "$1" sh -c 'REDISCLI_AUTH=$REDIS_PASSWORD redis-cli info replication' |
    grep -q '^master_link_status:up'
}

# uncomment NAME: what .env.example says of the setting.
uncomment() { sed -n "s/^#\($1=\)/\1/p" .env.example >>"$work/env"; }

observed() {
  options+=(--profile observe)
  uncomment OTEL_EXPORTER_OTLP_ENDPOINT
  up
  await "Prometheus scrapes both instances" prometheus_sees 2
  see "$(in_engine curl -s "$prometheus"/api/v1/rules | grep -o '"state":"[a-z]*"' | sort | uniq -c | tr '\n' ' ')"
  buy '{"flow":"admission"}' 202
  await "Jaeger has the order's trace" jaeger_has "POST /api/v1/vouchers/:id/orders"
  [[ $(compose config --services) == *grafana* ]] || { see "without Grafana: there is no stand-in"; return; }
  await "Grafana has the dashboards" grafana_has
}

# jaeger_has OPERATION: a trace with it.
jaeger_has() {
  in_engine curl -sG "$jaeger"/api/traces --data-urlencode service=seckill --data-urlencode "operation=$1" |
    grep -qF "\"operationName\":\"$1\""
}

grafana_has() {
  [[ $(in_engine curl -s "$grafana/api/search?type=dash-db" | grep -o '"uid":"seckill-' | wc -l) -ge 4 ]]
}

# apart: Redis wants its password, and the debug listener is reached by those that need it only.
apart() {
  local address
  [[ $(compose exec -T redis redis-cli ping 2>&1) == NOAUTH* ]] || die "Redis answers without a password"
  address=$(docker inspect "$(compose ps -q api | sed -n 1p)" \
    --format '{{range $name, $n := .NetworkSettings.Networks}}{{$name}}={{$n.IPAddress}} {{end}}')
  see "an instance: $address"
  reaches prometheus "http://$(of_network instances):9100/metrics" || die "Prometheus does not reach the debug listener"
  local from network
  for from in redis-lock-1:stores jaeger:traces; do
    network=${from#*:}
    ! reaches "${from%:*}" "http://$(of_network "$network"):9100/metrics" || die "${from%:*} reaches the debug listener"
    ! reaches "${from%:*}" "http://$(of_network instances):9100/metrics" || die "${from%:*} reaches another network"
    reaches "${from%:*}" "http://$(of_network "$network"):8080/api/v1/vouchers" || die "${from%:*} reaches no instance"
  done
  see "the debug listener is reached by Prometheus, and not by a store or Jaeger"
}

of_network() { sed -n "s/.*_$1=\([0-9.]*\).*/\1/p" <<<"$address"; }

# reaches SERVICE URL: whether a container of the service gets an answer.
reaches() { compose exec -T "$1" timeout 5 wget -q -T 3 -O /dev/null "$2" 2>/dev/null; }

prometheus_sees() {
  in_engine curl -sG "$prometheus"/api/v1/query --data-urlencode 'query=sum(up{job="seckill"})' | grep -qF "\"$1\"]"
}

# await WHAT COMMAND...: until the command succeeds, at most two minutes.
await() {
  local what=$1 until=$((SECONDS + 120))
  shift
  until "$@"; do
    ((SECONDS < until)) || die "waited in vain: $what"
    sleep 0.5
  done
}

# without_failure NAME: every request of the load was answered as a buyer expects.
without_failure() {
  ! grep -E '^ +(unavailable|network|other|rate_limited) ' "$work/k6-$1" || die "requests failed: $1"
  see "no request failed"
}

rolling_update() {
  local before loaded begun
  before=$(orders)
  load rolling "$@" VUS=16 USERS=1000000 STOCK=1000000 DURATION=90s &
  loaded=$!
  await "orders under load" more_orders "$((before + 100))"
  begun=$SECONDS
  scripts/rolling-update.sh "${options[@]}" | sed 's/^/          /'
  see "both instances are replaced in $((SECONDS - begun)) s, after $(($(orders) - before)) orders"
  kill -0 "$loaded" 2>/dev/null || die "the load ended before"
  wait "$loaded" || exit 1
  without_failure rolling
}

rush() {
  compose up --detach --wait --no-build --no-recreate --scale api=4
  await "four instances in the balancer" balanced 4
  load rush FLOW=admission USERS=20000 STOCK=2000 VUS=1000
  without_failure rush
  compose up --detach --wait --no-build --no-recreate --scale api=2
}

# too_many: k6 says that a load is too large for its container, and is not killed in the middle of it.
too_many() {
  ! (load many VUS=1001) >"$work/many" 2>&1 || die "k6 takes more connections than it has memory for"
  grep -m 1 -o 'VUS is 1001, .*MAX_CONNECTIONS is 1000' "$work/many" || { cat "$work/many"; die "k6 does not say why"; }
}

# balanced N: the balancer sends requests to N instances.
balanced() {
  [[ $(compose exec -T balancer wget -qO - 'http://127.0.0.1:8404/;csv' | grep -c '^api,api[0-9]*,.*,UP,') == "$1" ]]
}

# kill_under_load SERVICE VARIABLE=VALUE...: SIGKILL, some seconds without it, and again with it, while k6 buys.
kill_under_load() {
  local service=$1 before loaded container
  before=$(orders)
  load "kill-$service" VUS=16 USERS=1000000 STOCK=1000000 DURATION=45s "${@:2}" &
  loaded=$!
  await "orders under load" more_orders "$((before + 100))"
  container=$(compose ps -q "$service" | sed -n 1p)
  docker kill "$container" >/dev/null
  see "$service is killed after $(($(orders) - before)) orders"
  sleep 3
  compose up --detach --wait --no-deps --no-build --no-recreate "$service"
  see "$service is healthy again after $(($(orders) - before)) orders"
  kill -0 "$loaded" 2>/dev/null || die "the load ended before"
  wait "$loaded" || exit 1
}

more_orders() { (($(orders) > $1)); }

orders() { sql 'SELECT COUNT(*) FROM orders'; }

# sql QUERY: what the database answers, which is a node of Galera where the caller says so.
database=mysql
# shellcheck disable=SC2016 # expanded in the container
sql() {
  if [[ $database == mysql ]]; then
    compose exec -T mysql sh -c \
      'MYSQL_PWD=$MYSQL_PASSWORD mysql --host=127.0.0.1 --user=$MYSQL_USER -N -e "$1" $MYSQL_DATABASE' sh "$1"
  else
    compose exec -T "$database" sh -c \
      'MYSQL_PWD=$MARIADB_PASSWORD mariadb --skip-ssl --host=127.0.0.1 --user=$MARIADB_USER -N -e "$1" $MARIADB_DATABASE' sh "$1"
  fi
}

restart() {
  local before after
  before=$(orders_of_both)
  compose down
  [[ -z $(left ps --all) ]] || die "containers are left: $(left ps --all)"
  up
  after=$(orders_of_both)
  see "before: $before; after: $after"
  [[ $before == "$after" ]] || die "other orders"
  buy '{}' 201
  buy '{"flow":"admission"}' 202
}

orders_of_both() {
  local database
  for database in mysql galera-1; do echo "$database $(sum_of_orders)"; done | paste -sd ' '
}

# sum_of_orders: how many, and a sum over all of them.
sum_of_orders() {
  local order='CONCAT_WS(",", id, voucher_id, user_id, status)'
  sql "SELECT COUNT(*), MIN(id), MAX(id), BIT_XOR(CAST(CONV(LEFT(SHA2($order, 256), 15), 16, 10) AS UNSIGNED)) FROM orders" |
    tr '\t' ' '
}

stop() {
  local container
  compose stop
  for container in $(left ps --all); do
    see "$(docker inspect "$container" \
      --format '{{.Name}} exit code {{.State.ExitCode}}{{if .State.OOMKilled}}, killed for memory{{end}}')"
  done | sort
  compose down --volumes
  # Compose leaves a network from which the engine has not detached the last container yet, and that is no error to it.
  await "no network is left" without_networks
  local what
  for what in "ps --all" "volume ls"; do
    # shellcheck disable=SC2086 # two words
    [[ -z $(left $what) ]] || die "left: $what"
  done
  see "no container, volume or network is left"
}

without_networks() {
  [[ -n $(left network ls) ]] || return 0
  see "left: $(docker network ls --filter "label=com.docker.compose.project=$project" --format '{{.Name}}' | tr '\n' ' ')"
  compose down --volumes
  [[ -z $(left network ls) ]]
}

# left COMMAND...: what the engine has of this project.
left() { docker "$@" --quiet --filter "label=com.docker.compose.project=$project"; }

finish() {
  local code=$?
  trap - EXIT
  trap '' INT TERM
  ((code == 0)) || say "failed, exit code $code"
  if [[ -e $work/env ]] && docker info >/dev/null 2>&1; then
    if ((code != 0)); then
      compose ps --all || true
      compose logs --no-color --tail 40 || true
    fi
    docker rm --force "$project-alone" >/dev/null 2>&1 || true
    # Containers that a profile started, too.
    compose --profile '*' down --volumes --remove-orphans --timeout 5 >/dev/null 2>&1 || true
  fi
  stop_own_engine
  rm -rf "$work"
  exit "$code"
}

main "$@"
