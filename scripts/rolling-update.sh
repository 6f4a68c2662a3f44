#!/usr/bin/env bash
#
# Replaces the running instances of the service api in docker-compose.yml one by one, by instances of the image and the
# settings that the files have now: one more is started, and when it is healthy an old one is stopped, which finishes its
# requests. The balancer sends no request to an instance that is not ready or is stopping.
#
# usage: scripts/rolling-update.sh [OPTION of docker compose ...]
#
#   docker compose build                              # a new image
#   scripts/rolling-update.sh
#   scripts/rolling-update.sh --profile locks         # with the profiles that are up
set -euo pipefail
cd "$(dirname "$0")/.."

compose() { docker compose --progress quiet "$@"; }

mapfile -t old < <(compose "$@" ps --quiet api)
((${#old[@]})) || { echo "no instance runs: docker compose up --wait" >&2; exit 1; }

for container in "${old[@]}"; do
  compose "$@" up --detach --wait --no-deps --no-build --no-recreate --scale "api=$((${#old[@]} + 1))" api
  docker stop "$container" >/dev/null
  docker rm "$container" >/dev/null
  echo "replaced $container"
done
