//! The self-test of a set that answers in regions (`kdamond`): it must tell hot memory from cold.
//!
//! A child process touches all 512 pages of one mapping about once per millisecond, and no page of
//! two other mappings. It reads in some windows, writes in others, and does nothing in the last
//! ones. The test counts windows, not pages: windows in which the touched mapping looked idle, and
//! windows in which untouched memory looked used.
//!
//! The kernel's DAMON clears accessed bits without flushing the TLB. A cached translation then
//! hides accesses for a while (R§9.5), most of all under emulation. So a set passes if it sees half
//! of the touched windows. A set that reads zeros as "idle" sees none.

use std::io;

use isotherm_core::{AddrRange, Attrs, Observed, Operations};
use isotherm_host::error::SetError;
use isotherm_sys::clock::{now, sleep_until};
use isotherm_sys::touch::{TestChild, Touch};

use super::self_test::{Granularity, Rate, SelfTest, TEST_TARGET, not_run};
use crate::kdamond::Kdamond;

/// Windows of each kind.
const NR_WINDOWS: u64 = 6;
/// Windows that are skipped after a change: the one under way, and the next, which began before it.
const NR_UNSETTLED: u64 = 2;
/// Limit for the whole test, in µs. A window takes 100 ms, and more on a loaded machine.
const PATIENCE_US: u64 = 20_000_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Reads,
    Writes,
    Nothing,
}

/// Tests the set on a child process and lets go of it again.
pub(super) fn region_test(set: &mut Kdamond) -> Result<SelfTest, SetError> {
    let mut child = TestChild::fork().map_err(not_run)?;
    let before = set.attrs();
    set.set_attrs(&Attrs::default())?;
    let mut ranges = vec![child.pages(), child.other(), child.huge()];
    ranges.sort_unstable();
    set.add_ranges(TEST_TARGET, child.pid(), ranges)?;
    let tally = measure(set, &mut child);
    set.remove_target(TEST_TARGET);
    set.reset_share();
    set.set_attrs(&before)?;
    Ok(judge(&tally.map_err(not_run)?))
}

#[derive(Debug, Default)]
struct Tally {
    missed_reads: Rate,
    missed_writes: Rate,
    false_hot: Rate,
    false_hot_elsewhere: Rate,
    windows: u64,
}

fn measure(set: &mut Kdamond, child: &mut TestChild) -> io::Result<Tally> {
    let mut tally = Tally::default();
    let give_up = now().plus_us(PATIENCE_US);
    for kind in [Kind::Reads, Kind::Writes, Kind::Nothing] {
        let mut seen = 0;
        while seen < NR_UNSETTLED + NR_WINDOWS && now() < give_up {
            match kind {
                Kind::Reads => child.touch(Touch::Read, |_| true)?,
                Kind::Writes => child.touch(Touch::Write, |_| true)?,
                Kind::Nothing => {}
            }
            sleep_until(now().plus_us(1000));
            if set.next_window().is_none() {
                continue;
            }
            seen += 1;
            if seen > NR_UNSETTLED {
                let mut regions = Vec::new();
                set.observe(TEST_TARGET, &mut regions);
                tally.window(kind, &regions, child);
            }
        }
    }
    Ok(tally)
}

impl Tally {
    fn window(&mut self, kind: Kind, regions: &[Observed], child: &TestChild) {
        let max = Attrs::default().max_nr_accesses();
        let (hot, other, huge) = (child.pages(), child.other(), child.huge());
        let idle = |range| mean(regions, range) * 20.0 < f64::from(max);
        let used = |range| mean(regions, range) * 10.0 > f64::from(max);
        self.windows += 1;
        match kind {
            Kind::Reads => self.missed_reads.count(idle(hot)),
            Kind::Writes => self.missed_writes.count(idle(hot)),
            Kind::Nothing => self.false_hot.count(used(hot)),
        }
        self.false_hot_elsewhere.count(used(other) || used(huge));
    }
}

/// The mean count over the bytes of `range`. Bytes that were not reported count as idle.
#[expect(clippy::cast_precision_loss, reason = "sizes of a few MiB")]
fn mean(regions: &[Observed], range: AddrRange) -> f64 {
    let part = |o: &Observed| {
        let both = o.range.end.min(range.end).saturating_sub(o.range.start.max(range.start));
        f64::from(o.nr_accesses) * both as f64
    };
    regions.iter().map(part).sum::<f64>() / range.len() as f64
}

fn judge(tally: &Tally) -> SelfTest {
    let wanted = NR_WINDOWS * 3;
    let half = |rate: Rate| rate.wrong * 2 > rate.of;
    let windows = |rate: Rate| format!("{} of {} windows", rate.wrong, rate.of);
    let failure = if tally.windows < wanted {
        let (seen, s) = (tally.windows, PATIENCE_US / 1_000_000);
        Some(format!("{seen} of {wanted} windows came within {s} s"))
    } else if half(tally.missed_reads) {
        Some(format!("reads were not seen in {}", windows(tally.missed_reads)))
    } else if half(tally.missed_writes) {
        Some(format!("writes were not seen in {}", windows(tally.missed_writes)))
    } else if half(tally.false_hot) {
        Some(format!(
            "memory that was not touched any more looked used in {}",
            windows(tally.false_hot)
        ))
    } else if half(tally.false_hot_elsewhere) {
        Some(format!(
            "memory that nobody touched looked used in {}",
            windows(tally.false_hot_elsewhere)
        ))
    } else {
        None
    };
    SelfTest {
        missed_reads: tally.missed_reads,
        missed_writes: tally.missed_writes,
        false_hot: tally.false_hot,
        false_hot_elsewhere: tally.false_hot_elsewhere,
        unanswered: Rate { wrong: wanted.saturating_sub(tally.windows), of: wanted },
        granularity: Granularity::Region,
        largest_leaf_bytes: isotherm_core::addr::PAGE_SIZE,
        huge_page_kept: None,
        hidden_by_tlb: None,
        ns_per_check: 0,
        ns_per_clear: None,
        failure,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn liars_are_found_out() {
        let mut child = TestChild::fork().unwrap();
        child.touch(Touch::Read, |_| true).unwrap();
        let all = |nr_accesses| {
            let of = |range| Observed { range, nr_accesses, age: 0, in_use: false };
            [of(child.pages()), of(child.other()), of(child.huge())]
        };
        let honest = |kind| {
            let mut regions = all(0);
            regions[0].nr_accesses = if kind == Kind::Nothing { 0 } else { 17 };
            regions
        };
        let judged = |answer: &dyn Fn(Kind) -> [Observed; 3]| {
            let mut tally = Tally::default();
            for kind in [Kind::Reads, Kind::Writes, Kind::Nothing] {
                (0..NR_WINDOWS).for_each(|_| tally.window(kind, &answer(kind), &child));
            }
            judge(&tally).failure.unwrap_or_default()
        };
        assert_eq!(judged(&honest), "");
        assert!(judged(&|_| all(0)).contains("reads were not seen"));
        assert!(judged(&|_| all(20)).contains("not touched any more"));
        let spread = |kind| if kind == Kind::Nothing { all(0) } else { all(12) };
        assert!(judged(&spread).contains("nobody touched"));
        assert!(judge(&Tally::default()).failure.unwrap().contains("0 of 18"));
    }

    #[test]
    fn means_are_over_bytes() {
        let range = |a: u64, b: u64| AddrRange::new(a * 4096, b * 4096);
        let o =
            |a, b, nr_accesses| Observed { range: range(a, b), nr_accesses, age: 0, in_use: false };
        let regions = [o(0, 4, 8), o(4, 12, 2)];
        assert!((mean(&regions, range(0, 8)) - 5.0).abs() < 1e-9);
        assert!((mean(&regions, range(8, 16)) - 1.0).abs() < 1e-9);
    }
}
