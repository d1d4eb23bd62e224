# The programs that make packages, from crates.io, in versions that are known to work. To be
# sourced, after say.sh.

TOOLS=$PWD/target/dist/tools/bin

# tools [deb] [rpm]: installs what is missing for these kinds of package below target/dist/tools.
tools() {
  local kind
  for kind; do
    case $kind in
      deb) tool cargo-deb 3.8.0 --no-default-features --features gzip ;;
      rpm) tool cargo-generate-rpm 0.21.1 ;;
    esac
  done
}

# tool NAME VERSION [OPTION...]
tool() {
  local name=$1 version=$2 log=target/dist/tools/$1.log
  shift 2
  [ "$(cat "target/dist/tools/$name.version" 2>/dev/null)" != "$version" ] || return 0
  mkdir -p target/dist/tools
  # Our own compiler settings are not theirs. They run for seconds, so a build without optimization
  # is sooner done.
  env -u CARGO_ENCODED_RUSTFLAGS -u RUSTFLAGS CARGO_INCREMENTAL=0 CARGO_PROFILE_DEV_DEBUG=0 \
    CARGO_TARGET_DIR="$PWD/target/dist/tools/build" cargo install --debug --quiet --locked "$name" --version "$version" --root target/dist/tools "$@" >"$log" 2>&1 ||
    die "$name $version cannot be installed" "cargo install $name: $(tail -n 1 "$log")" \
      "it makes the packages, and comes from crates.io" "see $log; a machine without a registry cannot make packages"
  rm -rf target/dist/tools/build
  echo "$version" >"target/dist/tools/$name.version"
}
