# shellcheck shell=bash disable=SC2034 # names for the scripts that source this
# Sourced by the lab's scripts. Fetches packages of other Debian suites without touching this
# machine's apt.
#
# A suite gets lists, cache and sources of its own below the cache. The archive is the one this
# machine's apt uses.

archive_keyring() {
  local file
  for file in /usr/share/keyrings/debian-archive-keyring.{pgp,gpg}; do
    [ -s "$file" ] && { echo "$file"; return; }
  done
  return 1
}

# archive_open SUITE [FRESH]: makes APT the options for the suite; its lists are renewed twice a
# day, or now if FRESH
archive_open() {
  local suite=$1 fresh=${2:-} state=$LAB_CACHE/apt/$1 key repos main security
  command -v apt-get >/dev/null || { echo "no apt here; kernels come from Debian's archive" >&2; return 1; }
  key=$(archive_keyring) || { echo "no Debian archive keys here: install debian-archive-keyring" >&2; return 1; }
  # shellcheck disable=SC2016 # apt expands it
  repos=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 2>/dev/null | sort -u)
  main=${LAB_ARCHIVE:-$(grep -v security <<<"$repos" | grep debian | head -n 1)}
  security=$(grep security <<<"$repos" | head -n 1)
  [ -n "$main" ] || { echo "this machine's apt knows no Debian archive (run apt-get update once, or set LAB_ARCHIVE)" >&2; return 1; }
  mkdir -p "$state"/{lists/partial,cache/archives/partial,parts}
  {
    echo "deb [signed-by=$key] $main $suite main"
    case $suite in
      sid | experimental) ;;
      *) [ -z "$security" ] || echo "deb [signed-by=$key] $security $suite-security main" ;;
    esac
  } >"$state/sources.new"
  cmp -s "$state/sources.new" "$state/sources.list" || rm -f "$state/stamp"
  mv "$state/sources.new" "$state/sources.list"
  APT=(-q
    -o "Dir::Etc::sourcelist=$state/sources.list" -o "Dir::Etc::sourceparts=$state/parts"
    -o Dir::Etc::preferences=/dev/null -o "Dir::Etc::preferencesparts=$state/parts"
    -o "Dir::State::lists=$state/lists" -o "Dir::Cache=$state/cache"
    -o APT::Sandbox::User=root -o Acquire::Languages=none -o Acquire::Retries=3
    -o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false
    -o Acquire::IndexTargets::deb::Contents-deb::DefaultEnabled=false)
  ARCHIVE=$main
  if [ -n "$fresh" ] || [ -z "$(find "$state/stamp" -mmin -720 2>/dev/null)" ]; then
    apt-get "${APT[@]}" -o APT::Update::Error-Mode=any update >"$state/update.log" 2>&1 || {
      grep -E '^(E|W|Err):' "$state/update.log" | tail -n 4 >&2
      return 1
    }
    touch "$state/stamp"
  fi
}

# archive_get DIR PACKAGE...: downloads packages of the suite that was opened and unpacks all of
# them into DIR/root
archive_get() {
  local dir=$1 deb
  shift
  mkdir -p "$dir/root"
  rm -f "$dir"/*.deb
  (cd "$dir" && apt-get "${APT[@]}" download "$@") >"$dir/apt.log" 2>&1 || { tail -n 3 "$dir/apt.log" >&2; return 1; }
  for deb in "$dir"/*.deb; do
    dpkg-deb -x "$deb" "$dir/root" || return 1
  done
  rm -f "$dir"/*.deb
}
