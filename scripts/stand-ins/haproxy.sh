#!/bin/bash
# The entry point of the stand-in for HAProxy's image, which adds these options: a master process, in the foreground.
set -euo pipefail
[[ $1 == haproxy ]]
exec haproxy -W -db "${@:2}"
