//! What the machine says of itself for `sessions`.

use std::fs;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use isotherm_host::proc::meminfo_kib;
use isotherm_host::{Machine, Roots};
use isotherm_sys::clock;

use crate::cells::UnixNs;
use crate::cgroup::stalled_us;
use crate::request;
use crate::rows::SessionRow;

/// What systemd-timesyncd makes once it has set the clock.
const TIMESYNC: &str = "/run/systemd/timesync/synchronized";

/// What does not change while the agent runs.
#[derive(Debug, Clone)]
pub(crate) struct Facts {
    roots: Roots,
    machine: Machine,
}

impl Facts {
    /// Reads them.
    pub(crate) fn read() -> Self {
        let roots = Roots::default();
        let machine = Machine::read(&roots);
        Self { roots, machine }
    }

    /// The host's name.
    #[cfg(test)]
    pub(crate) fn host(&self) -> Option<&str> {
        self.machine.host.as_deref()
    }

    /// What the container of a cgroup with this directory and limit requested, in bytes.
    pub(crate) fn request(&self, cgroup: &Path, limit: Option<u64>) -> Option<u64> {
        let proc = self.roots.proc.root();
        let meminfo = fs::read_to_string(proc.join("meminfo")).ok()?;
        let memory = meminfo_kib(&meminfo, "MemTotal:")?.saturating_mul(1024);
        request::of_cgroup(cgroup, proc, limit, memory)
    }

    /// Puts what the machine is like now into a row.
    pub(crate) fn fill(&self, row: &mut SessionRow) {
        let text =
            |name: &str| fs::read_to_string(self.roots.proc.root().join(name)).unwrap_or_default();
        let meminfo = text("meminfo");
        let bytes = |key| meminfo_kib(&meminfo, key).unwrap_or(0).saturating_mul(1024);
        row.boot = self.machine.boot_id.clone().into();
        row.kernel.clone_from(&self.machine.kernel);
        row.cpus = u32::try_from(self.machine.cpus).unwrap_or(u32::MAX);
        row.page_size = u32::try_from(self.machine.page_bytes).unwrap_or(u32::MAX);
        row.mem_total = bytes("MemTotal:");
        row.mem_available = bytes("MemAvailable:");
        row.swap_total = bytes("SwapTotal:");
        row.swap_used = row.swap_total.saturating_sub(bytes("SwapFree:"));
        row.swap_kind = Some(swap_kind(&text("swaps")).to_owned()).into();
        row.psi_some_us = stalled_us(&text("pressure/memory"), "some").into();
        let sync = clock::sync();
        // Under a filter of system calls, systemd's own mark is what is left.
        let marked = || Path::new(TIMESYNC).exists().then_some(true);
        row.clock_synced = sync.map(|sync| sync.is_synced).or_else(marked).into();
        row.clock_offset_ns = sync.filter(|sync| sync.is_synced).map(|sync| sync.fast_ns).into();
    }
}

/// What swap is on, by the text of `/proc/swaps`; the one with the highest priority counts.
fn swap_kind(text: &str) -> &'static str {
    let of_line = |line: &str| {
        let mut fields = line.split_ascii_whitespace();
        let (name, kind) = (fields.next()?.to_owned(), fields.next()?.to_owned());
        let priority: i64 = fields.nth(2)?.parse().ok()?;
        Some((priority, name, kind))
    };
    let first = text.lines().skip(1).filter_map(of_line).max_by_key(|(priority, ..)| *priority);
    match first {
        None => "none",
        Some((_, name, _)) if name.starts_with("/dev/zram") => "zram",
        Some((_, _, kind)) if kind == "file" => "file",
        Some(_) => "disk",
    }
}

/// What time it is by the clock of the day.
pub(crate) fn wall() -> UnixNs {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    UnixNs(i64::try_from(since.as_nanos()).unwrap_or(i64::MAX))
}

/// A name for this run of the agent: 32 random hexadecimal digits.
pub(crate) fn session() -> String {
    let uuid = fs::read_to_string("/proc/sys/kernel/random/uuid").unwrap_or_default();
    let digits: String = uuid.chars().filter(char::is_ascii_hexdigit).collect();
    if digits.len() == 32 {
        return digits;
    }
    // Without /proc nothing can be watched either; the time and the pid still name this run.
    format!("{:016x}{:016x}", wall().0, u64::from(std::process::id()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn swap_is_what_is_used_first() {
        let head = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n";
        for (lines, kind) in [
            ("", "none"),
            ("/dev/zram0 partition 100 0 100\n", "zram"),
            ("/swap.img file 100 0 -2\n", "file"),
            ("/swap.img file 100 0 -2\n/dev/sda2 partition 9 0 -1\n", "disk"),
            ("/dev/sda2 partition 9 0 -1\n/dev/zram1 partition 9 0 5\n", "zram"),
        ] {
            assert_eq!(swap_kind(&format!("{head}{lines}")), kind, "{lines}");
        }
    }

    #[test]
    fn this_machine_tells_of_itself() {
        let facts = Facts::read();
        let mut row = SessionRow::default();
        facts.fill(&mut row);
        assert!(facts.host().is_some_and(|host| !host.is_empty()));
        assert!(row.mem_total > 0 && row.mem_available > 0 && row.cpus > 0, "{row:?}");
        assert!(row.mem_available <= row.mem_total && row.swap_used <= row.swap_total);
        assert_ne!(session(), session());
        assert_eq!(session().len(), 32);
    }
}
