#!/usr/bin/env bash
#
# Makes sure that the real servers that the tests start are installed: redis-server, MariaDB, MySQL and ZooKeeper with
# the Java that it runs on; and Chromium, in which the laboratory's report is looked at. On Debian and Ubuntu it installs
# what is missing, as root or with a sudo that asks nothing; elsewhere it says what to install. It starts and stops no
# server, and it never removes a package.
#
# usage: scripts/infra.sh
#
# REQUIRE_INFRA=1   a server that is still missing at the end is an error; else the tests that need it skip by name
set -euo pipefail

cd "$(dirname "$0")/.."

# MariaDB's server programs may lie outside a user's PATH.
PATH=$PATH:/usr/sbin:/usr/local/sbin

say() { printf 'infra: %s\n' "$*" >&2; }

main() {
  local packages=()
  command -v redis-server >/dev/null || packages+=(redis-server)
  command -v mariadbd >/dev/null && command -v mariadb-install-db >/dev/null || packages+=(mariadb-server-core mariadb-client-core)
  zookeeper_jar >/dev/null || packages+=(zookeeper)
  command -v java >/dev/null || packages+=(default-jre-headless)
  # Tests about clocks move the one of a redis-server.
  [[ $(uname -s) != Linux ]] || compgen -G '/usr/lib/*/faketime/libfaketimeMT.so.1' >/dev/null || packages+=(faketime)
  browser >/dev/null || packages+=(chromium)
  needs_mysql_root && ! command -v debootstrap >/dev/null && packages+=(debootstrap debian-archive-keyring)
  # go test -race links with C on Linux; the programs themselves do not.
  [[ $(uname -s) == Linux ]] && ! command -v "${CC:-gcc}" >/dev/null && packages+=(gcc libc6-dev)

  if ((${#packages[@]})); then
    install "${packages[@]}" || say "going on without; install by hand: ${packages[*]}"
  fi
  if needs_mysql_root; then
    as_root scripts/mysql-root.sh || say "going on without real MySQL"
  fi
  report
}

# needs_mysql_root: on Linux, where the mysqld on the PATH is absent or MariaDB's.
needs_mysql_root() { [[ $(uname -s) == Linux ]] && ! mysql_on_path; }

mysql_on_path() { command -v mysqld >/dev/null && ! mysqld --no-defaults --version 2>/dev/null | grep -q MariaDB; }

# zookeeper_jar says where ZooKeeper lies, looking where internal/testkit looks.
zookeeper_jar() {
  local home jar homes=(/opt/zookeeper /opt/homebrew/opt/zookeeper/libexec /usr/local/opt/zookeeper/libexec)
  if [[ -n ${SECKILL_TEST_ZOOKEEPER:-} ]]; then
    homes=("$SECKILL_TEST_ZOOKEEPER")
  elif [[ -e /usr/share/java/zookeeper.jar ]]; then
    readlink -f /usr/share/java/zookeeper.jar
    return
  fi
  for home in "${homes[@]}"; do
    for jar in "$home"/lib/zookeeper*.jar "$home"/zookeeper*.jar; do
      [[ -e $jar ]] && { printf '%s\n' "$jar"; return; }
    done
  done
  return 1
}

# browser says which one there is, looking for what internal/lab/report looks for.
browser() { command -v chromium || command -v chromium-browser || command -v google-chrome; }

# as_root runs a command as root, and the MySQL folder stays the caller's: without this, sudo's HOME would move it.
as_root() {
  if [[ $EUID -eq 0 ]]; then
    "$@"
  elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
    sudo -n SECKILL_TEST_MYSQL_ROOT="$(scripts/mysql-root.sh --path)" DEBIAN_FRONTEND=noninteractive "$@"
  else
    say "needs root for: $*"
    return 1
  fi
}

install() {
  command -v apt-get >/dev/null || { say "no apt-get here"; return 1; }
  say "apt-get install $*"
  export DEBIAN_FRONTEND=noninteractive
  # One unreachable source of many is no reason to stop: the packages may be known already.
  as_root apt-get -qq update || say "apt-get update failed; trying anyway"
  as_root scripts/without-services.sh apt-get -qq install -y --no-install-recommends --no-remove \
    -o Dpkg::Use-Pty=0 "$@" </dev/null >/dev/null
}

# report says what the tests will find.
report() {
  local missing=0 mysql zookeeper
  mysql=$(scripts/mysql-root.sh --path)/usr/sbin/mysqld
  for server in redis-server mariadbd; do
    if command -v "$server" >/dev/null; then
      say "$("$server" --version)"
    else
      say "missing: $server"
      missing=1
    fi
  done
  if mysql_on_path; then
    say "$(mysqld --no-defaults --version)"
  elif [[ -x $mysql && $EUID -eq 0 ]]; then
    say "MySQL in $mysql"
  elif [[ -x $mysql ]]; then
    say "missing: MySQL's own mysqld; the one in $mysql runs by chroot, which needs root"
    missing=1
  else
    say "missing: MySQL's own mysqld"
    missing=1
  fi
  if ! zookeeper=$(zookeeper_jar); then
    say "missing: ZooKeeper"
    missing=1
  elif ! command -v java >/dev/null; then
    say "missing: java, for ZooKeeper in $zookeeper"
    missing=1
  else
    say "ZooKeeper in $zookeeper, on $(java -version 2>&1 | head -n 1)"
  fi
  if ! browser >/dev/null; then
    say "missing: chromium"
    missing=1
  else
    say "$("$(browser)" --version 2>/dev/null)"
  fi
  if ((missing)) && [[ ${REQUIRE_INFRA:-} == 1 ]]; then
    say "REQUIRE_INFRA=1: all of them are needed"
    return 1
  fi
}

main
