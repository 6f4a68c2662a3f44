#!/usr/bin/env bash
# shellcheck disable=SC2154 # say, die, compose and the rest are compose-test.sh's
#
# Sourced by compose-test.sh: a container engine of its own, for a machine that has none or whose engine reaches no
# registry. Needs root, Debian and its mirror.
#
# dockerd runs in namespaces of its own for the network, mounts and processes: when it ends, its networks, mounts and
# containers are gone too. The images that the files name are made here from Debian's packages. They are stand-ins: they
# have the names, entry points and settings of the real ones as far as docker-compose.yml uses them, and mostly other
# versions. What stays is packages of apt, and the folder $cache, which makes the next run quick.

cache=${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/seckill/compose
engine_pid="" engine_run=""
cgroup=/seckill-compose-test

# own_engine_missing prints why there can be no engine here; nothing if there can.
own_engine_missing() {
  if [[ $(uname -s) != Linux ]] || ! command -v apt-get >/dev/null || ! grep -qs '^ID=debian' /etc/os-release; then
    echo "Debian"
  elif [[ $EUID -ne 0 ]]; then
    echo "root"
  elif ! unshare --net --mount --pid --fork true 2>/dev/null; then
    echo "the right to make namespaces"
  fi
}

start_own_engine() {
  engine_packages
  engine_plugins
  exec 8>"$cache/lock" # two runs would share the folder
  flock 8
  engine_run=$(mktemp -d)
  export DOCKER_HOST=unix://$engine_run/docker.sock DOCKER_CONFIG=$cache/config
  # shellcheck disable=SC2016 # expanded by the inner shell
  nice unshare --net --mount --pid --fork --kill-child --mount-proc bash -c '
    ip link set lo up
    dockerd --data-root "$1/engine" --exec-root "$2/exec" --pidfile "$2/pid" --host "unix://$2/docker.sock" \
      --cgroup-parent "$3" --dns 127.0.0.1 &
    trap "kill \$!" TERM
    wait
    wait' engine "$cache" "$engine_run" "$cgroup" >"$engine_run/log" 2>&1 8>&- &
  engine_pid=$!
  for ((i = 0; i < 600; i++)); do
    if docker info >/dev/null 2>&1; then
      say "engine of its own: dockerd $(docker info --format '{{.ServerVersion}}')"
      return
    fi
    kill -0 "$engine_pid" 2>/dev/null || break
    sleep 0.1
  done
  tail -n 20 "$engine_run/log" >&2
  die "dockerd does not start"
}

# in_engine runs a command where the engine publishes its ports.
in_engine() {
  if [[ -n $engine_pid ]]; then
    nsenter --target "$(pgrep -P "$engine_pid")" --net "$@"
  else
    "$@"
  fi
}

stop_own_engine() {
  [[ -n $engine_pid ]] || return 0
  pkill -TERM -P "$engine_pid" || true
  wait "$engine_pid" 2>/dev/null || true
  find /sys/fs/cgroup -depth -type d -path "*$cgroup*" -exec rmdir {} + 2>/dev/null || true
  rm -rf "$engine_run"
}

engine_packages() {
  local wanted=() program
  for program in dockerd:docker.io docker:docker.io containerd:containerd runc:runc iptables:iptables \
    debootstrap:debootstrap ip:iproute2 curl:curl pgrep:procps; do
    PATH=$PATH:/usr/sbin command -v "${program%:*}" >/dev/null || wanted+=("${program#*:}")
  done
  ((${#wanted[@]})) || return 0
  say "apt-get install ${wanted[*]}"
  export DEBIAN_FRONTEND=noninteractive
  apt-get -qq update || say "apt-get update failed; trying anyway"
  scripts/without-services.sh apt-get -qq install -y --no-install-recommends --no-remove "${wanted[@]}" \
    </dev/null >/dev/null || die "cannot install ${wanted[*]}"
}

# engine_plugins unpacks compose and buildx of Debian trixie: bookworm's compose is too old for the file. apt is told of
# trixie for this command only.
engine_plugins() {
  local plugins=$cache/config/cli-plugins work=$cache/apt
  [[ -x $plugins/docker-compose && -x $plugins/docker-buildx ]] && return
  say "docker-compose and docker-buildx of Debian trixie"
  rm -rf "$work"
  mkdir -p "$plugins" "$work"/{lists/partial,archives/partial}
  chmod -R a+rX "$work"
  local keys=/usr/share/keyrings/debian-archive-keyring.gpg
  echo "deb [signed-by=$keys] $(debian_mirror) trixie main" >"$work/trixie.list"
  local apt=(apt-get -qq -o "Dir::Etc::sourcelist=$work/trixie.list" -o Dir::Etc::sourceparts=-
    -o "Dir::State::lists=$work/lists" -o "Dir::Cache=$work" -o APT::Sandbox::User=root)
  "${apt[@]}" update
  (cd "$work" && "${apt[@]}" download docker-compose docker-buildx)
  local package
  for package in "$work"/*.deb; do dpkg-deb -x "$package" "$work/unpacked"; done
  cp "$work"/unpacked/usr/libexec/docker/cli-plugins/docker-{compose,buildx} "$plugins"
  rm -rf "$work"
}

# make_stand_ins makes the images that are missing. The names come from the files, so that both agree. Grafana is neither
# a package of Debian nor can it be built here: this engine runs the files without it.
make_stand_ins() {
  printf 'services:\n  grafana: !reset null\n' >"$work/without-grafana.yml"
  options+=(--file docker-compose.yml --file "$work/without-grafana.yml")
  local servers=seckill-stand-in:servers mysql=seckill-stand-in:mysql mariadb=seckill-stand-in:mariadb
  has_image "$servers" || import_tree "$servers" trixie \
    redis-server haproxy prometheus zookeeper default-jre-headless ca-certificates wget
  has_image "$mysql" || import_tree "$mysql" sid mysql-server-core mysql-client-core
  has_image "$mariadb" || import_tree "$mariadb" trixie mariadb-server galera-4 rsync

  layer redis "$servers" "$(file_sum scripts/stand-ins/redis.sh)" \
    --change 'WORKDIR /data' --change 'ENTRYPOINT ["docker-entrypoint.sh"]' \
    -- scripts/stand-ins/redis.sh /usr/local/bin/docker-entrypoint.sh
  layer mysql "$mysql" "$(file_sum scripts/stand-ins/mysql.sh)" \
    --change 'ENTRYPOINT ["/entrypoint"]' -- scripts/stand-ins/mysql.sh /entrypoint
  layer mariadb "$mariadb" "$(file_sum scripts/stand-ins/mariadb.sh)" \
    --change 'ENTRYPOINT ["docker-entrypoint.sh"]' \
    -- scripts/stand-ins/mariadb.sh /usr/local/bin/docker-entrypoint.sh
  layer haproxy "$servers" "$(file_sum scripts/stand-ins/haproxy.sh)" \
    --change 'ENTRYPOINT ["/entrypoint"]' -- scripts/stand-ins/haproxy.sh /entrypoint
  layer zookeeper "$servers" "$(file_sum scripts/stand-ins/zookeeper.sh)" \
    --change 'ENV PATH=/usr/share/zookeeper/bin:/usr/local/bin:/usr/bin:/bin' \
    --change 'ENTRYPOINT ["/entrypoint"]' -- scripts/stand-ins/zookeeper.sh /entrypoint
  layer prom/prometheus "$servers" 2 --change 'ENTRYPOINT ["prometheus"]' --
  make k6 >/dev/null
  layer grafana/k6 "$servers" "$(bin/k6 version)" --change 'ENTRYPOINT ["k6"]' -- bin/k6 /usr/local/bin/k6
  make_jaeger "$servers"
  make_golang "$servers"
  make_distroless "$servers"
}

# image_named prints the image in docker-compose.yml or the Dockerfile whose name, without its tag, is $1.
image_named() {
  all_images | awk -v name="$1:" 'index($0, name) == 1 { image = $0 } END { print image }'
}

has_image() { docker image inspect "$1" >/dev/null 2>&1; }

file_sum() { sha256sum "$@" | sha256sum | cut -c 1-16; }

# layer NAME BASE VERSION CHANGE... -- [FILE PATH]...: an image from another one, with files of this machine. An image
# that has the version is left alone.
layer() {
  local tag base=$2 version=$3 changes=() container
  tag=$(image_named "$1")
  [[ $(version_of "$tag") != "$version" ]] || return 0
  shift 3
  while [[ $1 != -- ]]; do changes+=("$1"); shift; done
  shift
  say "stand-in for $tag"
  container=$(docker create "$base" /none)
  while (($#)); do
    docker cp -q "$1" "$container:$2"
    shift 2
  done
  docker commit "${changes[@]}" --change "LABEL stand-in=\"$version\"" "$container" "$tag" >/dev/null
  docker rm "$container" >/dev/null
}

version_of() { docker image inspect --format '{{index .Config.Labels "stand-in"}}' "$1" 2>/dev/null; }

# import_tree TAG SUITE PACKAGE...: an image of a small Debian tree. apt installs the packages, since debootstrap cannot
# order the configuration of Java's; no service is started. Of a mirror that is a week behind, apt refuses the list of
# sid as expired, which debootstrap has taken before; the signature is checked in any case.
import_tree() {
  local tag=$1 suite=$2 tree=$cache/tree log=$cache/tree.log
  shift 2
  say "$tag: Debian $suite with $*"
  rm -rf --one-file-system "$tree"
  use_proxy_of_apt
  # shellcheck disable=SC2016 # expanded by the inner shell
  if ! { nice debootstrap --variant=minbase "$suite" "$tree" "$(debian_mirror)" &&
    printf '#!/bin/sh\nexit 101\n' >"$tree/usr/sbin/policy-rc.d" && chmod +x "$tree/usr/sbin/policy-rc.d" &&
    DEBIAN_FRONTEND=noninteractive nice unshare --mount bash -ec 'tree=$1
      mount -t proc proc "$tree/proc"
      chroot "$tree" apt-get -qq -o Acquire::Check-Valid-Until=false update
      chroot "$tree" apt-get -qq install -y --no-install-recommends "${@:2}"' install "$tree" "$@"; } >"$log" 2>&1 8>&-; then
    tail -n 20 "$log" >&2
    die "no tree of Debian $suite; the whole log is $log"
  fi
  # A package that makes a data folder would have it copied into every volume that is mounted there.
  tar -C "$tree" -c --exclude='./var/lib/mysql/*' --exclude=./var/cache/apt --exclude=./var/lib/apt/lists --exclude=./usr/share/doc \
    --exclude=./usr/share/locale --exclude=./dev . | docker import - "$tag" >/dev/null
  rm -rf --one-file-system "$tree" "$log"
}

# make_jaeger: Jaeger without its pages. One commit has a tag of version 1 and one of version 2; Go finds the first.
make_jaeger() {
  local tag source=$cache/jaeger module=github.com/jaegertracing/jaeger@v1.76.0
  tag=$(image_named jaegertracing/jaeger)
  [[ $tag == *:2.13.0 ]] || die "which version 1 of Jaeger is $tag?"
  [[ $(version_of "$tag") != "$module" ]] || return 0
  say "Jaeger, from its Go module"
  rm -rf "$source"
  (cd "$(mktemp -d -p "$work")" && go mod download "$module")
  cp -r "$(go env GOMODCACHE)/$module" "$source"
  chmod -R u+w "$source"
  # It has directives with which go install refuses a module.
  nice go build -C "$source" -trimpath -ldflags='-s -w' -o "$source/jaeger.out" ./cmd/jaeger ||
    die "cannot build Jaeger"
  layer jaegertracing/jaeger "$1" "$module" --change 'ENTRYPOINT ["jaeger"]' \
    -- "$source/jaeger.out" /usr/local/bin/jaeger
  rm -rf "$source"
}

# make_golang: this machine's Go, and the modules of go.sum as a file proxy, since a build here has no network.
make_golang() {
  local modules=$cache/modules version env
  version=$(go env GOVERSION)-$(file_sum go.mod go.sum)
  if [[ $(version_of "$(image_named golang)") != "$version" ]]; then
    rm -rf "$modules"
    GOPROXY="file://$(go env GOMODCACHE)/cache/download,$(go env GOPROXY)" GOMODCACHE=$modules GOFLAGS=-modcacherw \
      go mod download
  fi
  env='PATH=/usr/local/go/bin:/usr/bin:/bin GOPATH=/go GOPROXY=file:///modules GOSUMDB=off GOTOOLCHAIN=local'
  layer golang "$1" "$version" --change "ENV $env" \
    -- "$(go env GOROOT)" /usr/local/go "$modules/cache/download" /modules
  rm -rf "$modules"
}

# make_distroless: the users, certificates and folders of the real one, and nothing to run.
make_distroless() {
  local tag root=$cache/distroless container
  tag=$(image_named gcr.io/distroless/static-debian12)
  ! has_image "$tag" || return 0
  say "stand-in for $tag"
  rm -rf "$root"
  mkdir -p "$root"/{etc/ssl/certs,home/nonroot,tmp}
  chmod 1777 "$root/tmp"
  chown 65532:65532 "$root/home/nonroot"
  printf '%s\n' 'root:x:0:0:root:/root:/sbin/nologin' 'nonroot:x:65532:65532:nonroot:/home/nonroot:/sbin/nologin' \
    >"$root/etc/passwd"
  printf '%s\n' 'root:x:0:' 'nonroot:x:65532:' >"$root/etc/group"
  container=$(docker create "$1" /none)
  docker cp -qL "$container:/etc/ssl/certs/ca-certificates.crt" "$root/etc/ssl/certs/"
  docker rm "$container" >/dev/null
  tar -C "$root" -c . |
    docker import --change 'USER nonroot:nonroot' --change 'ENV PATH=/usr/local/bin:/usr/bin:/bin' - "$tag" >/dev/null
  rm -rf "$root"
}
