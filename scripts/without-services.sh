#!/usr/bin/env bash
#
# Runs a command, for example apt-get, and keeps Debian from starting the services of the packages that it installs.
#
# usage: scripts/without-services.sh COMMAND ARGUMENT...
set -euo pipefail

# The package scripts call this before they start a service; 101 means no. An existing policy stays.
policy=/usr/sbin/policy-rc.d
if [[ ! -e $policy ]]; then
  trap 'rm -f "$policy"' EXIT
  printf '#!/bin/sh\nexit 101\n' >"$policy"
  chmod +x "$policy"
fi

"$@"
