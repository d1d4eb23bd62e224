//! A kdamond of the running kernel, by `damon`'s files.

use isotherm_core::Observed;
use isotherm_damon::{
    Claim, Command, Config, DamonError, DamonKind, Feature, Features, Kdamond, Root, Settings,
    TriedRegion, TunedIntervals,
};

use super::kernel::{Counted, Kernel, Walked};

/// One that is ours while it runs: the claim ends with the stop.
#[derive(Debug)]
pub(super) struct Sysfs {
    root: Root,
    settings: Settings,
    claim: Option<Claim>,
    features: Features,
    regions: Vec<TriedRegion>,
}

impl Sysfs {
    /// Looks whether there is anything to claim. Nothing is written.
    pub(super) fn of(root: Root, settings: Settings) -> Result<Self, DamonError> {
        root.require()?;
        let features = Features::detect(&root);
        Ok(Self { root, settings, claim: None, features, regions: Vec::new() })
    }

    fn claim(&self) -> Result<&Claim, DamonError> {
        self.claim.as_ref().ok_or_else(|| Kdamond::new(&self.root, 0).died("use"))
    }
}

impl Kernel for Sysfs {
    fn start(&mut self, config: &Config) -> Result<u32, DamonError> {
        self.stop()?;
        let mut claim = Claim::set_up(&self.root, config, &self.settings)?;
        let pid = claim.on()?;
        // The directories of schemes and targets exist only from now on.
        self.features.look_at(&self.root, claim.kdamond().index());
        self.claim = Some(claim);
        Ok(pid)
    }

    fn commit(&mut self, config: &Config) -> Result<(), DamonError> {
        match &mut self.claim {
            Some(claim) => claim.commit(config),
            None => self.claim().map(|_| ()),
        }
    }

    fn commit_goals(&mut self, config: &Config) -> Result<(), DamonError> {
        match &mut self.claim {
            Some(claim) => claim.commit_goals(config),
            None => self.claim().map(|_| ()),
        }
    }

    fn stop(&mut self) -> Result<(), DamonError> {
        match self.claim.take() {
            Some(claim) => claim.release(),
            None => Ok(()),
        }
    }

    fn is_running(&self) -> Result<bool, DamonError> {
        match self.claim()?.is_running() {
            // Somebody removed the directory, so none of ours is left.
            Err(err) if err.kind() == DamonKind::NotOurs => Err(err),
            answer => answer,
        }
    }

    fn walk(
        &mut self,
        first: usize,
        nr: usize,
        end: &mut dyn FnMut(),
    ) -> Result<Walked, DamonError> {
        let kdamond = self.claim()?.kdamond().clone();
        kdamond.command(Command::UpdateTriedRegions)?;
        end();
        kdamond.command(Command::UpdateStats)?;
        let sz_tried = kdamond.stats(first)?.sz_tried;
        let mut schemes = Vec::with_capacity(nr);
        for scheme in first..first + nr {
            kdamond.tried_regions(scheme, &mut self.regions)?;
            let observed = self.regions.iter().map(|r| Observed {
                range: r.range,
                nr_accesses: r.nr_accesses,
                age: r.age,
                in_use: false,
            });
            schemes.push(observed.collect());
        }
        Ok(Walked { schemes, sz_tried })
    }

    fn counted(&mut self, nr: usize) -> Result<Vec<Counted>, DamonError> {
        let kdamond = self.claim()?.kdamond();
        kdamond.command(Command::UpdateStats)?;
        if self.has(Feature::EffectiveBytes) {
            kdamond.command(Command::UpdateEffectiveQuotas)?;
        }
        let one = |scheme| {
            let mut counters = kdamond.stats(scheme)?;
            // The kernel asks for everything that it tries. It does not prove what was done, so
            // none is reported.
            counters.asked_bytes = counters.sz_tried;
            Ok(Counted { counters, esz: kdamond.effective_bytes(scheme)? })
        };
        (0..nr).map(one).collect()
    }

    fn intervals(&mut self) -> Result<TunedIntervals, DamonError> {
        self.claim()?.kdamond().tuned_intervals()
    }

    fn has(&self, feature: Feature) -> bool {
        self.features.has(feature).is_likely()
    }

    fn features(&self) -> &Features {
        &self.features
    }
}
