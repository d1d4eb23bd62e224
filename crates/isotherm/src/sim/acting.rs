//! A simulated world on which schemes act as in a dry run: evidence, work done, refaults, page by
//! page.
//!
//! It follows `isotherm_act::apply`: a page of memory to take away is made old and watched; if it
//! stays old for the confirm time, it counts as asked for and done; if it is touched within the
//! refault window after that, it counts as refaulted. What a filter cannot know here is refused.

use std::collections::BTreeMap;

use isotherm_act::apply::{Evidence, Settings};
use isotherm_core::addr::PAGE_SIZE;
use isotherm_core::ops::UpdateError;
use isotherm_core::scheme::{Action, Counters, FilterKind, Scheme};
use isotherm_core::{
    AddrRange, Applied, Check, ClearRate, Operations, PageBits, PageState, Reclaimed, Request,
    TargetId, Time, UnitCheck,
};
use isotherm_host::glob::glob;
use isotherm_sim::world::World;

/// How often pages that were taken are looked at again, in ns.
const SWEEP_NS: u64 = 1_000_000_000;

/// What was done to a page.
#[derive(Debug, Clone, Copy)]
enum Page {
    /// It was made old then, and its owner has not touched it since as far as is known.
    Armed(Time),
    /// A scheme (by index) took it then.
    Taken(usize, Time),
}

/// A world with schemes.
#[derive(Debug)]
pub(crate) struct Acting {
    pub(crate) world: World,
    settings: Vec<Settings>,
    counters: Vec<Counters>,
    pages: BTreeMap<(TargetId, u64), Page>,
    swept: Time,
}

impl Acting {
    pub(crate) const fn new(world: World) -> Self {
        Self {
            world,
            settings: Vec::new(),
            counters: Vec::new(),
            pages: BTreeMap::new(),
            swept: Time(0),
        }
    }

    /// How each scheme of the context is carried out, by index; counters stay.
    pub(crate) fn set_schemes(&mut self, settings: Vec<Settings>) {
        self.counters.resize_with(settings.len(), Counters::default);
        self.settings = settings;
    }

    /// What a scheme did, beside what the core counts. Everything that was asked for counts as
    /// done.
    pub(crate) fn counters(&self, scheme: usize) -> Counters {
        self.counters.get(scheme).cloned().unwrap_or_default()
    }

    /// Looks again at what was taken, if it is time; once per window.
    pub(crate) fn sweep(&mut self) {
        let now = self.world.now();
        if now.since(self.swept) < SWEEP_NS {
            return;
        }
        self.swept = now;
        let recent = |page: &Page| match page {
            Page::Taken(scheme, at) => now.since(*at) <= self.refault_ns(*scheme),
            Page::Armed(_) => false,
        };
        let pages = self.pages.iter().filter(|(_, page)| recent(page));
        let mut batch: Vec<_> = pages.map(|((id, addr), _)| Check::new(*id, *addr, 0)).collect();
        self.world.check(&mut batch);
        for check in batch.iter().filter(|c| c.state == PageState::Young) {
            self.touched(check.target, check.addr);
        }
    }

    fn refault_ns(&self, scheme: usize) -> u64 {
        self.settings.get(scheme).map_or(0, |s| s.refault_window_us.saturating_mul(1000))
    }

    /// A page was touched by its owner: what was believed of it is over.
    fn touched(&mut self, id: TargetId, addr: u64) {
        let Some(Page::Taken(scheme, at)) = self.pages.remove(&(id, addr)) else { return };
        let is_refault = self.world.now().since(at) <= self.refault_ns(scheme);
        if let Some(counters) = self.counters.get_mut(scheme).filter(|_| is_refault) {
            counters.refaulted_bytes += PAGE_SIZE;
        }
    }

    /// The mapped pages of a request that its scheme's filters let in.
    fn pages_for(&self, request: &Request, scheme: &Scheme) -> Vec<u64> {
        let patterns = self.settings.get(request.scheme).map_or(&[][..], |s| &s.mappings);
        let mut pages = Vec::new();
        for (mapping, name) in self.world.mappings(request.target) {
            if request.bypass_filters || is_allowed(scheme, name, patterns) {
                let (start, end) = (mapping.start.max(request.range.start), mapping.end);
                let end = end.min(request.range.end);
                pages.extend((start..end).step_by(4096));
            }
        }
        pages
    }

    /// Takes the pages that were untouched for `confirm_us`, and arms the others.
    fn take_idle(&mut self, request: &Request, pages: &[u64], confirm_us: u64) -> Applied {
        let (now, id) = (self.world.now(), request.target);
        let is_ripe = |at: Time| now.since(at) / 1000 >= confirm_us;
        let (mut arm, mut look, mut is_waiting) = (Vec::new(), Vec::new(), false);
        for addr in pages {
            match self.pages.get(&(id, *addr)) {
                None => arm.push(Check::new(id, *addr, 0)),
                Some(Page::Armed(at)) if !is_ripe(*at) => is_waiting = true,
                Some(Page::Armed(_) | Page::Taken(..)) => look.push(Check::new(id, *addr, 0)),
            }
        }
        self.world.check(&mut look);
        let (mut asked, mut confirmed, mut refuted) = (0, 0, 0);
        let mut covered = request.range.len();
        for check in look {
            let was_taken = matches!(self.pages.get(&(id, check.addr)), Some(Page::Taken(..)));
            match check.state {
                PageState::Old if was_taken => {}
                PageState::Old if asked < request.max_bytes => {
                    (asked, confirmed) = (asked + PAGE_SIZE, confirmed + PAGE_SIZE);
                    self.pages.insert((id, check.addr), Page::Taken(request.scheme, now));
                }
                // The quota is used up: what follows waits for the next pass.
                PageState::Old => covered = covered.min(check.addr - request.range.start),
                _ => {
                    refuted += if was_taken { 0 } else { PAGE_SIZE };
                    self.touched(id, check.addr);
                    arm.push(check);
                }
            }
        }
        is_waiting |= self.arm(&mut arm);
        if let Some(counters) = self.counters.get_mut(request.scheme) {
            counters.asked_bytes += asked;
            counters.done_bytes += asked;
            counters.confirmed_bytes += confirmed;
            counters.refuted_bytes += refuted;
        }
        if asked == 0 && is_waiting {
            let skip = request.range.len();
            return Applied { skip, ..Applied::default() };
        }
        Applied { covered, asked, applied: asked, passed: asked, ..Applied::default() }
    }

    /// Makes pages old, to be looked at later; whether there was any.
    fn arm(&mut self, batch: &mut [Check]) -> bool {
        let now = self.world.now();
        self.world.prepare(batch);
        let is_old = |c: &&Check| matches!(c.state, PageState::Old | PageState::Cleared);
        let armed = batch.iter().filter(is_old).map(|c| ((c.target, c.addr), Page::Armed(now)));
        let before = self.pages.len();
        self.pages.extend(armed);
        self.pages.len() > before
    }

    /// Counts pages for an action that needs no evidence.
    fn take_all(&mut self, request: &Request, pages: &[u64]) -> Applied {
        let most = usize::try_from(request.max_bytes / PAGE_SIZE).unwrap_or(usize::MAX);
        let covered = match pages.get(most) {
            Some(next) => next - request.range.start,
            None => request.range.len(),
        };
        let asked = pages.len().min(most) as u64 * PAGE_SIZE;
        if let Some(counters) = self.counters.get_mut(request.scheme) {
            counters.asked_bytes += asked;
            counters.done_bytes += asked;
        }
        Applied { covered, asked, applied: asked, passed: asked, ..Applied::default() }
    }
}

/// What a scheme's filters say about a mapping of this name: private anonymous memory that is
/// charged nowhere.
fn is_allowed(scheme: &Scheme, name: &str, patterns: &[String]) -> bool {
    let filters = &scheme.filters;
    let known = |kind: &FilterKind| {
        use FilterKind::{Anon, File, Mapping, Shared, Unmapped};
        matches!(kind, Anon | File | Mapping(_) | Shared | Unmapped)
    };
    let is = |kind: &FilterKind| match kind {
        FilterKind::Anon => true,
        FilterKind::Mapping(number) => {
            let pattern = usize::try_from(*number).ok().and_then(|at| patterns.get(at));
            pattern.is_some_and(|pattern| glob(pattern.as_bytes(), name.as_bytes()))
        }
        _ => false,
    };
    filters.ops.iter().all(|filter| known(&filter.kind)) && filters.ops_allow(is)
}

impl Operations for Acting {
    fn prepare(&mut self, batch: &mut [Check]) {
        self.world.prepare(batch);
        for check in batch.iter().filter(|c| c.state == PageState::Cleared) {
            self.touched(check.target, check.addr & !(PAGE_SIZE - 1));
        }
    }

    fn check(&mut self, batch: &mut [Check]) {
        self.world.check(batch);
    }

    fn has_units(&self) -> bool {
        self.world.has_units()
    }

    fn prepare_units(&mut self, batch: &mut [UnitCheck]) {
        self.world.prepare_units(batch);
        for check in batch.iter() {
            for nr in (0..512).filter(|nr| !PageBits::page(*nr).and(check.young).is_empty()) {
                self.touched(check.target, check.start + u64::from(nr) * PAGE_SIZE);
            }
        }
    }

    fn check_units(&mut self, batch: &mut [UnitCheck]) {
        self.world.check_units(batch);
    }

    fn reclaimed(&mut self, target: TargetId) -> Reclaimed<'_> {
        self.world.reclaimed(target)
    }

    fn others_clear(&mut self) -> ClearRate {
        self.world.others_clear()
    }

    fn update(&mut self, target: TargetId, maps: &mut Vec<AddrRange>) -> Result<(), UpdateError> {
        self.world.update(target, maps)
    }

    fn target_valid(&mut self, target: TargetId) -> bool {
        self.world.target_valid(target)
    }

    fn apply(&mut self, request: &Request, scheme: &Scheme) -> Applied {
        if request.action == Action::Stat {
            let covered = request.range.len();
            return Applied { covered, asked: covered, ..Applied::default() };
        }
        let pages = self.pages_for(request, scheme);
        let evidence = self.settings.get(request.scheme).map(|s| s.evidence);
        match (request.action, evidence) {
            (Action::Pageout | Action::Cold | Action::MigrateCold, Some(Evidence::Confirm(us))) => {
                self.take_idle(request, &pages, us)
            }
            _ => self.take_all(request, &pages),
        }
    }
}
