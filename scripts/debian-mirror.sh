#!/usr/bin/env bash
# Sourced by the scripts that call debootstrap.

# debian_mirror prints the mirror that apt uses, which may be a local one.
debian_mirror() {
  local uri=""
  if command -v apt-get >/dev/null; then
    # shellcheck disable=SC2016 # apt-get fills in REPO_URI, not the shell
    uri=$(apt-get indextargets --format '$(REPO_URI)' 'Identifier: Packages' 2>/dev/null |
      grep -m 1 -E '^(https?|file|copy):.*/debian/?$' || true)
  fi
  echo "${uri:-http://deb.debian.org/debian}"
}

# use_proxy_of_apt exports the proxy that apt uses: debootstrap does not read apt's configuration.
use_proxy_of_apt() {
  if command -v apt-config >/dev/null; then
    eval "$(apt-config shell http_proxy Acquire::http::Proxy https_proxy Acquire::https::Proxy)"
    export http_proxy https_proxy
  fi
}
