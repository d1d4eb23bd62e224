//! An operations set that also acts: what a context with schemes is driven over.

use isotherm_core::ops::UpdateError;
use isotherm_core::scheme::{Counters, Entry, Ledger, Metric, Scheme};
use isotherm_core::{
    AddrRange, Applied, Check, Eligible, Measure, Observation, Observed, Operations, PageState,
    Request, Snapshot, TargetId,
};
use isotherm_ops::set::OpsSet;

use crate::apply::{Actor, Settings};

/// A set and an actor that share a context.
#[derive(Debug)]
pub struct Acting {
    /// Looks.
    pub set: OpsSet,
    /// Acts.
    pub actor: Actor,
    /// How the schemes that were committed last are carried out, until they are in force.
    next_settings: Option<Vec<Settings>>,
    ledger: Ledger,
}

impl Acting {
    /// Joins the two.
    #[must_use]
    pub fn new(set: OpsSet, actor: Actor) -> Self {
        Self { set, actor, next_settings: None, ledger: Ledger::default() }
    }

    /// Sets how the schemes that are committed next are carried out. The settings take effect
    /// together with the schemes, so that no scheme is ever carried out, or accounted for, with the
    /// settings of another.
    pub fn commit_settings(&mut self, settings: Vec<Settings>) {
        self.next_settings = Some(settings);
    }

    /// Whether a commit has not taken effect yet.
    #[must_use]
    pub const fn is_committing(&self) -> bool {
        self.next_settings.is_some()
    }

    /// What all schemes have done, by name, including schemes that were removed. Removed schemes
    /// come first, then those in force by index. `stats` is what the context counted for the
    /// schemes in force.
    #[must_use]
    pub fn accounts<'a>(&self, stats: impl Iterator<Item = &'a Counters>) -> Vec<Entry> {
        self.ledger.all(&self.counted(stats))
    }

    /// What was counted by index, with the names in force.
    fn counted<'a>(&self, stats: impl Iterator<Item = &'a Counters>) -> Vec<Entry> {
        let here = self.actor.settings().iter().zip(self.actor.accounts());
        let both = here.zip(stats).map(|((settings, account), stats)| {
            let mut counters = account.counters.clone();
            counters.add(stats);
            (settings.name.clone(), counters)
        });
        both.collect()
    }

    /// Keeps the operations set from clearing accessed bits of pages that it was not asked about.
    /// To clear a page that cannot be cleared singly, it would clear all pages of the process, or
    /// the page in all processes that map it, and memory that was touched before would look idle
    /// afterwards. With this setting the regions of such pages stay unresolved, and nothing is done
    /// to them.
    pub fn keep_evidence(&mut self) {
        match &mut self.set {
            OpsSet::PageWalk(walk) => {
                walk.set_fallback_limit(0);
                walk.set_marker(None);
            }
            OpsSet::Kdamond(set) => set.look_at_pages(),
            OpsSet::Idle(_) | OpsSet::Smaps(_) => {}
        }
    }

    /// Takes in the regions of a window that is over. If a scheme takes from one node, the places
    /// of these regions are looked up from now on.
    pub fn place(&mut self, snapshot: &Snapshot) {
        if let Some(placement) = self.actor.placement_mut() {
            placement.window(snapshot);
        }
        self.look_at_places();
    }

    fn look_at_places(&mut self) {
        if let Some(pages) = self.set.pages() {
            self.actor.look_at_places(pages.tables());
        }
    }

    /// Looks again at what was acted on, if it is time; call it once per window.
    pub fn sweep(&mut self) {
        if let OpsSet::Idle(idle) = &mut self.set {
            self.actor.sweep_by_marks(idle);
        } else if let Some(walk) = self.set.pages() {
            self.actor.sweep(walk);
        }
    }
}

impl Operations for Acting {
    fn prepare(&mut self, batch: &mut [Check]) {
        self.set.prepare(batch);
        for check in batch.iter().filter(|c| c.state == PageState::Cleared) {
            // A mark is a folio's, whatever maps it.
            let is_large = match &self.set {
                OpsSet::Idle(idle) => idle.is_large(check.target, check.addr),
                _ => false,
            };
            let shift = if is_large { check.leaf_shift.max(21) } else { check.leaf_shift };
            self.actor.note_touched(check.target, check.addr, shift);
        }
    }

    fn check(&mut self, batch: &mut [Check]) {
        self.set.check(batch);
    }

    fn update(&mut self, target: TargetId, maps: &mut Vec<AddrRange>) -> Result<(), UpdateError> {
        self.set.update(target, maps)
    }

    fn target_valid(&mut self, target: TargetId) -> bool {
        self.set.target_valid(target)
    }

    fn next_window(&mut self) -> Option<Observation> {
        self.set.next_window()
    }

    fn observe(&mut self, target: TargetId, regions: &mut Vec<Observed>) {
        self.set.observe(target, regions);
    }

    fn apply(&mut self, request: &Request, scheme: &Scheme) -> Applied {
        if self.actor.is_memory(request.target) {
            let idle = match &mut self.set {
                OpsSet::Idle(idle) => Some(idle.as_mut()),
                _ => None,
            };
            return self.actor.apply_to_memory(idle, request, scheme);
        }
        if let OpsSet::Idle(idle) = &mut self.set {
            return self.actor.apply_by_marks(idle, request, scheme);
        }
        let applied = self.actor.apply(self.set.pages(), request, scheme);
        self.actor.note_placed(request, scheme, &applied);
        applied
    }

    fn eligible(&mut self, ranges: &mut [Eligible]) {
        self.look_at_places();
        if let Some(placement) = self.actor.placement() {
            placement.answer(ranges);
        }
    }

    fn schemes_committed(&mut self, before: &[Counters]) {
        let Some(settings) = self.next_settings.take() else { return };
        let names: Vec<_> = settings.iter().map(|s| s.name.clone()).collect();
        let counted = self.counted(before.iter());
        self.ledger.commit(&counted, &names);
        self.actor.set_schemes(settings);
    }

    fn measure(&mut self, measures: &mut [Measure]) {
        self.actor.read_levels(measures);
        for measure in measures {
            measure.value = match measure.metric {
                Metric::RefaultBp => self.actor.refault_bp(measure.scheme),
                Metric::DoneBytes | Metric::RefaultedBytes => {
                    let account = self.actor.accounts().get(measure.scheme);
                    let done = measure.metric == Metric::DoneBytes;
                    account.map(|a| {
                        let c = &a.counters;
                        if done { c.done_bytes } else { c.refaulted_bytes }
                    })
                }
                // The core has the user's value itself.
                Metric::UserInput => None,
                metric => self.actor.machine_metric(measure.scheme, metric),
            };
        }
    }
}
