# Messages of the scripts below dist/, and numbers for people. To be sourced.

# die WHAT [TRIED [WHY [HINT]]]: ends with status 1 and says why, as the program itself does.
die() {
  echo "error: $1" >&2
  [ $# -lt 2 ] || echo "  tried: $2" >&2
  [ $# -lt 3 ] || echo "  why:   $3" >&2
  [ $# -lt 4 ] || echo "  hint:  $4" >&2
  exit 1
}

# mib BYTES: the size in MiB with one decimal.
mib() { awk -v bytes="$1" 'BEGIN { printf "%.1f", bytes / 1048576 }'; }
