# Lays out the files of the packages as they will be on a machine. To be sourced, after origin.sh.
#
# One tree serves both kinds of package; only where zsh looks for completions differs, so both
# places are there and each package takes its own. Times are those of the commit, so that two
# packages of one commit are equal.

# stage PROGRAM TREE THIRD-PARTY VERSION: makes TREE anew for this program, with this list of licences.
# Manual pages and completions are printed by the program itself. TREE/debian is for Debian alone.
stage() {
  local program tree=$2 share doc file
  program=$(readlink -f "$1")
  share=$tree/usr/share doc=$tree/usr/share/doc/isotherm
  rm -rf "$tree"
  mkdir -p "$share"/man/man1 "$doc"/{docs,examples/policies} "$share"/isotherm/{prometheus,grafana,systemd}
  install -D -m 755 "$program" "$tree/usr/bin/isotherm"

  install -D -m 644 packaging/isotherm.service "$tree/usr/lib/systemd/system/isotherm.service"
  install -D -m 644 packaging/sysusers.d/isotherm.conf "$tree/usr/lib/sysusers.d/isotherm.conf"
  install -D -m 644 packaging/tmpfiles.d/isotherm.conf "$tree/usr/lib/tmpfiles.d/isotherm.conf"
  install -m 644 packaging/isotherm.service.d/*.conf "$share/isotherm/systemd/"
  install -m 644 packaging/prometheus/*.yml "$share/isotherm/prometheus/"
  install -m 644 packaging/grafana/*.json "$share/isotherm/grafana/"

  # Files of this machine's configuration must not change what is printed.
  local self=(env ISOTHERM_NO_CONFIG=1 "$program")
  "${self[@]}" man -o "$share/man/man1" >/dev/null
  gzip -9n "$share"/man/man1/*
  mkdir -p "$share"/{bash-completion/completions,zsh/{site-functions,vendor-completions},fish/vendor_completions.d}
  "${self[@]}" completions bash >"$share/bash-completion/completions/isotherm"
  "${self[@]}" completions fish >"$share/fish/vendor_completions.d/isotherm.fish"
  "${self[@]}" completions zsh >"$share/zsh/vendor-completions/_isotherm"
  cp "$share"/zsh/vendor-completions/_isotherm "$share/zsh/site-functions/_isotherm"

  install -m 644 README.md "$doc/"
  install -m 644 docs/*.md "$doc/docs/"
  gzip -9n <CHANGELOG.md >"$doc/CHANGELOG.md.gz"
  install -m 644 examples/policies/*.toml "$doc/examples/policies/"
  install -m 644 packaging/debian/copyright "$doc/copyright"
  gzip -9n <"$3" >"$doc/THIRD-PARTY.gz"
  # Debian wants a list of changes in its own form, and reasons for what its checker would complain of.
  mkdir -p "$tree/debian"
  debian_changelog "$4" | gzip -9n >"$tree/debian/changelog.gz"
  install -m 644 packaging/debian/lintian-overrides "$tree/debian/isotherm"
  for file in MIT APACHE; do install -D -m 644 "LICENSE-$file" "$share/licenses/isotherm/LICENSE-$file"; done
  chmod -R u=rwX,go=rX "$tree"
  find "$tree" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
}

# debian_changelog VERSION: the list of changes in the form of Debian. The real one is beside it.
debian_changelog() {
  cat <<ENTRY
isotherm ($1) unstable; urgency=medium

  * Packed from commit $ISOTHERM_COMMIT. What users see of each version is told in
    /usr/share/doc/isotherm/CHANGELOG.md.gz.

 -- $(sed -n 's/^maintainer = "\(.*\)"$/\1/p' crates/cli/Cargo.toml)  $(LC_ALL=C date -u -R -d "@$SOURCE_DATE_EPOCH")
ENTRY
}
