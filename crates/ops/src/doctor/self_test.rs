//! The self-test: whether a set sees accesses that are known to have happened.
//!
//! A child process owns 512 private pages in one mapping and 64 in another. In each round the set
//! makes all of them old, the child touches about half of the 512, and the set is asked about all.
//! There are rounds with reads, rounds with writes, and rounds without touches. Every wrong answer
//! is counted:
//!
//! * **false idle**: a touched page that reads as old;
//! * **false hot**: an untouched page that reads as young. In the mapping of touched pages this
//!   tells the granularity: a set that answers per mapping is wrong there, and right in the other
//!   mapping;
//! * **unanswered**: a page about which the set says nothing.

use std::io;

use isotherm_core::addr::PAGE_SIZE;
use isotherm_core::{AddrRange, Check, Operations, PageState, TargetId};
use isotherm_host::error::{SetError, SetKind};
use isotherm_host::proc::Proc;
use isotherm_sys::clock::{now, sleep_until};
use isotherm_sys::touch::{NR_PAGES, TestChild, Touch};
use serde::Serialize;

use super::region_test::region_test;
use crate::set::OpsSet;
use crate::smaps::{Limits, SmapsOps};
use crate::targets::Target;

/// How many of how many.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Rate {
    /// How many were wrong.
    pub wrong: u64,
    /// Of how many.
    pub of: u64,
}

impl Rate {
    pub(super) fn count(&mut self, wrong: bool) {
        self.wrong += u64::from(wrong);
        self.of += 1;
    }

    /// Whether the rate is worse than one in [`TOLERANCE`]. Other users of the accessed bits
    /// (reclaim, the kernel's DAMON) clear some of them, so a set need not be perfect. A broken set
    /// is far off.
    fn is_bad(self) -> bool {
        self.wrong * TOLERANCE > self.of
    }
}

/// One in so many wrong answers is borne.
const TOLERANCE: u64 = 20;

/// The unit in which a set tells touched from untouched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Granularity {
    /// Single pages.
    Page,
    /// Regions: neighbours that look alike share one number.
    Region,
    /// Whole mappings.
    Mapping,
    /// It does not tell them apart at all.
    None,
}

/// How a self-test went.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SelfTest {
    /// Pages that were read and seen as old.
    pub missed_reads: Rate,
    /// Pages that were written and seen as old.
    pub missed_writes: Rate,
    /// Untouched pages seen as young, in the mapping of the touched ones.
    pub false_hot: Rate,
    /// Untouched pages seen as young, in another mapping, or when nothing was touched anywhere.
    pub false_hot_elsewhere: Rate,
    /// Pages about which the set said nothing.
    pub unanswered: Rate,
    /// For sets that do not flush the TLB: touched pages that looked old while their translations
    /// were cached. The other counts of such a set are taken after the child has flushed it.
    pub hidden_by_tlb: Option<Rate>,
    /// What the set can tell apart.
    pub granularity: Granularity,
    /// Size of the largest page-table leaf that was seen, in bytes; 2 MiB says that huge pages are
    /// recognised. 4 KiB may also mean that the kernel gave none.
    pub largest_leaf_bytes: u64,
    /// Whether the huge page was still whole after it was made old; `None` if there was none.
    pub huge_page_kept: Option<bool>,
    /// Time per page of a look, in ns.
    pub ns_per_check: u64,
    /// Time per cleared page, in ns, with the look at it. `None` if no page was cleared.
    pub ns_per_clear: Option<u64>,
    /// Why the set must not be used; `None` if it works.
    pub failure: Option<String>,
}

/// The child's name in the set under test. It is the last possible one, which no tracker reaches.
pub(super) const TEST_TARGET: TargetId = TargetId(u32::MAX);

/// Tests an operations set on private pages of a child process, and removes the child from the set
/// again. A set that fails is tested once more, because another program may have interfered.
///
/// # Errors
///
/// If the child cannot be made, or the set does not accept it.
pub fn self_test(ops: &mut OpsSet) -> Result<SelfTest, SetError> {
    if let OpsSet::Kdamond(set) = ops {
        return region_test(set);
    }
    // The set's limits protect large targets. The child has only half a MiB to walk.
    if let OpsSet::Smaps(_) = ops {
        let limits = Limits { clear_every_us: 0, look_every_us: 0, ..Limits::default() };
        let mut fast = OpsSet::Smaps(Box::new(SmapsOps::new(Proc::default(), limits.forced())));
        return test_twice(&mut fast, Granularity::Mapping);
    }
    test_twice(ops, Granularity::Page)
}

fn test_twice(ops: &mut OpsSet, wanted: Granularity) -> Result<SelfTest, SetError> {
    let first = test_once(ops, wanted)?;
    if first.failure.is_none() { Ok(first) } else { test_once(ops, wanted) }
}

fn test_once(ops: &mut OpsSet, wanted: Granularity) -> Result<SelfTest, SetError> {
    let mut child = TestChild::fork().map_err(not_run)?;
    let target = Target {
        id: TEST_TARGET,
        pid: child.pid(),
        ppid: std::process::id(),
        name: "self-test".to_owned(),
        start_ticks: 0,
        generation: 0,
        memory: None,
    };
    ops.attach(&target)?;
    let flush = !ops.sees_at_once();
    let result = measure(ops, &mut child, flush).map(|tally| tally.judge(wanted));
    ops.detach(TEST_TARGET);
    result.map_err(not_run)
}

/// The kernel would not let the child run as the test needs it.
pub(super) fn not_run(said: io::Error) -> SetError {
    let what = "the self-test could not run";
    SetError::new(SetKind::Io, what, "run a child process", what, "").with(said)
}

/// What was counted.
#[derive(Debug, Default)]
struct Tally {
    missed_reads: Rate,
    missed_writes: Rate,
    false_hot: Rate,
    false_hot_elsewhere: Rate,
    unanswered: Rate,
    hidden: Option<Rate>,
    largest_leaf_bytes: u64,
    huge_page_kept: Option<bool>,
    checks: u64,
    check_ns: u64,
    clears: u64,
    clear_ns: u64,
    /// The child flushes its TLB before it touches.
    flush: bool,
}

/// Rounds of each kind.
const NR_ROUNDS: u64 = 6;
/// Time between making old and touching, in µs. A set that does not flush the TLB sees nothing at
/// first, and no monitor looks that soon.
const SETTLE_US: u64 = 2_000;

/// `flush`: the set does not flush the TLB, so the child flushes it before it touches.
fn measure(ops: &mut dyn Operations, child: &mut TestChild, flush: bool) -> io::Result<Tally> {
    let mut tally = Tally::default();
    if flush {
        tally.look_through_tlb(ops, child)?;
        tally.hidden = Some(std::mem::take(&mut tally.missed_reads));
        tally = Tally { hidden: tally.hidden, flush, ..Tally::default() };
    }
    for round in 0..NR_ROUNDS {
        tally.round(ops, child, Some(Touch::Read), round)?;
        tally.round(ops, child, Some(Touch::Write), round + NR_ROUNDS)?;
        if round % 3 == 0 {
            tally.round(ops, child, None, round)?;
        }
    }
    tally.try_huge(ops, child)?;
    Ok(tally)
}

impl Tally {
    fn round(
        &mut self,
        ops: &mut dyn Operations,
        child: &mut TestChild,
        touch: Option<Touch>,
        round: u64,
    ) -> io::Result<()> {
        let nr_of = |range: AddrRange, addr: u64| (addr - range.start) / PAGE_SIZE;
        let is_touched = |nr: u64| mix(round, nr) & 1 == 0;
        let mut batch: Vec<_> = pages_of(child.pages())
            .chain(pages_of(child.other()))
            .map(|addr| Check::new(TEST_TARGET, addr, 0))
            .collect();
        let begin = now();
        ops.prepare(&mut batch);
        let prepared = now().since(begin);
        let cleared = batch.iter().filter(|c| c.state == PageState::Cleared).count() as u64;
        if cleared > 0 {
            self.clears += cleared;
            self.clear_ns += prepared;
        }
        sleep_until(now().plus_us(SETTLE_US));
        if self.flush {
            child.flush_tlb()?;
        }
        if let Some(touch) = touch {
            child.touch(touch, is_touched)?;
        }
        let begin = now();
        ops.check(&mut batch);
        self.check_ns += now().since(begin);
        self.checks += batch.len() as u64;
        for check in &batch {
            let young = match check.state {
                PageState::Young => true,
                PageState::Old => false,
                _ => {
                    self.unanswered.count(true);
                    continue;
                }
            };
            self.unanswered.count(false);
            let here = child.pages().contains(check.addr);
            let touched = here && is_touched(nr_of(child.pages(), check.addr));
            match touch {
                Some(Touch::Read) if touched => self.missed_reads.count(!young),
                Some(Touch::Write) if touched => self.missed_writes.count(!young),
                Some(_) if here => self.false_hot.count(young),
                _ => self.false_hot_elsewhere.count(young),
            }
        }
        Ok(())
    }

    /// Two rounds without a flush of the child's TLB. They show what a set that does not flush it
    /// misses at worst.
    fn look_through_tlb(
        &mut self,
        ops: &mut dyn Operations,
        child: &mut TestChild,
    ) -> io::Result<()> {
        for round in 0..2 {
            child.touch(Touch::Read, |nr| mix(round, nr) & 1 == 0)?;
            self.round(ops, child, Some(Touch::Read), round)?;
        }
        Ok(())
    }

    /// Makes a huge page old and looks whether it is still one.
    fn try_huge(&mut self, ops: &mut dyn Operations, child: &mut TestChild) -> io::Result<()> {
        self.largest_leaf_bytes = PAGE_SIZE;
        let mut batch = [Check::new(TEST_TARGET, child.huge().start + 5 * PAGE_SIZE, 0)];
        child.touch_huge()?;
        ops.check(&mut batch);
        let before = batch[0].leaf_shift;
        if before <= 12 {
            return Ok(());
        }
        self.largest_leaf_bytes = 1 << before;
        ops.prepare(&mut batch);
        ops.check(&mut batch);
        self.huge_page_kept = Some(batch[0].leaf_shift == before);
        Ok(())
    }

    fn judge(self, wanted: Granularity) -> SelfTest {
        let granularity = if self.false_hot_elsewhere.is_bad() {
            Granularity::None
        } else if self.false_hot.is_bad() {
            Granularity::Mapping
        } else {
            Granularity::Page
        };
        SelfTest {
            failure: self.failure(granularity, wanted),
            missed_reads: self.missed_reads,
            missed_writes: self.missed_writes,
            false_hot: self.false_hot,
            false_hot_elsewhere: self.false_hot_elsewhere,
            unanswered: self.unanswered,
            hidden_by_tlb: self.hidden,
            granularity,
            largest_leaf_bytes: self.largest_leaf_bytes,
            huge_page_kept: self.huge_page_kept,
            ns_per_check: self.check_ns / self.checks.max(1),
            ns_per_clear: self.clear_ns.checked_div(self.clears),
        }
    }

    fn failure(&self, granularity: Granularity, wanted: Granularity) -> Option<String> {
        let counts = |rate: Rate| format!("{} of {}", rate.wrong, rate.of);
        if self.unanswered.is_bad() {
            Some(format!("{} questions had no answer", counts(self.unanswered)))
        } else if self.clears == 0 {
            Some("no accessed bit could be cleared".to_owned())
        } else if self.missed_reads.is_bad() {
            Some(format!("{} reads were not seen", counts(self.missed_reads)))
        } else if self.missed_writes.is_bad() {
            Some(format!("{} writes were not seen", counts(self.missed_writes)))
        } else if granularity == Granularity::None {
            let elsewhere = counts(self.false_hot_elsewhere);
            Some(format!("{elsewhere} pages that nobody touched read as touched"))
        } else if granularity > wanted {
            Some(format!("{} untouched pages read as touched", counts(self.false_hot)))
        } else if self.huge_page_kept == Some(false) {
            Some("looking at a huge page split it".to_owned())
        } else {
            None
        }
    }
}

fn pages_of(range: AddrRange) -> impl Iterator<Item = u64> {
    (0..range.len() / PAGE_SIZE).map(move |nr| range.start + nr * PAGE_SIZE)
}

/// Spreads the touched pages without a pattern (the finalizer of splitmix64).
const fn mix(round: u64, nr: u64) -> u64 {
    let mut z = (round * NR_PAGES + nr + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use isotherm_core::ops::UpdateError;

    use super::*;

    /// A set that always gives the same answer to a question, as broken sets do.
    struct Liar {
        prepare: PageState,
        check: PageState,
    }

    impl Operations for Liar {
        fn prepare(&mut self, batch: &mut [Check]) {
            batch.iter_mut().for_each(|c| c.state = self.prepare);
        }

        fn check(&mut self, batch: &mut [Check]) {
            batch.iter_mut().for_each(|c| c.state = self.check);
        }

        fn update(&mut self, _: TargetId, _: &mut Vec<AddrRange>) -> Result<(), UpdateError> {
            Err(UpdateError::NotNow)
        }

        fn target_valid(&mut self, _: TargetId) -> bool {
            true
        }
    }

    /// The worst set reads zeros as "idle". Each kind of wrong answer must be found.
    #[test]
    fn liars_are_found_out() {
        let mut child = TestChild::fork().unwrap();
        for (prepare, check, failure) in [
            (PageState::Cleared, PageState::Old, "reads were not seen"),
            (PageState::Old, PageState::Old, "no accessed bit could be cleared"),
            (PageState::Cleared, PageState::Young, "nobody touched"),
            (PageState::Cleared, PageState::Unknown, "had no answer"),
            (PageState::Cleared, PageState::Unresolved, "had no answer"),
            (PageState::Unresolved, PageState::Young, "no accessed bit could be cleared"),
            (PageState::Cleared, PageState::Absent, "had no answer"),
        ] {
            for wanted in [Granularity::Page, Granularity::Mapping] {
                for flush in [false, true] {
                    let tally = measure(&mut Liar { prepare, check }, &mut child, flush).unwrap();
                    assert_eq!(tally.hidden.is_some(), flush);
                    let said = tally.judge(wanted).failure.unwrap_or_default();
                    assert!(said.contains(failure), "{prepare:?} {check:?} {wanted:?}: {said}");
                }
            }
        }
    }

    #[test]
    fn an_answer_per_mapping_is_not_one_per_page() {
        let rate = |wrong, of| Rate { wrong, of };
        let tally = || Tally {
            missed_reads: rate(1, 1000),
            missed_writes: rate(0, 1000),
            false_hot: rate(990, 1000),
            false_hot_elsewhere: rate(2, 1000),
            unanswered: rate(0, 4000),
            clears: 1,
            ..Tally::default()
        };
        assert_eq!(tally().judge(Granularity::Mapping).failure, None);
        let test = tally().judge(Granularity::Page);
        assert_eq!(test.granularity, Granularity::Mapping);
        assert!(test.failure.unwrap().contains("990 of 1000"));
        let split = Tally { huge_page_kept: Some(false), false_hot: rate(0, 1000), ..tally() };
        assert!(split.judge(Granularity::Page).failure.unwrap().contains("split"));
    }
}
