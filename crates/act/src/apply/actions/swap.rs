//! How much swap there is: without any, anonymous memory cannot be paged out.

use isotherm_core::Time;
use isotherm_host::proc::{Proc, meminfo_kib};

/// Less than this counts as full, in bytes.
const LEAST: u64 = 1 << 20;
/// How long an answer is good, in ns.
const GOOD_NS: u64 = 200_000_000;

/// Swap of the machine, as last seen.
#[derive(Debug, Default)]
pub(in crate::apply) struct Swap {
    at: Option<Time>,
    total: u64,
    free: u64,
    text: Vec<u8>,
}

impl Swap {
    /// Why nothing can be swapped out now; `None`: it can.
    pub(in crate::apply) fn why_not(&mut self, now: Time) -> Option<String> {
        if self.at.is_none_or(|at| now.since(at) > GOOD_NS) {
            self.at = Some(now);
            if Proc::default().read_system("meminfo", &mut self.text).is_ok() {
                let text = String::from_utf8_lossy(&self.text);
                let bytes = |name| meminfo_kib(&text, name).map_or(0, |kib| kib << 10);
                self.total = bytes("SwapTotal:");
                self.free = bytes("SwapFree:");
            }
        }
        if self.total == 0 {
            let hint = "hint: add swap (`swapon`, zram), or filter: \"reject anon\"";
            return Some(format!(
                "this machine has no swap, so anonymous memory cannot be paged out\n  {hint}"
            ));
        }
        (self.free < LEAST).then(|| format!("swap is full ({} MiB)", self.total >> 20))
    }
}
