#!/usr/bin/env bash
#
# Runs docker-compose.yml as an operator does, and fails with the logs of the containers if anything is not as it should
# be: builds the image, starts every profile, buys under both flows through the load balancer, runs k6, replaces the
# instances one by one and kills one and Redis under load, restarts everything with its volumes, and stops. Nothing is
# left but images.
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

say() { printf '[%4d s] %s\n' "$SECONDS" "$*"; }
die() { say "FAILED: $*"; exit 1; }

main() {
  trap finish EXIT
  trap 'exit 130' INT TERM
  settings
  choose_engine
  step "image" build
  step "default profile" up
  step "an order under locked" buy '{}' 201
  step "an order under admission" buy '{"flow":"admission"}' 202
  step "k6, locked" load locked SCENARIO=all
  step "k6, admission" load admission SCENARIO=all FLOW=admission
  step "profile locks" with_locks
  step "profile zookeeper" with_zookeeper
  step "profile observe" with_prometheus
  step "rolling update, locked" rolling_update LOCK=reentrant
  step "rolling update, admission" rolling_update FLOW=admission
  step "an instance is killed, locked" kill_under_load api LOCK=reentrant
  step "an instance is killed, admission" kill_under_load api FLOW=admission
  step "Redis is killed, locked" kill_under_load redis LOCK=reentrant
  step "Redis is killed, admission" kill_under_load redis FLOW=admission
  step "four instances, 20,000 buyers" rush
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
  for name in ${!SECKILL_@} ${!MYSQL_@}; do
    [[ $name == SECKILL_COMPOSE_ENGINE ]] || unset "$name" # compose prefers the environment to the file
  done
  secret() { head -c 32 /dev/urandom | od -An -tx1 | tr -d ' \n'; }
  jwt_secret=$(secret) admin_token=$(secret)
  cat >"$work/env" <<END
MYSQL_PASSWORD=$(secret)
SECKILL_JWT_SECRET=$jwt_secret
SECKILL_ADMIN_TOKEN=$admin_token
SECKILL_IMAGE=$image
API_PORT=${entrance##*:}
PROMETHEUS_PORT=${prometheus##*:}
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
  compose build --build-arg VERSION=compose-test --build-arg COMMIT="$commit" >"$work/build.log" 2>&1 || {
    tail -n 40 "$work/build.log"
    die "docker compose build"
  }
  see "$(docker run --rm "$image" -version)"
  mapfile -t tokens < <(docker run --rm -e SECKILL_JWT_SECRET="$jwt_secret" --entrypoint /usr/local/bin/lab "$image" \
    tokens --users 20)
}

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
}

# uncomment NAME: what .env.example says of the setting.
uncomment() { sed -n "s/^#\($1=\)/\1/p" .env.example >>"$work/env"; }

with_prometheus() {
  options+=(--profile observe)
  up
  await "Prometheus scrapes both instances" prometheus_sees 2
  see "$(in_engine curl -s "$prometheus"/api/v1/rules | grep -o '"state":"[a-z]*"' | sort | uniq -c | tr '\n' ' ')"
}

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
  load rush FLOW=admission USERS=20000 STOCK=2000
  without_failure rush
  compose up --detach --wait --no-build --no-recreate --scale api=2
}

# balanced N: the balancer sends requests to N instances.
balanced() {
  [[ $(compose exec -T balancer wget -qO - 'http://127.0.0.1:8404/;csv' | grep -c '^api,api[0-9]*,.*,UP,') == "$1" ]]
}

# kill_under_load SERVICE VARIABLE=VALUE...: SIGKILL, some seconds without it, and again with it, while k6 buys.
kill_under_load() {
  local service=$1 before loaded container
  before=$(orders)
  load "kill-$service" "${@:2}" VUS=16 USERS=1000000 STOCK=1000000 DURATION=45s &
  loaded=$!
  await "orders under load" more_orders "$((before + 100))"
  container=$(compose ps -q "$service" | head -n 1)
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

# shellcheck disable=SC2016 # expanded in the container
sql() {
  compose exec -T mysql sh -c \
    'MYSQL_PWD=$MYSQL_PASSWORD mysql --host=127.0.0.1 --user=$MYSQL_USER -N -e "$1" $MYSQL_DATABASE' sh "$1"
}

restart() {
  local before after
  before=$(sum_of_orders)
  compose down
  [[ -z $(left ps --all) ]] || die "containers are left: $(left ps --all)"
  up
  after=$(sum_of_orders)
  see "before: $before; after: $after"
  [[ $before == "$after" ]] || die "other orders"
  buy '{}' 201
  buy '{"flow":"admission"}' 202
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
  local what
  for what in "ps --all" "volume ls" "network ls"; do
    # shellcheck disable=SC2086 # two words
    [[ -z $(left $what) ]] || die "left: $what"
  done
  see "no container, volume or network is left"
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
    # Containers that a profile started, too.
    compose --profile '*' down --volumes --remove-orphans --timeout 5 >/dev/null 2>&1 || true
  fi
  stop_own_engine
  rm -rf "$work"
  exit "$code"
}

main "$@"
