//! Stops actions when a set's reads no longer show any access.
//!
//! A set that always answers "not touched" makes all memory look cold, and a scheme would then page
//! out hot memory. The guard looks for answers that contradict each other:
//!
//! 1. [`Guard::window`] gets every snapshot, and the CPU time that the targets used. If no access
//!    was seen for 3 s in which the targets ran for 5 % of the time, the verdict is
//!    [`Verdict::Suspicious`]. This alone proves nothing: the samples may have missed the few pages
//!    in use.
//! 2. The caller then counts the young pages of the whole targets ([`young_pages`]) and passes the
//!    number to [`Guard::control`]. A process that runs has some: its stack, its code. If there are
//!    none, the verdict is [`Verdict::Silent`], and acting must stop. Otherwise all is well, and
//!    the next control is put off, longer each time, so that a target that is hard to sample does
//!    not cost more and more.
//!
//! A silent set stays silent until [`Guard::passed_self_test`]. Call that after [`crate::doctor`]
//! has tested the set again.

mod facts;

use std::{fmt, io};

use isotherm_core::{Snapshot, TargetId, Time};
use isotherm_pages::tables::PageTables;

pub use facts::{Facts, TargetFacts};

/// What the guard says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing is wrong.
    Fine,
    /// Ask for a control.
    Suspicious,
    /// The set's answers are not true any more: do not act. The text is for people.
    Silent(Silence),
}

impl Verdict {
    /// Whether schemes may act.
    #[must_use]
    pub const fn may_act(&self) -> bool {
        matches!(self, Self::Fine)
    }
}

/// What was seen of a set that went silent. Its text says what was seen, why no action is taken,
/// and what to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Silence {
    /// For how long nothing was touched, in ns.
    pub quiet_ns: u64,
    /// Windows in that time.
    pub windows: u64,
    /// CPU time that the targets used in it, in ns.
    pub cpu_ns: u64,
    /// In how many of the windows the size of a target's mappings or resident memory changed.
    pub changes: u64,
}

impl fmt::Display for Silence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |ns: u64| ns / 1_000_000;
        writeln!(f, "the operations set went silent: no action is taken")?;
        writeln!(
            f,
            "  tried: {} windows of samples ({} ms), then all pages of the targets: none was touched",
            self.windows,
            ms(self.quiet_ns)
        )?;
        write!(f, "  why:   the targets used {} ms of CPU time meanwhile", ms(self.cpu_ns))?;
        if self.changes > 0 {
            write!(f, " and their memory changed in {} windows", self.changes)?;
        }
        writeln!(f, ", so what the set says cannot be true, and hot memory would look cold")?;
        write!(f, "  hint:  `isotherm doctor` tests the sets; actions stay off until it is passed")
    }
}

/// Watches a set's answers. See the module's text.
#[derive(Debug)]
pub struct Guard {
    wait_ns: u64,
    /// How long no access must be seen now. It grows with every control that found nothing wrong.
    needed_ns: u64,
    last_end: Option<Time>,
    seen: Silence,
    suspects: bool,
    silent: bool,
}

const WAIT_NS: u64 = 3_000_000_000;
/// Limit on how much rarer controls become, in multiples of the first wait.
const MAX_GROWTH: u64 = 16;
/// Share of one CPU that counts as running: one part in so many.
const CPU_SHARE: u64 = 20;
const NOTHING: Silence = Silence { quiet_ns: 0, windows: 0, cpu_ns: 0, changes: 0 };

impl Default for Guard {
    fn default() -> Self {
        Self::new()
    }
}

impl Guard {
    /// Suspects after 3 s.
    #[must_use]
    pub const fn new() -> Self {
        Self::after(WAIT_NS)
    }

    /// Suspects after `wait_ns`, but never within less than three windows.
    #[must_use]
    pub const fn after(wait_ns: u64) -> Self {
        Self {
            wait_ns,
            needed_ns: wait_ns,
            last_end: None,
            seen: NOTHING,
            suspects: false,
            silent: false,
        }
    }

    /// Whether [`Guard::window`] has to know what the targets did: if nothing was touched in this
    /// one. To find that out takes two small files of each target.
    #[must_use]
    pub fn asks(&self, snapshot: &Snapshot) -> bool {
        !self.silent && snapshot.nr_regions() > 0 && !is_touched(snapshot)
    }

    /// Takes in a window. `facts` is what the targets did since the last one.
    pub fn window(&mut self, snapshot: &Snapshot, facts: &[TargetFacts]) -> Verdict {
        let from = self.last_end.unwrap_or(snapshot.start).max(snapshot.start.min(snapshot.end));
        self.last_end = Some(snapshot.end);
        if self.silent {
            return Verdict::Silent(self.seen);
        }
        if snapshot.nr_regions() == 0 {
            // Nothing is watched, so nothing can be acted on.
            return self.fine(self.needed_ns);
        }
        if is_touched(snapshot) {
            return self.fine(self.wait_ns);
        }
        self.seen.windows += 1;
        self.seen.quiet_ns += snapshot.end.since(from);
        self.seen.cpu_ns += facts.iter().map(|f| f.cpu_ns).sum::<u64>();
        self.seen.changes += u64::from(facts.iter().any(|f| f.changed));
        let long = self.seen.windows >= 3 && self.seen.quiet_ns >= self.needed_ns;
        if long && self.seen.cpu_ns < self.seen.quiet_ns / CPU_SHARE {
            // The targets sleep, so the silence is right. Whatever they do next is judged anew.
            return self.fine(self.needed_ns);
        }
        self.suspects = long;
        if long { Verdict::Suspicious } else { Verdict::Fine }
    }

    /// Takes in a control: the number of young pages of all targets. It counts only after
    /// [`Verdict::Suspicious`]. Pass 0 if the control failed.
    pub fn control(&mut self, young_pages: u64) -> Verdict {
        if self.silent || self.suspects && young_pages == 0 {
            self.silent = true;
            return Verdict::Silent(self.seen);
        }
        if !self.suspects {
            return Verdict::Fine;
        }
        let most = self.wait_ns.saturating_mul(MAX_GROWTH);
        self.fine(self.needed_ns.saturating_mul(2).min(most))
    }

    /// The set has passed a self-test since it went silent, so it is trusted again.
    pub fn passed_self_test(&mut self) {
        self.silent = false;
        self.fine(self.wait_ns);
    }

    fn fine(&mut self, needed_ns: u64) -> Verdict {
        self.needed_ns = needed_ns;
        self.seen = NOTHING;
        self.suspects = false;
        Verdict::Fine
    }
}

/// Whether a set has seen any access.
fn is_touched(snapshot: &Snapshot) -> bool {
    let mut regions = snapshot.targets.iter().flat_map(|t| &t.regions);
    regions.any(|r| r.resolved && r.nr_accesses > 0)
}

/// Counts the young leaves (pages, or huge pages) of whole targets; for [`Guard::control`].
///
/// # Errors
///
/// What the kernel says about running the program that reads the page tables.
pub fn young_pages(tables: &mut PageTables, targets: &[TargetId]) -> io::Result<u64> {
    let mut young = 0;
    for &target in targets {
        young += tables.young_leaves(target)?;
    }
    Ok(young)
}

#[cfg(test)]
mod tests {
    use isotherm_core::{RegionInfo, TargetInfo};

    use super::*;

    fn snapshot(end_ms: u64, accesses: &[u32], resolved: bool) -> Snapshot {
        let region =
            |&nr_accesses: &u32| RegionInfo { nr_accesses, resolved, ..RegionInfo::default() };
        let regions = accesses.iter().map(region).collect();
        let targets = vec![TargetInfo { id: TargetId(0), regions, ..TargetInfo::default() }];
        let (start, end) = (Time((end_ms - 100) * 1_000_000), Time(end_ms * 1_000_000));
        Snapshot { start, end, targets, ..Snapshot::default() }
    }

    fn facts(cpu_ms: u64) -> [TargetFacts; 1] {
        [TargetFacts { id: TargetId(0), cpu_ns: cpu_ms * 1_000_000, changed: cpu_ms > 50 }]
    }

    /// Windows of 100 ms: what the regions show, the CPU time of each, and the first suspicious
    /// window.
    #[test]
    fn suspects_when_nothing_is_touched_although_they_run() {
        type Window = fn(u64) -> (Vec<u32>, u64);
        let cases: &[(&str, Window, bool, Option<u64>)] = &[
            ("runs, quiet", |_| (vec![0, 0], 100), true, Some(30)),
            ("runs at 5 %", |_| (vec![0, 0], 5), true, Some(30)),
            ("runs at 4 %", |_| (vec![0, 0], 4), true, None),
            ("sleeps", |_| (vec![0, 0], 0), true, None),
            ("one page in use", |_| (vec![0, 1], 100), true, None),
            ("seen once, then quiet", |n| (vec![u32::from(n == 20)], 100), true, Some(50)),
            ("seen every 2.9 s", |n| (vec![u32::from(n % 29 == 0)], 100), true, None),
            ("sleeps, then runs", |n| (vec![0], if n > 30 { 100 } else { 0 }), true, Some(60)),
            ("unresolved says nothing", |_| (vec![5, 5], 100), false, Some(30)),
            ("no regions", |_| (vec![], 100), true, None),
        ];
        for (name, window, resolved, expected) in cases {
            let mut guard = Guard::new();
            let first = (1..=100).find(|&n| {
                let (accesses, cpu) = window(n);
                let verdict = guard.window(&snapshot(n * 100, &accesses, *resolved), &facts(cpu));
                verdict == Verdict::Suspicious
            });
            assert_eq!(first, *expected, "{name}");
        }
    }

    fn until_suspicious(guard: &mut Guard, n: &mut u64) -> u64 {
        let from = *n;
        loop {
            *n += 1;
            assert!(*n < from + 10_000, "never suspicious");
            if guard.window(&snapshot(*n * 100, &[0], true), &facts(100)) == Verdict::Suspicious {
                return *n - from;
            }
        }
    }

    #[test]
    fn a_control_decides_and_silence_stays() {
        let (mut guard, mut n) = (Guard::new(), 0);
        assert_eq!(guard.control(0), Verdict::Fine, "nobody asked");
        // Legitimate misses: each control makes the next one rarer, up to a bound.
        let waits = [0; 6].map(|_: u64| {
            let wait = until_suspicious(&mut guard, &mut n);
            assert_eq!(guard.control(7), Verdict::Fine);
            wait
        });
        assert_eq!(waits, [30, 60, 120, 240, 480, 480]);
        // A look that sees something ends that.
        n += 1;
        assert_eq!(guard.window(&snapshot(n * 100, &[3], true), &facts(100)), Verdict::Fine);
        assert_eq!(until_suspicious(&mut guard, &mut n), 30);
        let verdict = guard.control(0);
        assert!(!verdict.may_act());
        let Verdict::Silent(silence) = verdict else { panic!("{verdict:?}") };
        assert_eq!((silence.windows, silence.quiet_ns), (30, 3_000_000_000));
        expect_test::expect![[r"
            the operations set went silent: no action is taken
              tried: 30 windows of samples (3000 ms), then all pages of the targets: none was touched
              why:   the targets used 3000 ms of CPU time meanwhile and their memory changed in 30 windows, so what the set says cannot be true, and hot memory would look cold
              hint:  `isotherm doctor` tests the sets; actions stay off until it is passed"]]
        .assert_eq(&silence.to_string());
        // Neither accesses nor another control bring it back, only a self-test.
        n += 1;
        assert_eq!(guard.window(&snapshot(n * 100, &[9], true), &facts(100)), verdict);
        assert_eq!(guard.control(1000), verdict);
        guard.passed_self_test();
        assert_eq!(until_suspicious(&mut guard, &mut n), 30);
    }
}
