//! Acting on frames: finds the processes that map them, acts there, and counts what cannot be
//! reached.

use std::collections::BTreeMap;
use std::sync::Arc;

use isotherm_core::addr::PAGE_SIZE;
use isotherm_core::{AddrRange, Applied, TargetId, Time};
use isotherm_pages::idle::Folios;
use isotherm_sys::clock::now;

use super::owners::{OwnerMap, Unreached, chosen};
use super::view::{Seg, granules_of};
use super::{MAP_FRAMES, MAP_NS, PATIENCE, Physical, said};
use crate::apply::evidence::armed::{Evidence as Armed, Rules};
use crate::apply::evidence::marks::Marks;
use crate::apply::pages::{Bits, granules};
use crate::apply::target::TargetState;
use crate::apply::{Actor, Job, later};
use crate::{ActKind, Process};

/// What the evidence says of a range: the quiet pages of each granule that was judged.
struct Judged {
    /// Pages to act on, by the granule's first address.
    quiet: BTreeMap<u64, Bits>,
    /// The lowest address whose evidence is still being gathered.
    undecided: Option<u64>,
}

impl Judged {
    /// Asks the evidence about every granule of `folios` in the range. Without rules, all pages
    /// that are there count as quiet.
    fn of(
        evidence: &mut Armed,
        folios: &[Seg],
        range: AddrRange,
        rules: Option<Rules>,
        now: Time,
    ) -> Self {
        let mut this = Self { quiet: BTreeMap::new(), undecided: None };
        for (start, seen) in granules_of(folios) {
            let inside = AddrRange::new(start.max(range.start), range.end);
            let Some((_, part)) = granules(inside).next() else { continue };
            let pages = match rules {
                None => Some(seen.present),
                Some(rules) => evidence.confirm(start, part, seen, rules, now),
            };
            match pages {
                None => this.undecided = this.undecided.or(Some(part.start)),
                Some(pages) => {
                    this.quiet.insert(start, pages);
                }
            }
        }
        this
    }

    /// Whether all pages of these addresses are quiet.
    fn is_quiet(&self, whole: AddrRange) -> bool {
        granules(whole).all(|(start, part)| {
            let bits = Bits::of(start, part);
            self.quiet.get(&start).is_some_and(|quiet| quiet.and(bits) == bits)
        })
    }

    /// Forgets the evidence that was used, up to `end`, and returns up to where the range is
    /// settled. Evidence that is still being gathered stays.
    fn settle(&self, evidence: &mut Armed, range: AddrRange, end: u64) -> u64 {
        for (start, part) in granules(AddrRange::new(range.start, end)) {
            if self.quiet.contains_key(&start) {
                evidence.forget(part);
            }
        }
        let settled_to = self.undecided.unwrap_or(end).min(end).max(range.start);
        // Also where nothing is left that could be seen.
        evidence.forget(AddrRange::new(range.start, settled_to));
        settled_to
    }
}

impl Actor {
    /// Acts on the frames of a range. With evidence rules it acts on the frames that stayed idle,
    /// without them on all frames that the filters let in.
    pub(super) fn frames(
        &mut self,
        marks: &mut Folios,
        physical: &mut Physical,
        job: Job<'_>,
        range: AddrRange,
        rules: Option<Rules>,
    ) -> Result<Applied, String> {
        let scheme = job.request.scheme;
        let begin = now();
        if rules.is_some() && is_hopeless(physical.evidence(scheme), range) {
            // There is nothing there, or all of it is in use: no closer look is needed.
            physical.evidence(scheme).forget(range);
            return Ok(Applied { covered: range.len(), ..Applied::default() });
        }
        let mut folios = physical.see(marks, range)?;
        let evidence = physical.evidence(scheme);
        let judged = Judged::of(evidence, &folios, range, rules, job.now);
        self.counters(scheme).refuted_bytes += evidence.take_refuted() * PAGE_SIZE;
        folios.retain(|folio| folio.is_reachable() && judged.is_quiet(folio.range()));
        let confirmed = bytes_of(&folios);
        let passed = self.pass(physical, job, folios)?;
        let passed_bytes = bytes_of(&passed);
        let (mut frames, cut_at) = frames_within(&passed, job.request.max_bytes);
        physical.marking.spend(now().since(begin));
        if !frames.is_empty() {
            match self.find_owners(physical, job, &frames)? {
                // Not now: a reverse map costs too much to be made so often.
                None => return Ok(later(range.len())),
                // Reading the page tables took a while: frames that were touched in that time are
                // left alone.
                Some(true) if rules.is_some() => {
                    drop_awake(&mut frames, &passed, &physical.see(marks, range)?);
                }
                Some(_) => {}
            }
        }
        let (asked, done, ns, stopped_at) = self.through_owners(marks, physical, job, &frames);
        let cut_at = [cut_at, stopped_at].into_iter().flatten().min();
        let end = cut_at.unwrap_or(range.end);
        let settled = judged.settle(physical.evidence(scheme), range, end) - range.start;
        if rules.is_some() && cut_at.is_none() {
            let counters = self.counters(scheme);
            counters.confirmed_bytes += confirmed;
            counters.filtered_bytes += confirmed - passed_bytes;
        } else if rules.is_some() {
            self.counters(scheme).confirmed_bytes += asked;
        }
        physical.action_ns += ns;
        Ok(Applied {
            covered: settled,
            skip: if settled == 0 { end.min(range.end) - range.start } else { 0 },
            asked,
            applied: done,
            passed: frames.len() as u64 * PAGE_SIZE,
            ..Applied::default()
        })
    }

    /// Makes the owners of `frames` known. Returns `None` if that has to wait, else whether all
    /// page tables were read for it just now.
    fn find_owners(
        &mut self,
        physical: &mut Physical,
        job: Job<'_>,
        frames: &[u64],
    ) -> Result<Option<bool>, String> {
        let begin = now();
        let is_fresh = begin.since(physical.map.at) < MAP_NS;
        if is_fresh && physical.map.knows(frames) {
            return Ok(Some(false));
        }
        if job.now < physical.next_map {
            return Ok(None);
        }
        // Frames that will be asked about soon are included, so that one pass over all page tables
        // serves many frames.
        let mut wanted = frames.to_vec();
        let first = frames.first().map_or(0, |frame| frame * PAGE_SIZE);
        for (start, quiet) in physical.evidence(job.request.scheme).quiet_from(first) {
            if wanted.len() >= MAP_FRAMES {
                break;
            }
            quiet.runs(|from, behind| {
                wanted.extend(start / PAGE_SIZE + from..start / PAGE_SIZE + behind);
            });
        }
        wanted.sort_unstable();
        wanted.dedup();
        physical.map = OwnerMap::make(wanted).map_err(|e| said("find who maps frames", &e))?;
        let end = now();
        physical.next_map = end + end.since(begin).saturating_mul(PATIENCE);
        Ok(Some(true))
    }

    /// Acts on frames through the processes that map them. Returns the bytes asked for and done,
    /// the time that it took, and the lowest address of a frame that was not reached in that time.
    fn through_owners(
        &mut self,
        marks: &mut Folios,
        physical: &mut Physical,
        job: Job<'_>,
        frames: &[u64],
    ) -> (u64, u64, u64, Option<u64>) {
        let begin = now();
        let mut unreached = Unreached::default();
        let (mut asked, mut all_done, mut stopped_at) = (0, 0, None);
        // The time limit is for the action.
        let job = Job { now: begin, ..job };
        for (pid, pages) in physical.map.by_process(frames, &mut unreached) {
            let bytes = pages.len() as u64 * PAGE_SIZE;
            let known = physical.owners.remove(&pid).filter(|state| !state.process.is_gone());
            let state = known.map_or_else(
                || Process::open(pid).map(|process| TargetState::new(TargetId(pid), process)),
                Ok,
            );
            let mut state = match state {
                Ok(state) => state,
                Err(error) => {
                    let is_own = error.kind() == ActKind::Myself;
                    *(if is_own { &mut unreached.own } else { &mut unreached.gone }) += bytes;
                    continue;
                }
            };
            let mut look = Marks::new(marks, Arc::clone(&state.process));
            let frame_of: BTreeMap<u64, u64> = pages.iter().copied().collect();
            let chosen = chosen(&state.process, pages, &mut unreached);
            let (did, done) = self.carry_out(&mut look, &mut state, job, &chosen);
            asked += did.outcome.asked_bytes;
            all_done += done;
            if let Some(at) = did.stopped_at {
                let left = frame_of.range(at..).map(|(_, frame)| frame * PAGE_SIZE).min();
                stopped_at = [stopped_at, left].into_iter().flatten().min();
            }
            physical.owners.insert(pid, state);
        }
        self.tell_unreached(job, unreached);
        (asked, all_done, now().since(begin), stopped_at)
    }

    fn tell_unreached(&mut self, job: Job<'_>, unreached: Unreached) {
        let scheme = job.request.scheme;
        self.note_unmapped(job, unreached.unmapped);
        self.note_unreached(scheme, "shared", unreached.shared);
        self.note_unreached(scheme, "own", unreached.own);
        self.note_unreached(scheme, "gone", unreached.gone);
        if unreached.shared > 0 {
            let why = "idle memory that several processes map is left alone, and counts as unreached: the kernel \
                       takes it from none of them by advice";
            self.trouble(scheme, 0, why);
        }
    }

    /// Records that page cache which no process maps was found.
    pub(super) fn note_unmapped(&mut self, job: Job<'_>, bytes: u64) {
        let scheme = job.request.scheme;
        self.note_unreached(scheme, "unmapped", bytes);
        if bytes > 0 {
            let why = "page cache that no process maps is left alone: it cannot be reached from user space, \
                       and counts as unreached\n  hint:  `memory_reclaim` asks a cgroup for it; operations set \
                       `kdamond` reaches it";
            self.trouble(scheme, 0, why);
        }
    }

    fn note_unreached(&mut self, scheme: usize, why: &'static str, bytes: u64) {
        if bytes > 0 {
            let counters = self.counters(scheme);
            counters.unreached_bytes += bytes;
            *counters.unreached.entry(why).or_default() += bytes;
        }
    }
}

/// Whether the evidence knows of no quiet page in the range.
fn is_hopeless(evidence: &Armed, range: AddrRange) -> bool {
    granules(range).all(|(start, part)| evidence.quiet(start).and(Bits::of(start, part)).is_empty())
}

/// Bytes of these folios.
fn bytes_of(folios: &[Seg]) -> u64 {
    folios.iter().map(|folio| folio.len * PAGE_SIZE).sum()
}

/// The frames of the first folios that together have at most `max_bytes`, and the address of the
/// folio that did not fit. The first folio always fits, so that a small quota makes progress.
fn frames_within(folios: &[Seg], max_bytes: u64) -> (Vec<u64>, Option<u64>) {
    let mut frames = Vec::new();
    for folio in folios {
        if (frames.len() as u64 + folio.len) * PAGE_SIZE > max_bytes && !frames.is_empty() {
            return (frames, Some(folio.range().start));
        }
        frames.extend(folio.head..folio.head + folio.len);
    }
    (frames, None)
}

/// Removes the frames of folios that a second look saw touched. `folios` holds the frames'.
fn drop_awake(frames: &mut Vec<u64>, folios: &[Seg], again: &[Seg]) {
    let awake: Vec<u64> = again.iter().filter(|f| !f.idle).map(|f| f.head).collect();
    let head_of = |frame: u64| {
        let behind = folios.partition_point(|folio| folio.head <= frame);
        behind.checked_sub(1).map_or(frame, |nr| folios[nr].head)
    };
    frames.retain(|frame| awake.binary_search(&head_of(*frame)).is_err());
}
