#!/usr/bin/env bash
#
# Shows what a closed model of load hides. Each model sends orders to the embedded service for 15 s, in the middle of which
# the service stands still for 5 s (SIGSTOP). In the closed model a fixed number of clients waits for its answers, and
# sends nothing meanwhile; in the open one requests come at a fixed rate, as buyers do.
#
# usage: scripts/open-or-closed.sh
#
# From the environment: RATE (200 requests per second, open), CLIENTS (20, closed), PORT (8085)
set -euo pipefail
cd "$(dirname "$0")/.."

rate=${RATE:-200} clients=${CLIENTS:-20} port=${PORT:-8085}
[[ -x bin/vegeta ]] || { echo "bin/vegeta not found: make vegeta builds it" >&2; exit 1; }

dir=$(mktemp -d)
api=
stop() {
  if [[ $api ]] && kill -CONT "$api" 2>/dev/null; then
    { kill "$api" && wait "$api"; } || true
  fi
  rm -rf "$dir"
}
trap stop EXIT
trap 'exit 130' INT TERM

go build -o "$dir/api" ./cmd/api
"$dir/api" -addr "127.0.0.1:$port" >"$dir/log" 2>&1 &
api=$!
url=http://127.0.0.1:$port
for ((i = 0; i < 600; i++)); do
  curl -sf "$url/readyz" >/dev/null && break
  kill -0 "$api" 2>/dev/null || { cat "$dir/log" >&2; exit 1; }
  sleep 0.1
done
voucher=$(curl -sf -H 'Content-Type: application/json' "$url/api/v1/vouchers" -d '{"title": "open or closed", "stock": 1000000,
  "begin_at": "2000-01-01T00:00:00Z", "end_at": "2100-01-01T00:00:00Z", "policy": {"flow": "admission"}}' | sed 's/^{"id":"\([0-9]*\)".*/\1/')

# attack NAME FIRST_USER FLAG...: prints the latencies of 15 s with 5 s of standstill.
attack() {
  local name=$1 first=$2
  shift 2
  seq "$first" $((first + 199999)) |
    sed 's|.*|{"method":"POST","url":"'"$url/api/v1/vouchers/$voucher/orders"'","header":{"X-User-ID":["&"]}}|' >"$dir/targets"
  bin/vegeta attack -lazy -format=json -targets="$dir/targets" -duration=15s "$@" >"$dir/results" &
  local attack=$!
  sleep 5
  kill -STOP "$api"
  sleep 5
  kill -CONT "$api"
  wait "$attack"
  echo "$name"
  bin/vegeta report "$dir/results" | grep -E '^(Requests|Latencies)' | sed 's/^/  /'
}

attack "closed: $clients clients, each sends when it has its answer" 1 -rate=0 -max-workers="$clients"
attack "open: $rate requests per second, whatever the answers do" 1000001 -rate="$rate/1s"
