//! What a context watches.
//!
//! `vaddr` and `fvaddr` are about processes, and `paddr` about physical memory, which only marks of
//! idle pages show. A module means all memory of the machine. Where the kernel has no such marks,
//! it watches what all processes map instead, in the way of `isotherm reclaim -a`: a census, which
//! costs 1 % of a CPU however many processes there are. DAMON's own sampling would look at every
//! region of every process once per sample. What no process maps (page cache that was only read) is
//! not seen then.

use isotherm_act::apply::Settings;
use isotherm_agent::policy::{TargetSpec, defaults};
use isotherm_agent::run::{open_physical_set, open_set};
use isotherm_core::scheme::{Action, Age, Bounds, Frequency, Scheme};
use isotherm_core::{Attrs, Method};
use isotherm_damon::model::{Context, Operations};
use isotherm_ops::set::OpsSet;
use isotherm_ops::support::SetName;
use rustix::io::Errno;

use super::{Log, policy};
use crate::engine::Asker;

/// What a context watches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Watch {
    /// The processes that the files name.
    Processes,
    /// Physical memory.
    Memory,
    /// What all processes map, instead of physical memory.
    Everyone,
    /// Nothing: physical memory of which no region is given. The kernel's worker runs then, too,
    /// and looks at nothing.
    Nothing,
}

/// What the modules' intervals are where all processes are watched, in µs: those of `isotherm top`.
const SAMPLE_US: u64 = 100_000;
const AGGR_US: u64 = 1_000_000;

impl Watch {
    /// What a context is to watch. `no_paddr` says why physical memory cannot be watched here; none
    /// if it can.
    ///
    /// # Errors
    ///
    /// EINVAL if it cannot, and nothing else is as good.
    pub(super) fn of(
        context: &Context,
        by: Asker,
        no_paddr: impl Fn() -> Option<String>,
        log: &Log,
    ) -> Result<Self, Errno> {
        if context.operations != Operations::Paddr {
            return Ok(Self::Processes);
        }
        let has_regions = context.targets.iter().any(|target| !target.regions.is_empty());
        if by == Asker::Files && !has_regions {
            return Ok(Self::Nothing);
        }
        let Some(why) = no_paddr() else { return Ok(Self::Memory) };
        let Asker::Module(module) = by else {
            log(&format!(
                "`paddr` is not available: {why}\n  hint:  use `vaddr` with pids; the modules (damon_reclaim, \
                 damon_lru_sort, damon_stat) work here, over what processes map"
            ));
            return Err(Errno::INVAL);
        };
        if has_regions {
            log(&format!(
                "damon_{} cannot keep to a region of physical memory: {why}\n  hint:  set monitor_region_start \
                 and monitor_region_end to 0",
                module.name()
            ));
            return Err(Errno::INVAL);
        }
        log(&format!(
            "damon_{} watches what processes map, not physical memory: {why}\n  note:  page cache that no process \
             maps is not seen; pages are confirmed idle before they are taken",
            module.name()
        ));
        Ok(Self::Everyone)
    }

    /// The attributes to watch it with.
    pub(super) fn attrs(self, context: &Context) -> Attrs {
        match self {
            Self::Everyone => Attrs { sample_us: SAMPLE_US, aggr_us: AGGR_US, ..defaults::attrs() },
            _ => policy::attrs(context),
        }
    }

    /// The set that sees it.
    ///
    /// # Errors
    ///
    /// EINVAL if there is none.
    pub(super) fn open(self, attrs: &mut Attrs, log: &Log) -> Result<OpsSet, Errno> {
        let set = match self {
            Self::Memory => open_physical_set(Some(SetName::Idle), attrs),
            Self::Nothing => open_set(None, attrs),
            Self::Processes | Self::Everyone => open_set(Some(SetName::PageWalk), attrs),
        };
        let refuse = |why: isotherm_ops::doctor::NoSet| {
            log(&why.to_string());
            Errno::INVAL
        };
        set.map(|(set, _)| set).map_err(refuse)
    }

    /// The processes that it finds by itself.
    pub(super) fn specs(self) -> Vec<TargetSpec> {
        match self {
            Self::Everyone => vec![TargetSpec::Name("*".to_owned())],
            _ => Vec::new(),
        }
    }

    /// The schemes of a context.
    pub(super) fn schemes(self, context: &Context) -> Vec<(Scheme, Settings)> {
        let mut schemes = policy::schemes(context);
        if self == Self::Everyone {
            let attrs = self.attrs(context);
            for (scheme, settings) in &mut schemes {
                adapt(scheme, settings, context, &attrs);
            }
        }
        schemes
    }
}

/// Fits a module's scheme to a census over processes: it says the same in time and shares, since
/// windows are others, does what can be done to memory of processes, and takes memory only on
/// evidence, as everything does that watches all processes.
fn adapt(scheme: &mut Scheme, settings: &mut Settings, context: &Context, attrs: &Attrs) {
    let windows = &context.intervals;
    let most = (windows.aggr_us / windows.sample_us.max(1)).max(1);
    let share = |nr: u32| {
        let bp = u64::from(nr).saturating_mul(10_000) / most;
        u32::try_from(bp).unwrap_or(u32::MAX)
    };
    if let Frequency::Samples(nr) = scheme.pattern.nr_accesses {
        scheme.pattern.nr_accesses = Frequency::Bp(Bounds::new(share(nr.min), share(nr.max)));
    }
    if let Age::Windows(age) = scheme.pattern.age {
        let us = |nr: u32| match nr {
            u32::MAX => u64::MAX,
            nr => u64::from(nr).saturating_mul(windows.aggr_us),
        };
        scheme.pattern.age = Age::Micros(Bounds::new(us(age.min), us(age.max)));
    }
    scheme.action = match scheme.action {
        Action::LruPrio => Action::Willneed,
        Action::LruDeprio => Action::Cold,
        other => other,
    };
    scheme.quota.brake = defaults::brake(scheme.action);
    if defaults::uses_evidence(scheme.action) {
        settings.evidence = defaults::evidence(&scheme.pattern, attrs);
    }
    // Nothing is done that makes threads of any process on the machine call something.
    settings.inject = false;
    debug_assert_eq!(attrs.method, Method::Census, "evidence is what a census finds");
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    use isotherm_act::apply::Evidence;
    use isotherm_core::AddrRange;
    use isotherm_core::scheme::Resolved;
    use isotherm_damon::model::{Scheme as Told, Target};
    use isotherm_damon::modules::Module;

    fn of_memory(regions: Vec<AddrRange>) -> Context {
        let targets = vec![Target { regions, ..Target::default() }];
        Context { operations: Operations::Paddr, targets, ..Context::default() }
    }

    #[test]
    fn physical_memory_is_watched_only_where_it_can_be() {
        let log: Log = Arc::new(|_: &str| {});
        let module = Asker::Module(Module::Reclaim);
        let all = || of_memory(Vec::new());
        let some = || of_memory(vec![AddrRange::new(4096, 8192)]);
        for (context, by, is_there, expected) in [
            (Context::default(), Asker::Files, false, Ok(Watch::Processes)),
            (all(), Asker::Files, true, Ok(Watch::Nothing)),
            (all(), Asker::Files, false, Ok(Watch::Nothing)),
            (some(), Asker::Files, true, Ok(Watch::Memory)),
            (some(), Asker::Files, false, Err(Errno::INVAL)),
            (all(), module, true, Ok(Watch::Memory)),
            (all(), module, false, Ok(Watch::Everyone)),
            (some(), module, false, Err(Errno::INVAL)),
        ] {
            let no_paddr = || (!is_there).then(|| "why".to_owned());
            assert_eq!(Watch::of(&context, by, no_paddr, &log), expected, "{context:?} {by:?}");
        }
    }

    #[test]
    fn a_scheme_over_processes_says_the_same_in_time_and_takes_only_on_evidence() {
        let told = |action, least: u32, age: u32| Told {
            action,
            pattern: Resolved {
                sz: Bounds::new(4096, u64::MAX),
                nr_accesses: Bounds::new(least, least),
                age: Bounds::new(age, u32::MAX),
            },
            ..Told::default()
        };
        let schemes = vec![told(Action::Pageout, 0, 1200), told(Action::LruPrio, 10, 0)];
        let context = Context { schemes, ..of_memory(Vec::new()) };
        let made = Watch::Everyone.schemes(&context);
        let (scheme, settings) = &made[0];
        assert_eq!(scheme.pattern.age, Age::Micros(Bounds::new(120_000_000, u64::MAX)));
        assert_eq!(scheme.pattern.nr_accesses, Frequency::Bp(Bounds::new(0, 0)));
        assert_eq!(settings.evidence, Evidence::Confirm(60_000_000));
        assert!(scheme.quota.brake.is_some() && !settings.inject);
        let (scheme, _) = &made[1];
        assert_eq!(scheme.action, Action::Willneed);
        assert_eq!(scheme.pattern.nr_accesses, Frequency::Bp(Bounds::new(5000, 5000)));
        // Over physical memory it is DAMON's.
        let strict = Watch::Memory.schemes(&context);
        assert_eq!(strict[0].0.pattern.age, Age::Windows(Bounds::new(1200, u32::MAX)));
        assert_eq!(strict[0].1.evidence, Evidence::Off);
    }
}
