#!/bin/bash
# The entry point of the stand-in for Redis's image, which accepts clients of other containers without a password.
set -euo pipefail
exec "$@" --protected-mode no
