//! Changes of attributes, schemes and targets from outside. They wait for the point of the loop at
//! which they are safe (R§2.2 step 8).

use alloc::vec::Vec;
use core::mem;

use super::method::InForce;
use super::{Context, Conversion, Phase, Schedule};
use crate::addr::AddrRange;
use crate::attrs::{Attrs, AttrsError};
use crate::scheme::Scheme;
use crate::target::{Given, Target, TargetId};

/// A change that waits for the point of the loop where changes are safe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Change {
    Attrs(Attrs),
    Schemes(Vec<Scheme>),
    Pause(bool),
    Add(TargetId, bool),
    Remove(TargetId),
    Ranges(TargetId, Vec<AddrRange>, Given),
    Update,
}

impl Context {
    /// Adds a target. It is watched from the next turn of the loop on. An id that is already there
    /// is ignored.
    pub fn add_target(&mut self, id: TargetId) {
        self.change(Change::Add(id, false));
    }

    /// As [`Context::add_target`], for a target whose ranges are watched exactly as they are given,
    /// such as ranges of physical memory. Leaving out the largest gaps makes sense for address
    /// spaces only.
    pub fn add_ranges(&mut self, id: TargetId) {
        self.change(Change::Add(id, true));
    }

    /// Stops watching a target, at the next turn of the loop.
    pub fn remove_target(&mut self, id: TargetId) {
        self.change(Change::Remove(id));
    }

    /// Fits a target's regions to exactly these ranges, at the next turn of the loop, as
    /// [`Context::set_ranges`] does. Ranges that cannot be are ignored then.
    pub fn give_ranges(&mut self, id: TargetId, ranges: Vec<AddrRange>, given: Given) {
        self.change(Change::Ranges(id, ranges, given));
    }

    /// Asks for the mappings at the end of the next turn, rather than after the update interval.
    pub fn update_soon(&mut self) {
        self.change(Change::Update);
    }

    /// Replaces the attributes at the next turn of the loop, and keeps what was learned: counts and
    /// ages are converted. Identical attributes change nothing.
    ///
    /// A change of an interval, of a number of regions, of the intervals goal or of the method
    /// drops the window under way and begins a new one. The smallest region and the budget of
    /// clears change without that.
    ///
    /// # Errors
    ///
    /// If the attributes are not valid. Then nothing changes, now or later.
    pub fn commit(&mut self, mut attrs: Attrs) -> Result<(), AttrsError> {
        attrs.validate()?;
        fill_aggr_samples(&mut attrs);
        self.change(Change::Attrs(attrs));
        Ok(())
    }

    /// Pauses or resumes at the next turn of the loop. While paused, nothing is sampled, no window
    /// ends, and the context's clock stands still.
    pub fn pause(&mut self, pause: bool) {
        self.change(Change::Pause(pause));
    }

    pub(super) fn run_changes(&mut self) {
        for change in mem::take(&mut self.changes) {
            self.apply(change);
        }
    }

    /// Puts new, valid attributes in force (`damon_set_attrs()`).
    pub(super) fn set_attrs(&mut self, attrs: Attrs) {
        let old = mem::replace(&mut self.attrs, attrs);
        let aggregating = self.schedule.aggregating();
        self.schedule.restart(&attrs);
        if let Some(conversion) = Conversion::between(&old, &attrs) {
            for region in self.targets.iter_mut().flat_map(|t| t.regions.iter_mut()) {
                conversion.region(region, aggregating);
            }
        }
        if !attrs.strict && old.intervals_goal != attrs.intervals_goal {
            let period = attrs.aggr_samples.wrapping_mul(attrs.intervals_goal.aggrs);
            self.schedule.next_tune = self.schedule.next_aggregation.wrapping_add(period);
        }
        for scheme in &mut self.schemes.installed {
            scheme.set_attrs(&attrs, self.schedule.passed);
        }
        let (method, mut scene) = self.scene();
        if old.sample_us != attrs.sample_us {
            method.rescale(&mut scene, old.sample_us);
        }
        if old.method != attrs.method {
            self.switch_method();
        }
        self.reserve();
    }

    /// Starts the method of the attributes. What the method before knew of single pages is dropped,
    /// because nothing watches these pages any more.
    fn switch_method(&mut self) {
        self.targets.iter_mut().for_each(Target::drop_watches);
        self.method = InForce::new(self.attrs.method);
        let (method, mut scene) = self.scene();
        method.start(&mut scene);
    }

    pub(super) fn change(&mut self, change: Change) {
        if self.phase == Phase::Start {
            self.apply(change);
        } else {
            self.changes.push(change);
        }
    }

    fn apply(&mut self, change: Change) {
        match change {
            Change::Attrs(attrs) if self.phase == Phase::Start => {
                self.attrs = attrs;
                self.method = InForce::new(attrs.method);
                self.schedule = Schedule::start(&attrs);
                for scheme in &mut self.schemes.installed {
                    scheme.set_attrs(&attrs, 0);
                }
            }
            Change::Attrs(attrs) if self.attrs.restarts(&attrs) => self.set_attrs(attrs),
            Change::Attrs(attrs) => self.attrs = attrs,
            Change::Schemes(schemes) => {
                self.schemes.commit(&schemes, &self.attrs, self.schedule.passed);
            }
            Change::Pause(pause) => self.paused = pause,
            Change::Add(id, given) => {
                if self.targets.iter().all(|t| t.id != id) {
                    let mut target = Target::new(id);
                    target.given = given;
                    self.targets.push(target);
                    // An update at the end of this turn gives it its first regions.
                    self.turn.next_update = self.schedule.passed;
                }
            }
            Change::Remove(id) => {
                self.targets.retain(|t| t.id != id);
                self.schemes.forget(id);
            }
            Change::Ranges(id, ranges, given) => {
                if self.set_ranges(id, &ranges).is_ok()
                    && let Some(target) = self.target_mut(id)
                {
                    target.kept = Some(given).filter(|given| *given != Given::Now);
                }
            }
            Change::Update => self.turn.next_update = self.schedule.passed,
        }
    }
}

/// Computes the number of samples per aggregation from the intervals. The tuner keeps that number
/// instead.
pub(super) const fn fill_aggr_samples(attrs: &mut Attrs) {
    let sample = if attrs.sample_us == 0 { 1 } else { attrs.sample_us };
    attrs.aggr_samples = attrs.aggr_us / sample;
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIVEN: AddrRange = AddrRange { start: 0x10_000, end: 0x20_000 };
    const MAPS: [AddrRange; 3] = [
        AddrRange { start: 0x100_000, end: 0x200_000 },
        AddrRange { start: 0x900_000, end: 0xa00_000 },
        AddrRange { start: 0xf00_000, end: 0xf10_000 },
    ];

    /// Where the target's regions begin after each of two readings of its mappings.
    fn starts(given: Option<Given>) -> [u64; 2] {
        let mut context = Context::new(Attrs::reference(), 1).expect("valid attributes");
        let id = TargetId(0);
        context.add_target(id);
        if let Some(given) = given {
            context.give_ranges(id, alloc::vec![GIVEN], given);
        }
        [(); 2].map(|()| {
            assert!(context.update_target(id, &MAPS));
            context.targets()[0].regions[0].range.start
        })
    }

    #[test]
    fn given_ranges_hold_for_as_long_as_was_said() {
        let (given, mapped) = (GIVEN.start, MAPS[0].start);
        assert_eq!(starts(None), [mapped, mapped]);
        assert_eq!(starts(Some(Given::Now)), [mapped, mapped]);
        assert_eq!(starts(Some(Given::First)), [given, mapped]);
        assert_eq!(starts(Some(Given::Always)), [given, given]);
    }

    #[test]
    fn ranges_that_cannot_be_are_ignored() {
        let mut context = Context::new(Attrs::reference(), 1).expect("valid attributes");
        context.add_target(TargetId(0));
        context.give_ranges(TargetId(0), alloc::vec![GIVEN, GIVEN], Given::Always);
        assert!(context.update_target(TargetId(0), &MAPS));
        assert_eq!(context.targets()[0].regions[0].range.start, MAPS[0].start);
    }
}
