//! One target of an actor: its process, and what is known and remembered of its memory.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use isotherm_core::scheme::Action;
use isotherm_core::{AddrRange, TargetId, Time};
use isotherm_host::proc::{Proc, parse_smaps};

use crate::apply::actions::collapse::Densest;
use crate::apply::actions::given::Noted;
use crate::apply::actions::prove::Proving;
use crate::apply::evidence::armed::{Evidence, Rules};
use crate::apply::evidence::look::{Look, Seen};
use crate::apply::evidence::monitored::Monitored;
use crate::apply::pages::{Bits, GRANULE, granules};
use crate::apply::proof::moved::Moved;
use crate::apply::proof::taken::Proof;
use crate::{Injector, Outcome, Process};

/// How long the advice that was read stays valid, in ns. Reading it takes some milliseconds per
/// GiB.
const ADVICE_NS: u64 = 10_000_000_000;
/// Time until a huge page that could not be made is tried again, in ns.
const AGAIN_NS: u64 = 30_000_000_000;

#[derive(Debug)]
pub(super) struct TargetState {
    pub(super) id: TargetId,
    pub(super) process: Arc<Process>,
    /// By scheme.
    pub(super) evidence: Vec<Evidence>,
    pub(super) monitored: Monitored,
    pub(super) proof: Proof,
    pub(super) moved: Moved,
    /// Huge page advice that was given, by granule.
    pub(super) hinted: BTreeMap<u64, Action>,
    /// Those of them that had the opposite advice before.
    pub(super) opposed: BTreeSet<u64>,
    /// What notes say of them.
    pub(super) noted: Noted,
    /// What dry runs would have made of granules: huge pages, or huge page advice.
    pub(super) pretended: BTreeMap<u64, Action>,
    /// Whether huge pages pay.
    pub(super) proving: Proving,
    /// What looks for huge pages have found, by scheme.
    pub(super) densest: BTreeMap<usize, Densest>,
    pub(super) injector: Option<Injector>,
    /// Memory that somebody gave huge page advice about, as last read, and when.
    advised: (Option<Time>, Vec<(AddrRange, bool)>),
    /// Granules that refused to become huge pages, and when.
    refused_collapses: BTreeMap<u64, Time>,
}

impl TargetState {
    pub(super) fn new(id: TargetId, process: Process) -> Self {
        let (evidence, proof, moved) = (Vec::new(), Proof::default(), Moved::default());
        let (hinted, pretended, refused_collapses) = Default::default();
        let advised = (None, Vec::new());
        Self {
            id,
            process: Arc::new(process),
            evidence,
            monitored: Monitored::default(),
            proof,
            moved,
            hinted,
            opposed: BTreeSet::new(),
            noted: Noted::default(),
            pretended,
            proving: Proving::default(),
            densest: BTreeMap::new(),
            injector: None,
            advised,
            refused_collapses,
        }
    }

    pub(super) fn evidence(&mut self, scheme: usize) -> &mut Evidence {
        if self.evidence.len() <= scheme {
            self.evidence.resize_with(scheme + 1, Evidence::default);
        }
        &mut self.evidence[scheme]
    }

    /// Does something to a scheme's evidence of the granule at `start`, and returns how many more
    /// pages are waited for after that.
    pub(super) fn note_quiet(
        &mut self,
        scheme: usize,
        start: u64,
        change: impl FnOnce(&mut Evidence),
    ) -> u64 {
        let evidence = self.evidence(scheme);
        let before = evidence.quiet(start);
        change(evidence);
        evidence.quiet(start).minus(before).count()
    }

    /// Takes over what the monitor knows of a range as a scheme's evidence. Returns how many pages
    /// are waited for because of that, or none if the monitor knows nothing.
    pub(super) fn adopt(
        &mut self,
        scheme: usize,
        range: AddrRange,
        rules: Rules,
        now: Time,
    ) -> Option<u64> {
        let mut adopted = None;
        for (start, part) in granules(range) {
            if let Some(idle) = self.monitored.idle(start, rules.confirm_ns, now) {
                let mut is_new = false;
                let pages = self.note_quiet(scheme, start, |evidence| {
                    is_new = evidence.adopt(start, part, idle);
                });
                if is_new {
                    adopted = Some(adopted.unwrap_or(0) + pages);
                }
            }
        }
        adopted
    }

    /// Takes over what the monitor knows of pages in memory that is in use as a whole. Such pages
    /// have to be seen idle twice from now on, because there it matters how fast pages wake up.
    /// Returns how many pages are waited for because of that.
    pub(super) fn adopt_in_use(
        &mut self,
        scheme: usize,
        range: AddrRange,
        rules: Rules,
        now: Time,
    ) -> u64 {
        let mut adopted = 0;
        for (start, part) in granules(range) {
            if let Some(idle) = self.monitored.idle(start, rules.confirm_ns, now)
                && !idle.pages.and(Bits::of(start, part)).is_empty()
            {
                adopted += self.note_quiet(scheme, start, |evidence| {
                    evidence.adopt_granule(start, idle, rules, now);
                });
            }
        }
        adopted
    }

    /// What is seen of `range`, granule by granule; those without any page do not come.
    pub(super) fn see(&self, look: &mut dyn Look, range: AddrRange) -> BTreeMap<u64, Seen> {
        let mut seen = BTreeMap::new();
        // A process that cannot be looked at has ended, so it has no memory there.
        look.look(self.id, range, &mut |start, found| {
            seen.insert(start, found);
        })
        .ok();
        seen
    }

    /// What is seen in the granules that begin in `range` and that the monitor has made old since
    /// `since`: what is young there was touched after that.
    pub(super) fn see_fresh(
        &self,
        look: &mut dyn Look,
        range: AddrRange,
        since: Time,
    ) -> BTreeMap<u64, Seen> {
        let mut runs: Vec<AddrRange> = Vec::new();
        for start in self.monitored.made_old_since(range, since) {
            match runs.last_mut() {
                Some(run) if run.end == start => run.end = start + GRANULE,
                _ => runs.push(AddrRange::new(start, start + GRANULE)),
            }
        }
        runs.into_iter().flat_map(|run| self.see(look, run)).collect()
    }

    /// What is seen where the chosen pages are.
    pub(super) fn see_chosen(&self, look: &mut dyn Look, chosen: &Chosen) -> BTreeMap<u64, Seen> {
        chosen.places().into_iter().flat_map(|place| self.see(look, place)).collect()
    }

    /// Whether the granule at `start` lies in memory with this advice already: ours, or the
    /// program's own.
    pub(super) fn is_advised(&mut self, start: u64, huge: bool, now: Time) -> bool {
        let (read, advised) = &mut self.advised;
        if read.is_none_or(|at| now.since(at) > ADVICE_NS) {
            (*read, *advised) = (Some(now), advice(&self.process));
        }
        let at = advised.partition_point(|(range, _)| range.end <= start);
        advised.get(at).is_some_and(|(range, is)| range.contains(start) && *is == huge)
    }

    /// How many bytes of these ranges have this advice now.
    pub(super) fn advised_bytes(&self, ranges: &[AddrRange], huge: bool) -> u64 {
        let advised = advice(&self.process).into_iter().filter(|(_, is)| *is == huge);
        let of = |(range, _)| ranges.iter().map(|part| part.overlap(&range)).sum::<u64>();
        advised.map(of).sum()
    }

    /// Whether the granule at `start` refused to become a huge page not long ago.
    pub(super) fn refused_collapse(&self, start: u64, now: Time) -> bool {
        self.refused_collapses.get(&start).is_some_and(|at| now.since(*at) < AGAIN_NS)
    }

    /// The granule at `start` refused to become a huge page: it is not asked for again soon.
    pub(super) fn note_refused_collapse(&mut self, start: u64, now: Time) {
        self.refused_collapses.retain(|_, at| now.since(*at) < AGAIN_NS);
        self.refused_collapses.insert(start, now);
    }
}

/// The huge page advice of all mappings that have some. A process that has gone gave none.
fn advice(process: &Process) -> Vec<(AddrRange, bool)> {
    let mut text = Vec::new();
    if Proc::default().read(process.pid(), "smaps", &mut text).is_err() {
        return Vec::new();
    }
    parse_smaps(&text).filter_map(|m| Some((m.range, m.huge_advice?))).collect()
}

/// What was done.
#[derive(Debug, Default)]
pub(super) struct Did {
    pub(super) outcome: Outcome,
    /// Migration only: what was moved.
    pub(super) moved: Vec<AddrRange>,
    /// Migration only: bytes refused because the node had no room (`ENOMEM`).
    pub(super) no_room: u64,
    /// The address up to which it was done, if it was stopped.
    pub(super) stopped_at: Option<u64>,
}

impl Did {
    /// The address before which all chosen pages were asked for.
    pub(super) fn end(&self) -> u64 {
        self.stopped_at.unwrap_or(u64::MAX)
    }
}

/// Pages to act on, in address order.
#[derive(Debug, Default)]
pub(super) struct Chosen {
    pub(super) granules: Vec<(u64, Bits)>,
    pub(super) ranges: Vec<AddrRange>,
    pub(super) bytes: u64,
    /// Whether a huge page is among them. An action may then stop only at the end of a huge page.
    pub(super) huge: bool,
    /// Where the limit cut it; what follows was not looked at.
    pub(super) cut_at: Option<u64>,
}

impl Chosen {
    /// Takes in pages of the granule at `start`, up to `most` bytes in all. A huge page is taken as
    /// a whole or not at all. The first one is always taken, because a limit below its size would
    /// never admit it.
    pub(super) fn push(&mut self, start: u64, mut pages: Bits, huge: bool, most: u64) {
        if self.cut_at.is_some() || pages.is_empty() {
            return;
        }
        let left = most.saturating_sub(self.bytes) >> 12;
        if pages.count() > left && !(huge && self.bytes == 0) {
            let part = if huge { 0 } else { left };
            let (kept, cut_at) = first_pages(start, pages, part);
            pages = kept;
            self.cut_at = Some(cut_at);
        }
        if !pages.is_empty() {
            self.bytes += pages.count() << 12;
            self.huge |= huge;
            pages.append_to(start, 0, &mut self.ranges);
            self.granules.push((start, pages));
        }
    }

    /// The address behind the first `asked` bytes of the chosen pages, where a stopped action
    /// ended.
    pub(super) fn end_of(&self, mut asked: u64) -> u64 {
        for range in &self.ranges {
            if asked < range.len() {
                return range.start + asked;
            }
            asked -= range.len();
        }
        self.ranges.last().map_or(0, |range| range.end)
    }

    /// The record of an action on these pages, which may have been stopped early.
    pub(super) fn did(&self, outcome: Outcome) -> Did {
        let stopped_at = outcome.is_cut_short().then(|| self.end_of(outcome.asked_bytes));
        Did { stopped_at, outcome, ..Did::default() }
    }

    pub(super) fn span(&self) -> Option<AddrRange> {
        let (first, last) = (self.ranges.first()?, self.ranges.last()?);
        Some(AddrRange::new(first.start, last.end))
    }

    /// The granules that the chosen pages are in, joined where they touch: their span can be a
    /// whole address space.
    pub(super) fn places(&self) -> Vec<AddrRange> {
        let mut out: Vec<AddrRange> = Vec::new();
        for (start, _) in &self.granules {
            match out.last_mut() {
                Some(last) if last.end == *start => last.end += GRANULE,
                _ => out.push(AddrRange::new(*start, start + GRANULE)),
            }
        }
        out
    }

    /// The chosen pages of a granule before `end`.
    pub(super) fn before(&self, end: u64) -> impl Iterator<Item = (u64, Bits)> {
        self.granules.iter().filter_map(move |&(start, pages)| {
            let (_, part) = granules(AddrRange::new(start, end)).next()?;
            let pages = pages.and(Bits::of(start, part));
            (!pages.is_empty()).then_some((start, pages))
        })
    }
}

/// The first `n` of these pages, and the address of the first one left out.
fn first_pages(start: u64, pages: Bits, n: u64) -> (Bits, u64) {
    let (mut kept, mut left, mut cut_at) = (Bits::default(), n, None);
    pages.runs(|first, behind| {
        let take = left.min(behind - first);
        left -= take;
        let range = AddrRange::new(start + (first << 12), start + ((first + take) << 12));
        kept = kept.or(Bits::of(start, range));
        if take < behind - first && cut_at.is_none() {
            cut_at = Some(start + ((first + take) << 12));
        }
    });
    (kept, cut_at.unwrap_or(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages(from: u64, to: u64) -> Bits {
        Bits::of(0, AddrRange::new(from << 12, to << 12))
    }

    #[test]
    fn a_limit_cuts_between_pages_but_not_inside_of_a_huge_one() {
        for (name, huge, most, bytes, cut_at) in [
            ("all fit", false, 4096 * 512, 4096 * 8, None),
            ("five of eight", false, 4096 * 5, 4096 * 5, Some(21 << 12)),
            ("none", false, 0, 0, Some(10 << 12)),
        ] {
            let mut chosen = Chosen::default();
            chosen.push(0, pages(10, 14).or(pages(20, 24)), huge, most);
            assert_eq!((chosen.bytes, chosen.cut_at), (bytes, cut_at), "{name}");
        }
        let mut chosen = Chosen::default();
        chosen.push(0, Bits::ALL, true, 4096);
        assert_eq!((chosen.bytes, chosen.cut_at), (GRANULE, None), "the first huge page");
        chosen.push(GRANULE, Bits::ALL, true, GRANULE + 4096);
        assert_eq!((chosen.bytes, chosen.cut_at), (GRANULE, Some(GRANULE)), "the second");
        assert_eq!(chosen.places(), [AddrRange::new(0, GRANULE)]);
    }

    #[test]
    fn what_was_asked_for_ends_inside_of_the_ranges() {
        let mut chosen = Chosen::default();
        chosen.push(0, pages(10, 14).or(pages(20, 24)), false, u64::MAX);
        for (asked, end) in [(0, 10), (4096, 11), (4096 * 4, 20), (4096 * 5, 21), (4096 * 8, 24)] {
            assert_eq!(chosen.end_of(asked), end << 12, "{asked} bytes");
        }
        let before: u64 = chosen.before(21 << 12).map(|(_, pages)| pages.count()).sum();
        assert_eq!(before, 5);
    }
}
