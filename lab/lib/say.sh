# shellcheck shell=bash disable=SC2034 # names for the scripts that source this
# Sourced by the lab's scripts: where things are, how the lab talks, what it needs on the host.
#
# Everything the lab makes or fetches lives in one cache outside of the checkout, so that clean
# clones share it.

LAB_TOP=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)
LAB_DIR=$LAB_TOP/lab
LAB_CACHE=${ISOTHERM_LAB_CACHE:-${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/isotherm-lab}

# Exit statuses that are the lab's own, as timeout(1) and docker-run(1) use them.
LAB_TIMEOUT=124 LAB_FAILED=125

say() { [ -n "${LAB_QUIET:-}" ] || echo "lab: $*" >&2; }
# die MESSAGE...: one line each
die() {
  local line
  for line in "$@"; do echo "lab: $line" >&2; done
  exit "$LAB_FAILED"
}

# need COMMAND=PACKAGE...: installs the packages of the commands that are not there. A command may
# be a path.
need() {
  local pair command packages=()
  for pair in "$@"; do
    command=${pair%%=*}
    command -v "$command" >/dev/null 2>&1 || [ -e "$command" ] || packages+=("${pair#*=}")
  done
  [ ${#packages[@]} -gt 0 ] || return 0
  if [ "$(id -u)" != 0 ] || [ "${LAB_INSTALL:-yes}" = no ] || ! command -v apt-get >/dev/null; then
    die "this machine lacks: ${packages[*]}" \
      "the lab may not install them by itself (that takes root, apt, and LAB_INSTALL not set to no)" \
      "do: apt-get install ${packages[*]}"
  fi
  say "installing ${packages[*]}"
  local log start=$SECONDS
  log=$(mktemp)
  if ! { apt-get update -qq && DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -qq --no-install-recommends "${packages[@]}"; } >"$log" 2>&1; then
    tail -n 5 "$log" >&2
    rm -f "$log"
    die "apt could not install: ${packages[*]}" "do it by hand, then try again"
  fi
  rm -f "$log"
  say "installed in $((SECONDS - start)) s"
}

# as_root SCRIPT ARGUMENT...: the file shares and the private apt state want root; sudo without a
# password will do.
as_root() {
  [ "$(id -u)" = 0 ] && return 0
  if command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
    exec sudo -n env "ISOTHERM_LAB_CACHE=$LAB_CACHE" "PATH=$PATH" "$@"
  fi
  die "the lab needs root (the guest's file system is served by virtiofsd, which wants it)" \
    "run it as root, or let sudo work without a password"
}
