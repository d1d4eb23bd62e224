# For checks, most of which run inside a clean system. To be sourced; at the end, `finish`.
#
# A line per check; what failed says why. Outside of a clean system, `work` is a folder for files on
# the way, and `policies` the one of policies.

failed=0
# ok NAME COMMAND...: one check
ok() {
  local name=$1 said
  shift
  if said=$("$@" 2>&1); then echo "ok: $name"; else
    echo "FAILED: $name: $(tail -n 5 <<<"$said")"
    failed=1
  fi
}
no() { if "$@"; then echo "this should have failed: $*"; return 1; fi; }
# says PATTERN FILE: the file has a line like this
says() { grep -q -- "$1" "$2" || { echo "no line \"$1\" in $2:"; cat "$2"; return 1; }; }
# within SECONDS COMMAND...: the command succeeds before that
within() {
  local until=$((SECONDS + $1))
  shift
  until "$@" >"${work:-/tmp}/within" 2>&1; do
    [ "$SECONDS" -lt "$until" ] || { echo "not in time: $*"; tail -n 5 "${work:-/tmp}/within"; return 1; }
    sleep 0.1
  done
}
now() { date +%s%N; }
# since BEGIN: seconds with one decimal
since() { awk -v ns=$(($(now) - $1)) 'BEGIN { printf "%.1f", ns / 1e9 }'; }

# files: every file and link outside of what all packages write to, with users and groups. A
# temporary file with a name of its own would show as a difference.
files() {
  find / -xdev \( -path /dist -o -path /proc -o -path /sys -o -path /run -o -path /tmp -o -path /dev \
    -o -path /var/lib/dpkg -o -path /var/lib/rpm -o -path /var/log -o -path /var/cache -o -path /var/tmp \
    -o -path /var/lib/systemd -o -path /root/.rpmdb -o -path '/etc/*-' -o -path '/etc/.*' \) -prune -o -print | sort
  cut -d : -f 1 /etc/passwd /etc/group | sort | sed 's/^/user or group /'
}

# was_orderly: systemd has seen no end of the service that was not asked for
was_orderly() { ! journalctl -u isotherm _PID=1 --no-pager -o cat | grep -i 'killed\|failed\|timed out'; }
main_pid() { systemctl show -P MainPID isotherm; }
active() { [ "$(systemctl show -P ActiveState isotherm)" = active ]; }

# workload: starts a program that uses memory, and sets `target` to its pid
workload() {
  isotherm workload stairs --duration 10m -q >"${work:-/tmp}/workload" 2>&1 &
  target=$!
}

# policy NAME: a policy that acts on the workload: it tells the kernel which memory is cold
policy() {
  local at=${policies:-/etc/isotherm/policies.d}
  mkdir -p "$at"
  cat >"$at/$1.toml" <<TOML
[[context]]
name = "c"
targets = [{ pid = $target }]
[[context.scheme]]
name = "$1"
action = "cold"
frequency = "0%"
age = "1s.."
TOML
}
# acts NAME: the policy has acted since its agent came up
acts() { isotherm ctl account "$1" --json | grep -q '"done_bytes":[1-9]'; }
# state_is NAME STATE: of a policy
state_is() {
  local said
  said=$(isotherm ctl list | awk -v name="$1" '$1 == name { print $2; exit }')
  [ "$said" = "$2" ] || { echo "$1 is $said, not $2"; return 1; }
}

# upgraded COMMAND...: an upgrade by COMMAND, told in /tmp/upgrade, while policies `acting` and
# `paused` are as they are called. What has to hold of it, whichever package it is.
upgraded() {
  local pid begin
  pid=$(main_pid)
  begin=$(now)
  ok "upgrades while the agent acts" bash -c '"$@" >/tmp/upgrade 2>&1 || { cat /tmp/upgrade; exit 1; }' _ "$@"
  ok "  another process runs the service then" within 120 bash -c "[ \$(systemctl show -P MainPID isotherm) != $pid ]"
  ok "  it is active" within 120 active
  ok "  the agent before it has ended" no test -e "/proc/$pid"
  ok "  it has ended in order, and was not killed" was_orderly
  ok "  the state is taken over: what was paused is paused" within 120 state_is paused paused
  ok "  what acted acts" within 120 acts acting
  echo "  upgrade to first action: $(since "$begin") s"
  ok "  the history goes on" within 120 bash -c '[ "$(ls /var/lib/isotherm/history/acting/c | wc -l)" -ge 2 ]'
  ok "  the program that was watched runs" kill -0 "$target"
}
finish() { exit "$failed"; }
