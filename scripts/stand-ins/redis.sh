#!/bin/bash
# The entry point of the stand-in for Redis's image, docker-entrypoint.sh. That image's also changes to the user redis.
set -euo pipefail
exec "$@"
