//! The operations set over a record: windows come from its snapshots, and actions change only what
//! is remembered of pages.
//!
//! Invariant: nothing is known here before the record's snapshot of that time has come.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use isotherm_core::addr::{PAGE_SIZE, round_down};
use isotherm_core::ops::UpdateError;
use isotherm_core::scheme::{Action, Applied, Measure, Metric, Refaults, Request, Scheme};
use isotherm_core::unit::UNIT;
use isotherm_core::{
    AddrRange, Check, Clock, Observation, Observed, Operations, PageBits, Snapshot, TargetId, Time,
    UnitInfo,
};
use isotherm_record::Mapping;
use isotherm_record::once::Sharing;

use super::What;
use super::filters::let_in;
use super::pages::{Back, Rules, Told, Unit};
use crate::scan::Scan;

/// What the kernel takes to page out a MiB, in ns: as a dry run is charged.
const NS_PER_MIB: u64 = 1_000_000;

/// The clock of a replay: it goes up to the end of the snapshot that has come.
#[derive(Debug, Default)]
pub(super) struct Until {
    pub(super) now: Time,
    pub(super) end: Time,
}

impl Clock for Until {
    fn now(&mut self) -> Time {
        self.now
    }

    fn sleep_until(&mut self, deadline: Time) -> bool {
        self.now = deadline.min(self.end).max(self.now);
        deadline > self.end
    }
}

/// What became of a scheme's work. Bytes; fractions, since some of it is only likely.
#[derive(Debug, Clone, Default)]
pub(super) struct Done {
    pub(super) asked: f64,
    pub(super) done: f64,
    /// Touched again within the refault window, and ever.
    pub(super) refaulted: f64,
    pub(super) returned: f64,
    pub(super) collapsed: u64,
    recent: Refaults,
}

/// One target.
#[derive(Debug, Default)]
pub(super) struct Memory {
    pub(super) units: BTreeMap<u64, Unit>,
    mappings: Vec<Mapping>,
    version: u64,
    has_pages: bool,
    is_gone: bool,
}

/// A window that has come.
#[derive(Debug)]
struct Window {
    told: Observation,
    regions: BTreeMap<TargetId, Vec<Observed>>,
}

/// The targets as the record shows them, and the schemes.
pub(super) struct World<'a> {
    pub(super) whats: &'a [What],
    pub(super) done: Vec<Done>,
    pub(super) targets: BTreeMap<TargetId, Memory>,
    pub(super) sharing: Sharing,
    windows: VecDeque<Window>,
    current: Option<Window>,
    origin: Option<Time>,
    now: Time,
    back: Vec<Back>,
    /// Whether a target has no page maps.
    pub(super) lacks_pages: bool,
    /// What was asked for and cannot be played back.
    pub(super) left_out: BTreeSet<&'static str>,
}

impl<'a> World<'a> {
    pub(super) fn new(whats: &'a [What]) -> Self {
        Self {
            whats,
            done: vec![Done::default(); whats.len()],
            targets: BTreeMap::new(),
            sharing: Sharing::default(),
            windows: VecDeque::new(),
            current: None,
            origin: None,
            now: Time::default(),
            back: Vec::new(),
            lacks_pages: false,
            left_out: BTreeSet::new(),
        }
    }

    fn ms(&self, t: Time) -> u32 {
        let origin = self.origin.unwrap_or_default();
        u32::try_from(t.since(origin) / 1_000_000).unwrap_or(u32::MAX)
    }

    /// Takes in a snapshot, and returns the targets that are new.
    pub(super) fn learn(
        &mut self,
        scan: &Scan,
        s: &Snapshot,
        wants: impl Fn(u32) -> bool,
    ) -> Vec<TargetId> {
        self.origin.get_or_insert(s.start);
        self.now = s.end;
        scan.tell_sharing(s, &mut self.sharing);
        let mut new = Vec::new();
        let mut regions = BTreeMap::new();
        for (state, t) in scan.wanted(s).filter(|(_, t)| wants(t.id.0)) {
            if !self.targets.contains_key(&t.id) {
                new.push(t.id);
            }
            let memory = self.targets.entry(t.id).or_default();
            if memory.version != state.mappings_version {
                memory.version = state.mappings_version;
                memory.mappings.clone_from(&state.mappings);
            }
            let resolved = t.regions.iter().filter(|r| r.resolved);
            let observed = resolved.map(|r| Observed {
                range: r.range,
                nr_accesses: r.nr_accesses,
                age: r.age,
                in_use: r.touched.is_some_and(|touched| touched.is_any()),
            });
            regions.insert(t.id, observed.collect());
        }
        for (id, memory) in &mut self.targets {
            let exited = scan.targets.get(&id.0).and_then(|t| t.exited_ns);
            if exited.is_some_and(|at| at <= s.end.0) && !regions.contains_key(id) {
                memory.is_gone = true;
                memory.units.clear();
            }
        }
        self.pages(scan, s);
        let told = Observation {
            start: s.start,
            end: s.end,
            lost: 0,
            more: false,
            sample_us: s.sample_us,
            aggr_us: s.aggr_us,
        };
        self.windows.push_back(Window { told, regions });
        new
    }

    /// Takes in what the snapshot tells of pages.
    fn pages(&mut self, scan: &Scan, s: &Snapshot) {
        let (schemes, now_ms) = (self.whats.len(), self.ms(s.end));
        let spans_us = scan.pages.spans_us();
        let mut back = std::mem::take(&mut self.back);
        for (id, start) in scan.pages.changed() {
            let info = scan.pages.get(*id).and_then(|map| map.units.get(start));
            let ms = |of: fn(&UnitInfo) -> Time| info.map_or(0, |info| self.ms(of(info)));
            let (since_ms, after_ms) = (ms(|info| info.since), ms(|info| info.found_after));
            let told = Told { since_ms, after_ms, now_ms };
            let (Some(info), Some(memory)) = (info, self.targets.get_mut(id)) else { continue };
            memory.has_pages = true;
            let unit = memory.units.entry(*start).or_insert_with(|| Unit::new(schemes));
            unit.learn(info, told, spans_us, &mut back);
        }
        let from_ms = self.ms(s.start);
        for t in &s.targets {
            let Some(memory) = self.targets.get_mut(&t.id).filter(|m| !m.has_pages) else {
                continue;
            };
            if scan.pages.get(t.id).is_some() {
                continue;
            }
            self.lacks_pages = true;
            for r in t.regions.iter().filter(|r| r.resolved) {
                for start in units_of(r.range) {
                    let pages = PageBits::of(start, r.range);
                    let unit = memory.units.entry(start).or_insert_with(|| Unit::new(schemes));
                    unit.learn_region(pages, r.nr_accesses > 0, (from_ms, now_ms), &mut back);
                }
            }
        }
        for one in back.drain(..) {
            self.came_back(one);
        }
        self.back = back;
    }

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at most a page")]
    fn came_back(&mut self, back: Back) {
        let Some(done) = self.done.get_mut(back.scheme) else { return };
        let bytes = back.share * 4096.0;
        // Else it was touched just before it would have been taken, and has stayed.
        done.done -= 4096.0 - bytes;
        done.returned += bytes;
        let window_us = self.whats.get(back.scheme).map_or(0, |what| what.refault_window_us);
        if u64::from(back.after_ms) * 1000 <= window_us {
            done.refaulted += bytes;
            done.recent.refaulted(bytes as u64, self.now);
        }
    }

    /// Acts on pages, as many as the request lets it.
    fn act(&mut self, request: &Request) -> Applied {
        let what = &self.whats[request.scheme];
        let now_ms = self.ms(self.now);
        let by_time = (request.max_ns / NS_PER_MIB).saturating_mul(1 << 20);
        let most = request.max_bytes.min(by_time.max(PAGE_SIZE)) / PAGE_SIZE;
        let mut left = most;
        let (mut covered, mut waits) = (request.range.start, false);
        let Some(memory) = self.targets.get_mut(&request.target) else { return all_of(request) };
        for start in units_of(request.range) {
            let end = start.saturating_add(UNIT).min(request.range.end);
            let Some(unit) = memory.units.get_mut(&start) else {
                covered = end;
                continue;
            };
            let inside = PageBits::of(start, request.range);
            // The kernel does not page out what several processes map.
            let is_shared = self.sharing.takes_in(request.target.0, start);
            if is_shared && takes_away(request.action) {
                covered = end;
                continue;
            }
            let allowed = if request.bypass_filters {
                PageBits::ALL
            } else {
                let_in(what, &memory.mappings, start, unit)
            };
            let pages = match request.action {
                Action::Willneed => (0..self.whats.len())
                    .fold(PageBits::default(), |all, nr| all.or(unit.taken(nr))),
                action => match what.rules(request.idle_us).filter(|_| takes_away(action)) {
                    Some(rules) => unit.idle(request.scheme, rules, now_ms),
                    None => unit.reachable(request.scheme),
                },
            };
            let pages = pages.and(inside).and(allowed);
            waits |= pages.is_empty();
            let taken = first_of(pages, left);
            match request.action {
                Action::Willneed => unit.give_back(taken),
                _ => unit.take(request.scheme, taken, now_ms),
            }
            left -= taken.count();
            if taken != pages {
                break;
            }
            covered = end;
        }
        let asked = (most - left) * PAGE_SIZE;
        if asked == 0 && waits {
            return Applied { skip: request.range.len(), ..Applied::default() };
        }
        self.did(request.scheme, asked);
        Applied {
            covered: covered.saturating_sub(request.range.start),
            asked,
            applied: asked,
            passed: asked,
            ns: asked / (1 << 20) * NS_PER_MIB,
            ..Applied::default()
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "bytes, for sums")]
    fn did(&mut self, scheme: usize, bytes: u64) {
        let done = &mut self.done[scheme];
        done.asked += bytes as f64;
        done.done += bytes as f64;
        done.recent.done(bytes, self.now);
    }

    /// Makes huge pages where enough of them is used.
    fn collapse(&mut self, request: &Request) -> Applied {
        let what = &self.whats[request.scheme];
        let least = (u64::from(what.min_touched_bp) * 512).div_ceil(10_000);
        let Some(memory) = self.targets.get_mut(&request.target) else { return all_of(request) };
        let mut asked = 0;
        for start in
            units_of(request.range).filter(|start| start.saturating_add(UNIT) <= request.range.end)
        {
            let Some(unit) = memory.units.get_mut(&start) else { continue };
            let is_whole = memory.mappings.iter().any(|m| {
                m.start <= start && start + UNIT <= m.end && super::filters::is_anonymous(m.kind)
            });
            let is_let_in = let_in(what, &memory.mappings, start, unit) == PageBits::ALL;
            let fits = asked + UNIT <= request.max_bytes;
            if is_whole && is_let_in && fits && unit.collapse(request.scheme, least) {
                asked += UNIT;
            }
        }
        self.done[request.scheme].collapsed += asked;
        self.did(request.scheme, asked);
        let ns = asked / (1 << 20) * NS_PER_MIB;
        Applied { asked, applied: asked, passed: asked, ns, ..all_of(request) }
    }
}

/// The units that a range lies in.
fn units_of(range: AddrRange) -> impl Iterator<Item = u64> {
    let first = round_down(range.start, UNIT);
    std::iter::successors(Some(first), |start| start.checked_add(UNIT))
        .take_while(move |start| *start < range.end)
}

/// The first pages of a set.
fn first_of(pages: PageBits, most: u64) -> PageBits {
    if pages.count() <= most {
        return pages;
    }
    let end = pages.nth(most).map_or(512, u64::from);
    pages.and(PageBits::of(0, AddrRange::new(0, end * PAGE_SIZE)))
}

const fn takes_away(action: Action) -> bool {
    matches!(action, Action::Pageout | Action::Cold | Action::MigrateCold)
}

/// The whole range is settled, and nothing was done.
const fn all_of(request: &Request) -> Applied {
    let covered = request.range.end - request.range.start;
    Applied { covered, skip: 0, asked: 0, applied: 0, passed: 0, no_room: 0, ns: 0 }
}

impl Operations for World<'_> {
    fn prepare(&mut self, _: &mut [Check]) {}

    fn check(&mut self, _: &mut [Check]) {}

    fn update(&mut self, id: TargetId, maps: &mut Vec<AddrRange>) -> Result<(), UpdateError> {
        let memory = self.targets.get(&id).filter(|m| !m.is_gone).ok_or(UpdateError::NotNow)?;
        maps.extend(memory.mappings.iter().map(|m| AddrRange::new(m.start, m.end)));
        if maps.is_empty() { Err(UpdateError::NotNow) } else { Ok(()) }
    }

    fn target_valid(&mut self, id: TargetId) -> bool {
        self.targets.get(&id).is_some_and(|memory| !memory.is_gone)
    }

    fn next_window(&mut self) -> Option<Observation> {
        self.current = self.windows.pop_front();
        let more = !self.windows.is_empty();
        self.current.as_ref().map(|window| Observation { more, ..window.told })
    }

    fn observe(&mut self, target: TargetId, regions: &mut Vec<Observed>) {
        let told = self.current.as_ref().and_then(|window| window.regions.get(&target));
        regions.extend(told.into_iter().flatten());
    }

    fn apply(&mut self, request: &Request, scheme: &Scheme) -> Applied {
        if scheme.source_nid.is_some() {
            self.left_out.insert(
                "schemes that take from one node: a record does not say on which node pages are",
            );
            return all_of(request);
        }
        match request.action {
            Action::Pageout
            | Action::Cold
            | Action::Willneed
            | Action::MigrateHot
            | Action::MigrateCold => self.act(request),
            Action::Collapse | Action::Hugepage => self.collapse(request),
            Action::Stat => Applied { asked: request.range.len(), ..all_of(request) },
            Action::Nohugepage | Action::LruPrio | Action::LruDeprio => {
                self.left_out.insert(
                    "the actions nohugepage, lru_prio and lru_deprio: they change nothing that a \
                     record shows",
                );
                all_of(request)
            }
        }
    }

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "bytes")]
    fn measure(&mut self, measures: &mut [Measure]) {
        for measure in measures {
            let (nr, now) = (measure.scheme, self.now);
            let (Some(done), Some(what)) = (self.done.get_mut(nr), self.whats.get(nr)) else {
                continue;
            };
            measure.value = match measure.metric {
                Metric::DoneBytes => Some(done.done.max(0.0) as u64),
                Metric::RefaultedBytes => Some(done.refaulted as u64),
                Metric::RefaultBp => done.recent.rate_bp(what.refault_window_us, now),
                // The core has the user's value itself.
                Metric::UserInput => None,
                Metric::FreeMemRate => {
                    self.left_out
                        .insert("watermarks: the schemes work as if memory were always short");
                    None
                }
                _ => {
                    self.left_out.insert(
                        "goals by pressure or by what nodes hold: a record has neither, so the \
                         quota stays as it is",
                    );
                    None
                }
            };
        }
    }
}

impl What {
    /// When evidence suffices; none if the region's numbers decide.
    fn rules(&self, idle_us: Option<u64>) -> Option<Rules> {
        let ms = |us: u64| u32::try_from(us.div_ceil(1000)).unwrap_or(u32::MAX);
        let confirm_us = self.confirm_us?.max(idle_us.unwrap_or(0));
        Some(Rules { confirm_ms: ms(confirm_us), window_ms: ms(self.refault_window_us) })
    }
}
