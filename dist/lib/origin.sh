# Which commit is built, and of which day: what `--version`, the manual pages and the files in the
# packages carry. To be sourced, after say.sh.

# origin: sets and exports ISOTHERM_COMMIT and SOURCE_DATE_EPOCH, unless they are set.
#
# A tree with changes that are not committed is called COMMIT+. Nobody could build it again, so its
# date is that of the commit, too.
origin() {
  if [ -e .git ] && command -v git >/dev/null && git rev-parse --verify -q HEAD >/dev/null; then
    : "${SOURCE_DATE_EPOCH:=$(git log -1 --format=%ct)}"
    if [ -z "${ISOTHERM_COMMIT:-}" ]; then
      ISOTHERM_COMMIT=$(git rev-parse HEAD | cut -c 1-12)
      git diff --quiet HEAD -- || ISOTHERM_COMMIT=$ISOTHERM_COMMIT+
    fi
  fi
  [ -n "${SOURCE_DATE_EPOCH:-}" ] && [ -n "${ISOTHERM_COMMIT:-}" ] ||
    die "the origin of these sources is not known" "ask git for the commit of $PWD" \
      "this is not a checkout, and a build that tells no commit could not be repeated" \
      "set ISOTHERM_COMMIT (12 digits) and SOURCE_DATE_EPOCH (seconds since 1970)"
  export ISOTHERM_COMMIT SOURCE_DATE_EPOCH
}

# version: the version of the workspace.
version() { sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"$/\1/p' Cargo.toml; }
