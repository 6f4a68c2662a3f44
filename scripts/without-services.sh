#!/usr/bin/env bash
#
# Runs a command, apt-get for one, during which Debian starts no service of the packages that it installs.
#
# usage: scripts/without-services.sh COMMAND ARGUMENT...
set -euo pipefail

# What the package scripts ask before they start a service; 101 means no. A policy that is already there stays.
policy=/usr/sbin/policy-rc.d
if [[ ! -e $policy ]]; then
  trap 'rm -f "$policy"' EXIT
  printf '#!/bin/sh\nexit 101\n' >"$policy"
  chmod +x "$policy"
fi

"$@"
