//! An operations set that also acts: what a context with schemes is driven over.

use isotherm_core::ops::UpdateError;
use isotherm_core::scheme::{Counters, Entry, Ledger, Scheme};
use isotherm_core::{
    AddrRange, Applied, Check, ClearRate, Eligible, Measure, Observation, Observed, Operations,
    PageState, Reclaimed, Request, Snapshot, TargetId, UnitCheck,
};
use isotherm_ops::set::{PageView, SchemeOps};

use crate::apply::{Actor, Settings};

/// A set and an actor that share a context.
#[derive(Debug)]
pub struct Acting<S> {
    /// Looks.
    pub set: S,
    /// Acts.
    pub actor: Actor,
    /// How the schemes that were committed last are carried out, until they are in force.
    next_settings: Option<Vec<Settings>>,
    ledger: Ledger,
}

impl<S: SchemeOps> Acting<S> {
    /// Joins the two.
    #[must_use]
    pub fn new(set: S, actor: Actor) -> Self {
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

    /// Takes in the regions of a window that is over. If a scheme takes from one node, the places
    /// of these regions are looked up from now on.
    pub fn place(&mut self, snapshot: &Snapshot) {
        if let Some(placement) = self.actor.placement_mut() {
            placement.window(snapshot);
        }
        self.look_at_places();
    }

    fn look_at_places(&mut self) {
        if let Some(pages) = self.set.page_view().and_then(PageView::tables) {
            self.actor.look_at_places(pages.tables());
        }
    }

    /// Looks again at what was acted on, if it is time; call it once per window.
    pub fn sweep(&mut self) {
        if let Some(view) = self.set.page_view() {
            self.actor.sweep(view);
        }
    }
}

impl<S: SchemeOps> Operations for Acting<S> {
    fn prepare(&mut self, batch: &mut [Check]) {
        self.set.prepare(batch);
        for check in batch.iter().filter(|c| c.state == PageState::Cleared) {
            let shift = self.set.cleared_shift(check);
            self.actor.note_touched(check.target, check.addr, shift);
        }
    }

    fn check(&mut self, batch: &mut [Check]) {
        self.set.check(batch);
    }

    fn has_units(&self) -> bool {
        self.set.has_units()
    }

    fn prepare_units(&mut self, batch: &mut [UnitCheck]) {
        self.set.prepare_units(batch);
        let is_proof = self.set.units_are_proof();
        for check in batch {
            let cleared = self.set.cleared_pages(check);
            self.actor.note_unit_made_old(check, cleared, is_proof);
        }
    }

    fn check_units(&mut self, batch: &mut [UnitCheck]) {
        self.set.check_units(batch);
        batch.iter().for_each(|check| self.actor.note_unit_looked_at(check));
    }

    fn reclaimed(&mut self, target: TargetId) -> Reclaimed<'_> {
        self.set.reclaimed(target)
    }

    fn others_clear(&mut self) -> ClearRate {
        self.set.others_clear()
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
        self.actor.apply(self.set.page_view(), request, scheme)
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
        self.actor.measure(measures);
    }
}

#[cfg(test)]
mod tests {
    use isotherm_core::scheme::Action;

    use super::*;
    use crate::Process;
    use crate::apply::ActEvent;
    use crate::apply::target::TargetState;

    /// A set that sees no single pages.
    struct Blind;

    impl Operations for Blind {
        fn prepare(&mut self, _: &mut [Check]) {}

        fn check(&mut self, _: &mut [Check]) {}

        fn update(&mut self, _: TargetId, _: &mut Vec<AddrRange>) -> Result<(), UpdateError> {
            Ok(())
        }

        fn target_valid(&mut self, _: TargetId) -> bool {
            true
        }
    }

    impl SchemeOps for Blind {
        fn page_view(&mut self) -> Option<PageView<'_>> {
            None
        }

        fn keep_evidence(&mut self) {}
    }

    #[test]
    fn over_a_set_that_sees_no_pages_nothing_is_done_and_that_is_told() {
        let id = TargetId(1);
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let mut acting = Acting::new(Blind, Actor::new());
        let state = TargetState::new(id, Process::open(child.id()).unwrap());
        acting.actor.targets.insert(id, state);
        acting.commit_settings(vec![Settings::default()]);
        acting.schemes_committed(&[]);
        let request = Request {
            scheme: 0,
            action: Action::Cold,
            target: id,
            range: AddrRange::new(0, 1 << 20),
            nr_accesses: 0,
            age: 0,
            idle_us: None,
            by_use: false,
            bypass_filters: false,
            charged: 1 << 20,
            max_bytes: u64::MAX,
            max_ns: u64::MAX,
        };
        let applied = acting.apply(&request, &Scheme::default());
        acting.sweep();
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!((applied.asked, applied.covered, applied.skip), (0, 0, 1 << 20));
        let events = acting.actor.take_events();
        let [ActEvent::Trouble { text, .. }] = &events[..] else { panic!("{events:?}") };
        assert!(text.contains("cannot look at single pages"), "{text}");
    }
}
