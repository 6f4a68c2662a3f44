#!/usr/bin/env bash
#
# Measures how long locks are held during sales, on servers of its own, and how many holders would outlive a lease of three
# to five times the mean. Prints a Markdown table on stdout. Takes about three minutes; a sale is cut off after one minute.
#
# usage: scripts/hold-times.sh
#
# From the environment: BUYERS (400) for each sale, LOCKS, SCOPES, LOADS (concurrent buyers), and the ports of
# scripts/two-instances.sh.
set -euo pipefail
cd "$(dirname "$0")/.."

if [[ ! ${HOLD_TIMES_STARTED:-} ]]; then
  [[ -x bin/k6 ]] || { echo "bin/k6 not found: make k6 builds it" >&2; exit 1; }
  HOLD_TIMES_STARTED=1 exec scripts/two-instances.sh "$PWD/scripts/hold-times.sh"
fi

buyers=${BUYERS:-400}
read -ra locks <<<"${LOCKS:-reentrant lua}"
read -ra scopes <<<"${SCOPES:-voucher user}"
read -ra loads <<<"${LOADS:-8 100}"

# holds LOCK SIGN: prints the histogram of all instances, one "SIGN bound count" per bucket, and sum and count.
holds() {
  local url
  for url in ${BASE_URL//,/ }; do
    curl -fsS --max-time 10 "$url/metrics"
  done | awk -v lock="$1" -v sign="$2" '
    index($1, "seckill_lock_hold_seconds") == 1 && index($1, "lock=\"" lock "\"") {
      name = $1; sub(/\{.*/, "", name); sub(/.*_/, "", name)
      bound = name
      if (name == "bucket") { bound = $1; sub(/.*le="/, "", bound); sub(/".*/, "", bound) }
      print sign, bound, $2
    }'
}

# row: turns the histograms before (-1) and after (1) into a row of the table. Buckets end at 0.5 ms times powers of two, so
# the number that outlived a lease is known as "at least, at most".
row() {
  awk -v head="$1" '
    function ms(s) { return s == "+Inf" ? "over 16384" : sprintf("%.4g", s * 1000) }
    function quantile(q, i) { for (i = 1; i <= n; i++) if (cum[bound[i]] >= q * count) return ms(bound[i]) }
    function outlived(lease, i, least, most) {
      most = count; least = 0
      for (i = 1; i < n; i++) if (bound[i] + 0 <= lease) most = count - cum[bound[i]]
      for (i = n - 1; i >= 1; i--) if (bound[i] + 0 >= lease) least = count - cum[bound[i]]
      return least == most ? least : least " to " most
    }
    $2 == "sum" { sum += $1 * $3; next }
    $2 == "count" { count += $1 * $3; next }
    { if (!($2 in cum)) bound[++n] = $2; cum[$2] += $1 * $3 }
    END {
      if (count == 0) { print head, "0 | | | | | | |"; exit }
      mean = sum / count
      printf "%s %d | %.1f | %s | %s | %s | %.0f | %s | %.0f | %s |\n", head, count, mean * 1000, quantile(0.5), quantile(0.99),
        quantile(1), 3000 * mean, outlived(3 * mean), 5000 * mean, outlived(5 * mean)
    }'
}

out=$(mktemp)
trap 'rm -f "$out"' EXIT
echo "| lock | scope | buyers at once | pause | holds | mean, ms | p50 ≤ | p99 ≤ | longest ≤ | 3 × mean, ms | outlived it | 5 × mean, ms | outlived it |"
echo "|---|---|---:|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|"
for lock in "${locks[@]}"; do
  for scope in "${scopes[@]}"; do
    for load in "${loads[@]}" pause; do
      pause=() said=none vus=$load
      if [[ $load == pause ]]; then
        pause=(-e PAUSE_MS=400 -e PAUSE_PROBABILITY=0.02) said="400 ms, 2 %" vus=${loads[-1]}
      fi
      holds "$lock" -1 >"$out"
      # Its exit code says whether the sale was correct, which does not matter here.
      bin/k6 run --quiet -e "LOCK=$lock" -e "SCOPE=$scope" -e "VUS=$vus" -e "USERS=$buyers" -e "STOCK=$buyers" \
        -e LOCK_WAIT_MS=30000 -e DURATION=60s "${pause[@]}" loadtest/seckill.js >&2 || true
      holds "$lock" 1 >>"$out"
      row "| \`$lock\` | $scope | $vus | $said |" <"$out"
    done
  done
done
