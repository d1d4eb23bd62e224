# shellcheck shell=bash
# Sourced by lab/run: the initial file system of a guest. One part depends on the kernel and the
# guest's scripts only, and is kept. The other part holds this run's command.

# initramfs_base NAME: prints the path of the kept part, made when it is not there
initramfs_base() {
  local kernel=$1 dir version key file root module path
  dir=$(kernel_dir "$kernel")
  version=$(kernel_version "$kernel")
  key=$(cat "$LAB_DIR"/guest/* "$LAB_DIR/lib/initramfs.sh" "$dir/config" "$(command -v busybox)" | sha256sum | cut -c1-12)
  file=$LAB_CACHE/initramfs/$version-$key.cpio
  if [ ! -s "$file" ]; then
    root=$(mktemp -d) || return 1
    mkdir -p "$root"/{bin,proc,sys,dev,lab/mod,host,newroot,ov} "$LAB_CACHE/initramfs"
    cp "$(command -v busybox)" "$root/bin/busybox"
    cp "$LAB_DIR/guest/init" "$root/init"
    cp "$LAB_DIR/guest/stage2" "$root/lab/stage2"
    chmod +x "$root/init"
    : >"$root/lab/mods"
    for module in virtio_pci virtio_console virtiofs overlay; do
      [ -f "$dir/lib/modules/$version/modules.dep" ] || break
      modprobe -d "$dir" -S "$version" --show-depends "$module" 2>/dev/null | awk '$1 == "insmod" { print $2 }' >"$root/depends"
      while read -r path; do
        module=$(basename "$path")
        module=${module%.xz} module=${module%.zst}
        grep -qx "$module" "$root/lab/mods" && continue
        case $path in
          *.xz) xz -dc "$path" ;;
          *.zst) zstd -qdc "$path" ;;
          *) cat "$path" ;;
        esac >"$root/lab/mod/$module"
        echo "$module" >>"$root/lab/mods"
      done <"$root/depends"
    done
    rm -f "$root/depends"
    (cd "$root" && find . | cpio -o -H newc -R 0:0 2>/dev/null) >"$file.$$" && mv "$file.$$" "$file"
    rm -rf "$root"
  fi
  echo "$file"
}

# initramfs_pack DIR FILE: appends DIR to the archive FILE (the kernel reads one after the other)
initramfs_pack() { (cd "$1" && find . | cpio -o -H newc -R 0:0 2>/dev/null) >>"$2"; }
