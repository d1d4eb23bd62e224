# Checks of what is in a package. To be sourced, after say.sh.

# deb_files DEB: the paths of its files, without folders
deb_files() { dpkg-deb --fsys-tarfile "$1" | tar -t | grep -v '/$' | sed 's/^\.//' | sort; }

# packed PROGRAM FILES: the list FILES has everything that a package has to hold for PROGRAM.
packed() {
  local program=$1 files=$2 missing=0 path command
  while read -r path; do
    grep -q -x -F -- "$path" "$files" || { echo "missing in the package: $path" >&2; missing=1; }
  done < <(
    cat <<'PATHS'
/usr/bin/isotherm
/usr/lib/systemd/system/isotherm.service
/usr/lib/sysusers.d/isotherm.conf
/usr/lib/tmpfiles.d/isotherm.conf
/usr/share/bash-completion/completions/isotherm
/usr/share/zsh/vendor-completions/_isotherm
/usr/share/fish/vendor_completions.d/isotherm.fish
/usr/share/man/man1/isotherm.1.gz
/usr/share/doc/isotherm/README.md
/usr/share/doc/isotherm/copyright
/usr/share/doc/isotherm/changelog.gz
/usr/share/doc/isotherm/CHANGELOG.md.gz
/usr/share/lintian/overrides/isotherm
/usr/share/doc/isotherm/THIRD-PARTY.gz
/usr/share/licenses/isotherm/LICENSE-MIT
/usr/share/licenses/isotherm/LICENSE-APACHE
PATHS
    # What is in the checkout for users, under its name.
    for path in packaging/isotherm.service.d/*.conf; do echo "/usr/share/isotherm/systemd/${path##*/}"; done
    for path in packaging/prometheus/*; do echo "/usr/share/isotherm/prometheus/${path##*/}"; done
    for path in packaging/grafana/*; do echo "/usr/share/isotherm/grafana/${path##*/}"; done
    for path in docs/*.md examples/policies/*.toml; do echo "/usr/share/doc/isotherm/$path"; done
    # A manual page for each command.
    for command in $(ISOTHERM_NO_CONFIG=1 "$program" --help | awk '/^Commands:/ { on = 1; next } /^$/ { on = 0 } on && /^  [a-z]/ && $1 != "help" { print $1 }'); do
      echo "/usr/share/man/man1/isotherm-$command.1.gz"
    done
  )
  [ "$missing" = 0 ] || die "the package is not complete" "look for what is named above" \
    "dist/lib/stage.sh lays it out, and crates/cli/Cargo.toml names it" "add it to both lists there"
  echo "ok: the package holds $(wc -l <"$files") files, and all that it should"
}

# linted DEB [TAG]: Debian's checker of packages finds no error and no warning in it but those that
# packaging/debian/lintian-overrides has a reason for, and TAG.
linted() {
  command -v lintian >/dev/null || apt-get -qq install -y --no-install-recommends lintian >/dev/null 2>&1 ||
    { echo "not tested: lintian: it is not here, and apt cannot install it"; return 0; }
  local said
  said=$(lintian --allow-root --no-cfg --fail-on error,warning ${2:+--suppress-tags "$2"} "$1" 2>&1) ||
    die "lintian finds faults in $1" "$said" "packages of Debian have rules" \
      "mend them, or give a reason in packaging/debian/lintian-overrides"
  [ -z "$said" ] || echo "$said"
  echo "ok: lintian finds no error and no warning ($(grep -vc -e '^#' -e '^$' packaging/debian/lintian-overrides) kinds are excepted, with reasons)"
}
