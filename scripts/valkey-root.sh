#!/usr/bin/env bash
#
# Provides Valkey 9 for the tests where apt has none: packages of Debian sid, unpacked into a folder, where the server runs
# by their own loader and libraries. It needs neither root nor chroot. Nothing outside that folder is changed.
#
# usage: scripts/valkey-root.sh            create the folder unless it exists
#        scripts/valkey-root.sh --path     print its path
#
# SECKILL_TEST_VALKEY_ROOT   the folder (default: ${XDG_CACHE_HOME:-$HOME/.cache}/seckill/valkey-root)
#
# Needs apt-get and dpkg. A second run does nothing; to start over, delete the folder.
set -euo pipefail

root=${SECKILL_TEST_VALKEY_ROOT:-${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/seckill/valkey-root}

# shellcheck source=scripts/debian-mirror.sh
. "$(dirname "$0")/debian-mirror.sh"

say() { printf 'valkey-root: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

main() {
  if [[ ${1:-} == --path ]]; then
    echo "$root"
    return
  fi
  if [[ ! -x $root/valkey-server ]]; then
    for needed in apt-get dpkg; do
      command -v "$needed" >/dev/null || die "needs $needed; install Valkey 9 so that valkey-server is on the PATH"
    done
    mkdir -p "$(dirname "$root")"
    exec 9>"$root.lock" # two test runs at once build it once
    flock 9
    [[ -x $root/valkey-server ]] || build
  fi
  say "$("$root/valkey-server" --version)"
}

# apt_here runs apt-get with a state of its own, which knows Debian sid only.
apt_here() {
  apt-get -qq -o Dir::Etc::SourceList="$partial/apt/sources.list" -o Dir::Etc::SourceParts=/dev/null -o Dir::State="$partial/apt" \
    -o Dir::State::Status="$partial/apt/status" -o Dir::Cache="$partial/apt" -o APT::Sandbox::User= -o Acquire::Languages=none "$@"
}

# build works beside the final folder and renames it at the end, so an interrupted run leaves no incomplete folder.
build() {
  local keys loader deb
  partial=$root.partial
  # A folder that was not created here belongs to someone else: only an empty one is removed.
  [[ ! -e $root ]] || rmdir "$root" 2>/dev/null || die "$root is there and is no Valkey folder: delete it, or set SECKILL_TEST_VALKEY_ROOT"
  keys=$(compgen -G '/usr/share/keyrings/debian-archive-keyring.*' | head -n 1) || die "apt-get install debian-archive-keyring"
  rm -rf --one-file-system "$partial"
  mkdir -p "$partial"/apt/{lists,archives}/partial
  touch "$partial/apt/status"
  echo "deb [signed-by=$keys] $(debian_mirror) sid main" >"$partial/apt/sources.list"
  say "valkey-server of Debian sid from $(debian_mirror) into $root (half a minute)"
  apt_here update || die "apt-get update failed"
  # What the server loads. The check below tells if a later version loads more.
  (cd "$partial/apt" && apt_here download valkey-server valkey-tools libc6 libgcc-s1 libatomic1 libjemalloc2 liblzf1 \
    libssl3t64 libsystemd0 zlib1g libzstd1) || die "apt-get download failed"
  for deb in "$partial"/apt/*.deb; do
    dpkg -x "$deb" "$partial"
  done
  rm -rf "${partial:?}"/apt "${partial:?}"/usr/share
  loader=$(cd "$partial" && compgen -G 'usr/lib/*-linux-gnu/ld-linux*.so.*' | head -n 1)
  # shellcheck disable=SC2016 # the script that is written expands them
  printf '#!/bin/sh\nroot=$(dirname "$0")\nexec "$root/%s" --library-path "$root/%s" "$root/usr/bin/valkey-server" "$@"\n' \
    "$loader" "$(dirname "$loader")" >"$partial/valkey-server"
  chmod +x "$partial/valkey-server"
  "$partial/valkey-server" --version >/dev/null || die "valkey-server does not start"
  mv "$partial" "$root"
}

main "$@"
