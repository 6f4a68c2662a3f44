#!/usr/bin/env bash
#
# Provides a real MySQL server for the tests where apt only has MariaDB: a small Debian sid tree, made by debootstrap,
# from which internal/testkit runs mysqld with chroot. Nothing outside that folder is changed.
#
# usage: scripts/mysql-root.sh            create the folder unless it exists
#        scripts/mysql-root.sh --path     print its path
#
# SECKILL_TEST_MYSQL_ROOT   the folder (default: ${XDG_CACHE_HOME:-$HOME/.cache}/seckill/mysql-root)
#
# Needs root and debootstrap. A second run does nothing; to start over, delete the folder.
set -euo pipefail

root=${SECKILL_TEST_MYSQL_ROOT:-${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/seckill/mysql-root}

# shellcheck source=scripts/debian-mirror.sh
. "$(dirname "$0")/debian-mirror.sh"

say() { printf 'mysql-root: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

main() {
  if [[ ${1:-} == --path ]]; then
    echo "$root"
    return
  fi
  if ready; then
    say "real MySQL is in $root"
    return
  fi
  [[ $(uname -s) == Linux ]] || die "a chroot needs Linux; install MySQL 8 or newer so that mysqld is on the PATH"
  [[ $EUID -eq 0 ]] || die "must run as root: sudo scripts/mysql-root.sh"
  command -v debootstrap >/dev/null || die "debootstrap is missing: apt-get install debootstrap"

  mkdir -p "$(dirname "$root")"
  exec 9>"$root.lock" # two test runs at once build it once
  flock 9
  ready || build
  say "real MySQL is in $root: $(chroot "$root" /usr/sbin/mysqld --version)"
}

# template is an initialized, empty data folder. Copying it takes a tenth of the time of mysqld --initialize.
template=/var/lib/seckill-template

ready() { [[ -x $root/usr/sbin/mysqld && -d $root$template ]]; }

# build works beside the final folder and renames it at the end, so an interrupted run leaves no incomplete folder.
build() {
  local log=$root.log partial=$root.partial mirror
  use_proxy_of_apt
  mirror=$(debian_mirror)
  # A folder that was not created here belongs to someone else: only an empty one is removed.
  [[ ! -e $root ]] || rmdir "$root" 2>/dev/null || die "$root is there and is no MySQL folder: delete it, or set SECKILL_TEST_MYSQL_ROOT"
  say "debootstrap of Debian sid with mysql-server-core from $mirror into $root (about a minute)"
  rm -rf --one-file-system "$partial"

  if ! debootstrap --variant=minbase --include=mysql-server-core sid "$partial" "$mirror" >"$log" 2>&1 9>&-; then
    tail -n 20 "$log" >&2
    die "debootstrap failed; the whole log is $log"
  fi
  if ! chroot "$partial" /usr/sbin/mysqld --no-defaults --initialize-insecure --user=root --datadir="$template" \
    --innodb-redo-log-capacity=8M --mysqlx=OFF >>"$log" 2>&1 9>&-; then
    tail -n 20 "$log" >&2
    die "mysqld --initialize-insecure failed; the whole log is $log"
  fi
  rm -rf "$partial"/var/cache/apt/archives/*.deb "$partial"/var/lib/apt/lists/* "$partial"/usr/share/{doc,man,locale}
  mv "$partial" "$root"
  rm -f "$log"
}

main "$@"
