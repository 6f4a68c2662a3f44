#!/usr/bin/env bash
#
# Makes sure that the real servers that the tests start are installed: redis-server, Valkey, MariaDB with Galera, MySQL
# and ZooKeeper with Java; Chromium, which tests open the laboratory's report in; promtool, which tests the alerts; redis-py,
# whose lock is judged; and curl. On Debian and Ubuntu it installs what is missing, as root or with passwordless sudo; on
# other systems it prints what to install. It starts and stops no server, and it never removes a package.
#
# usage: scripts/infra.sh             all of the following
#        scripts/infra.sh packages    install packages, the C compiler among them
#        scripts/infra.sh mysql       provide MySQL's own mysqld where the packages have MariaDB's
#        scripts/infra.sh valkey      provide Valkey 9 where the packages have none
#        scripts/infra.sh report      print what the tests will find
#
# REQUIRE_INFRA=1   a server that is still missing is an error; otherwise the tests that need it are skipped by name
set -euo pipefail

cd "$(dirname "$0")/.."

# MariaDB's server programs may be outside a user's PATH.
PATH=$PATH:/usr/sbin:/usr/local/sbin

say() { printf 'infra: %s\n' "$*" >&2; }

main() {
  case ${1:-all} in
    all) packages && mysql && valkey && report ;;
    packages | mysql | valkey | report) "$1" ;;
    *) say "what is $1?"; return 2 ;;
  esac
}

packages() {
  local packages=()
  command -v redis-server >/dev/null || packages+=(redis-server)
  command -v mariadbd >/dev/null && command -v mariadb-install-db >/dev/null || packages+=(mariadb-server-core mariadb-client-core)
  [[ $(uname -s) != Linux ]] || galera >/dev/null || packages+=(galera-4)
  zookeeper_jar >/dev/null || packages+=(zookeeper)
  command -v java >/dev/null || packages+=(default-jre-headless)
  # Tests change the clock of a redis-server.
  [[ $(uname -s) != Linux ]] || compgen -G '/usr/lib/*/faketime/libfaketimeMT.so.1' >/dev/null || packages+=(faketime)
  browser >/dev/null || packages+=(chromium)
  command -v promtool >/dev/null || packages+=(prometheus) # it tests the alerts; the server is not started
  # The laboratory judges a lock in Python, and a test types the README's first commands.
  [[ $(uname -s) != Linux ]] || redis_py || packages+=(python3-redis)
  command -v curl >/dev/null || packages+=(curl)
  needs_mysql_root && ! command -v debootstrap >/dev/null && packages+=(debootstrap debian-archive-keyring)
  # go test -race links with C on Linux; the programs themselves do not.
  [[ $(uname -s) == Linux ]] && ! command -v "${CC:-gcc}" >/dev/null && packages+=(gcc libc6-dev)

  if ((${#packages[@]})); then
    install "${packages[@]}" || say "going on without; install by hand: ${packages[*]}"
  fi
}

mysql() {
  if needs_mysql_root; then
    as_root scripts/mysql-root.sh || say "going on without real MySQL"
  fi
}

# needs_mysql_root: true on Linux if the mysqld on the PATH is missing or MariaDB's.
needs_mysql_root() { [[ $(uname -s) == Linux ]] && ! mysql_on_path; }

valkey() {
  valkey_on_path || [[ $(uname -s) != Linux ]] || scripts/valkey-root.sh || say "going on without Valkey"
}

# valkey_on_path: true if there is a valkey-server of version 9 or later.
valkey_on_path() {
  local version
  command -v valkey-server >/dev/null && version=$(valkey-server --version | grep -oE 'v=[0-9]+') && ((${version#v=} >= 9))
}

mysql_on_path() { command -v mysqld >/dev/null && ! mysqld --no-defaults --version 2>/dev/null | grep -q MariaDB; }

# zookeeper_jar prints the path of ZooKeeper, from the places where internal/testkit looks.
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

# galera prints the path of the library that replicates between MariaDB servers, from the places where internal/testkit looks.
galera() {
  local path
  for path in /usr/lib/galera/libgalera_smm.so /usr/lib64/galera-4/libgalera_smm.so /usr/lib/libgalera_smm.so; do
    [[ -e $path ]] && { printf '%s\n' "$path"; return; }
  done
  return 1
}

# redis_py: true if the system's Python has the package redis.
redis_py() { /usr/bin/python3 -c 'import redis' 2>/dev/null; }

# browser prints the browser, from the list that internal/lab/report uses.
browser() { command -v chromium || command -v chromium-browser || command -v google-chrome; }

# as_root runs a command as root with the caller's MySQL folder: otherwise sudo's HOME would change it.
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
  # An unreachable package source is no reason to stop: the packages may be known already.
  as_root apt-get -qq update || say "apt-get update failed; trying anyway"
  as_root scripts/without-services.sh apt-get -qq install -y --no-install-recommends --no-remove \
    -o Dpkg::Use-Pty=0 "$@" </dev/null >/dev/null
}

# report prints what the tests will find.
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
  if valkey_on_path; then
    say "$(valkey-server --version)"
  elif [[ -x $(scripts/valkey-root.sh --path)/valkey-server ]]; then
    say "$("$(scripts/valkey-root.sh --path)/valkey-server" --version)"
  else
    say "missing: valkey-server 9"
    missing=1
  fi
  if galera >/dev/null; then
    say "Galera in $(galera)"
  else
    say "missing: Galera"
    missing=1
  fi
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
  if ! command -v promtool >/dev/null; then
    say "missing: promtool"
    missing=1
  else
    say "$(promtool --version 2>&1 | head -n 1)"
  fi
  if [[ $(uname -s) == Linux ]] && ! redis_py; then
    say "missing: Python's package redis"
    missing=1
  fi
  if ! command -v curl >/dev/null; then
    say "missing: curl"
    missing=1
  fi
  if ((missing)) && [[ ${REQUIRE_INFRA:-} == 1 ]]; then
    say "REQUIRE_INFRA=1: all of them are needed"
    return 1
  fi
}

main "$@"
