# shellcheck shell=bash disable=SC2034 # names for the scripts that source this
# Sourced by lab/run: the machine that QEMU makes, and the daemons that serve directories to it.

# The CPU of a guest whose page tables have five levels: programs can have memory above 2^47.
FIVE_LEVELS=qemu64,-cx16,+la57

# machine_memory MIB SMP [NUMA2]: MEMORY becomes QEMU's options. Two nodes: the second has half of
# the memory and no CPU, and the HMAT calls it slower, so that the kernel makes memory tiers: this
# is what CXL memory looks like.
machine_memory() {
  local mib=$1 smp=$2 half=$(($1 / 2)) target
  backend() { echo "memory-backend-memfd,id=$1,size=$2M,share=on"; } # shared, because virtiofsd maps it
  if [ -z "${3:-}" ]; then
    MEMORY=(-M q35 -object "$(backend m0 "$mib")" -numa "node,memdev=m0")
    return
  fi
  MEMORY=(-M "q35,hmat=on" -object "$(backend m0 $((mib - half)))" -object "$(backend m1 $half)"
    -numa "node,nodeid=0,cpus=0-$((smp - 1)),memdev=m0" -numa "node,nodeid=1,memdev=m1,initiator=0"
    -numa "dist,src=0,dst=1,val=20" -numa "dist,src=1,dst=0,val=20")
  for target in "0 100 40" "1 300 10"; do
    # shellcheck disable=SC2086 # node, latency in ns, bandwidth in GiB/s
    set -- $target
    MEMORY+=(-numa "hmat-lb,initiator=0,target=$1,hierarchy=memory,data-type=access-latency,latency=$2"
      -numa "hmat-lb,initiator=0,target=$1,hierarchy=memory,data-type=access-bandwidth,bandwidth=$3G")
  done
}

# machine_accel tcg|kvm CPU [COUNT]: ACCEL becomes QEMU's options; with COUNT the guest's time goes
# by its instructions. -cx16: QEMU 7.2's emulation breaks the flags around cmpxchg16b, and kernels
# die of it at random (lab/README.md).
machine_accel() {
  case $1 in
    tcg)
      ACCEL=(-accel "tcg,thread=multi,tb-size=256" -cpu "${2:-qemu64,-cx16}")
      # 2^0 ns per instruction. An idle guest goes on to its next timer at once.
      [ -z "${3:-}" ] || ACCEL=(-accel "tcg,thread=single,tb-size=256" -icount "shift=0,sleep=off" -cpu "${2:-qemu64,-cx16}")
      ;;
    kvm)
      [ -w /dev/kvm ] || die "no KVM here (/dev/kvm cannot be opened): leave out --accel kvm, emulation is the default"
      ACCEL=(-accel kvm -cpu "${2:-host}")
      ;;
    *) die "--accel is tcg or kvm, not $1" ;;
  esac
}

virtiofsd_path() {
  local path
  for path in /usr/libexec/virtiofsd /usr/lib/qemu/virtiofsd; do
    [ -x "$path" ] && { echo "$path"; return; }
  done
  return 1
}

# machine_serve TAG SOURCE [ro]: starts a file server in a mount namespace of its own (where `ro`
# makes the source read-only, whatever the guest asks for) and adds its device to SHARES, its pid to
# PIDS. Ends with this script.
machine_serve() {
  local tag=$1 source=$2 socket=$RUN/$1 options
  # shellcheck disable=SC2016 # expanded by the inner shell
  if "$VIRTIOFSD" --help 2>&1 | grep -q -- --shared-dir; then # the Rust one
    options='--socket-path="$1" --shared-dir="$2" --sandbox=chroot --cache=auto --log-level=error'
  else
    options='--socket-path="$1" -o source="$2" -o sandbox=chroot -o cache=auto -o log_level=err -f'
  fi
  mkdir -p "$socket.ro"
  # shellcheck disable=SC2016 # expanded by the inner shell
  setpriv --pdeathsig KILL unshare -m --propagation private bash -c '
    if [ -n "$3" ]; then mount --bind "$2" "$1.ro" && mount -o remount,bind,ro "$1.ro" || exit 1; set -- "$1" "$1.ro"; fi
    exec "$0" '"$options" "$VIRTIOFSD" "$socket" "$source" "${3:-}" 9>&- >"$socket.err" 2>&1 &
  PIDS+=($!)
  SHARES+=(-chardev "socket,id=c$tag,path=$socket" -device "vhost-user-fs-pci,chardev=c$tag,tag=$tag,queue-size=1024")
  SOCKETS+=("$socket")
}

# machine_served: waits until every file server listens
machine_served() {
  local socket i
  for socket in "${SOCKETS[@]}"; do
    for ((i = 0; i < 300; i++)); do
      [ -S "$socket" ] && break
      sleep 0.1
    done
    [ -S "$socket" ] || { cat "$socket.err" >&2; die "virtiofsd did not start (it wants root and its own mount namespace)"; }
  done
}

# machine_slot: at most LAB_GUESTS guests at a time on this machine (default: one per CPU); waits
# for a free place
machine_slot() {
  local guests=${LAB_GUESTS:-$(nproc)} i said=
  mkdir -p "$LAB_CACHE/slots"
  while :; do
    for ((i = 1; i <= guests; i++)); do
      exec 9>>"$LAB_CACHE/slots/$i"
      flock -n 9 && return
    done
    [ -n "$said" ] || say "waiting for one of $guests other guests to end"
    said=1
    sleep 1
  done
}
