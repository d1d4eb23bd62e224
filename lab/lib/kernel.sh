# shellcheck shell=bash
# Sourced by the lab's scripts: the table of kernels, and a kernel in the cache.
#
# A kernel is a directory: vmlinuz, version, config, lib/modules/VERSION, and vmlinux if the lab
# built it.

kernel_names() { awk '!/^#/ && NF { print $1 }' "$LAB_DIR/kernels"; }
# kernel_field NAME N: column N of the table
kernel_field() { awk -v name="$1" -v n="$2" '$1 == name { print $n }' "$LAB_DIR/kernels"; }
kernel_about() { awk -v name="$1" '$1 == name { $1 = $2 = $3 = ""; sub(/^ +/, ""); print }' "$LAB_DIR/kernels"; }
kernel_dir() { echo "$LAB_CACHE/kernels/$1"; }
kernel_there() { [ -s "$(kernel_dir "$1")/vmlinuz" ] && [ -s "$(kernel_dir "$1")/version" ]; }
kernel_version() { cat "$(kernel_dir "$1")/version"; }
kernel_known() { [ -n "$(kernel_field "$1" 1)" ]; }
kernel_has() { grep -q "^CONFIG_$2=[ym]" "$(kernel_dir "$1")/config"; }

kernel_unknown() {
  die "no kernel is called $1; there are: $(kernel_names | tr '\n' ' ')" "lab/kernels is the table; lab/README.md says how to add one"
}

# kernel_unpack NAME ROOT: makes a kernel of the cache from unpacked packages; all or nothing
kernel_unpack() {
  local dir new from=$2 image version config modules
  dir=$(kernel_dir "$1")
  new=$dir.new
  image=$(find "$from/boot" "$from"/{usr/,}lib/modules -maxdepth 2 \( -name 'vmlinuz-*' -o -name vmlinuz \) 2>/dev/null | head -n 1)
  case $image in
    */vmlinuz-*) version=${image##*/vmlinuz-} ;;
    */vmlinuz) version=$(basename "${image%/vmlinuz}") ;;
    *) echo "no kernel image (boot/vmlinuz-*) in $from" >&2; return 1 ;;
  esac
  config=$(find "$from" -type f -name 'config*' -path "*$version*" 2>/dev/null | head -n 1)
  [ -n "$config" ] || { echo "no configuration of $version in $from" >&2; return 1; }
  rm -rf "$new"
  mkdir -p "$new/lib/modules/$version"
  cp "$image" "$new/vmlinuz"
  cp "$config" "$new/config"
  for modules in "$from/usr/lib/modules/$version" "$from/lib/modules/$version"; do
    [ -d "$modules/kernel" ] || continue
    cp -a "$modules/." "$new/lib/modules/$version/"
    break
  done
  depmod -b "$new" "$version" || return 1
  echo "$version" >"$new/version"
  rm -rf "$dir"
  mv "$new" "$dir"
}

# kernel_fetch NAME: from the archive, if it is not in the cache
kernel_fetch() (
  local name=$1 suite package image parts dl start=$SECONDS why
  kernel_known "$name" || kernel_unknown "$name"
  mkdir -p "$LAB_CACHE/kernels"
  exec 9>"$LAB_CACHE/kernels/.$name.lock"
  flock 9
  if kernel_there "$name" && [ -z "${LAB_REFRESH:-}" ]; then return 0; fi
  suite=$(kernel_field "$name" 2)
  package=$(kernel_field "$name" 3)
  if [ "$suite" = build ]; then
    die "the kernel $name is not built yet: run lab/build-$name once (about 17 minutes on two CPUs; later runs find it in the cache)"
  fi
  [ "$(uname -m)" = x86_64 ] || die "the lab's kernels are for x86-64; this machine is $(uname -m)"
  need dpkg-deb=dpkg depmod=kmod xz=xz-utils zstd=zstd
  say "fetching the kernel $name ($package of Debian $suite); this takes about a minute"
  dl=$LAB_CACHE/kernels/.$name.dl
  why=
  for fresh in "" fresh; do # a package that went out of the archive since the lists were read: read them again
    rm -rf "$dl"
    mkdir -p "$dl"
    archive_open "$suite" "$fresh" 2>"$dl/why" || { why=$(cat "$dl/why"); continue; }
    # the meta package's newest version names the image
    image=$(apt-cache "${APT[@]}" show "$package" 2>/dev/null | awk '/^Version:/ { v = $2 }
      /^Depends:/ && match($0, /linux-image-[0-9][^ ,]*/) { print v, substr($0, RSTART, RLENGTH) }' | sort -V | tail -n 1 | cut -d' ' -f2)
    [ -n "$image" ] || { why="the suite has no $package"; continue; }
    # since 7.x the image is split over three packages
    parts=$(apt-cache "${APT[@]}" depends "$image" 2>/dev/null | sed -nE 's/^ +(Pre)?Depends: (linux-(binary|modules|base)-[^ ]+)$/\2/p' | sort -u)
    # shellcheck disable=SC2086 # a list
    { archive_get "$dl" "$image" $parts && kernel_unpack "$name" "$dl/root"; } 2>"$dl/why" || { why=$(cat "$dl/why"); continue; }
    rm -rf "$dl"
    say "$name is $(kernel_version "$name"), fetched in $((SECONDS - start)) s"
    return 0
  done
  rm -rf "$dl"
  while IFS= read -r line; do echo "lab: $line" >&2; done <<<"$why"
  die "the kernel $name cannot be had: looked for $package in the suite $suite of ${ARCHIVE:-the Debian archive}" \
    "do: look whether apt-get update works here; or give an unpacked linux-image package with lab/fetch $name --from DIR" \
    "    or change the line of $name in lab/kernels"
)
