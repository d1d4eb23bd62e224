//! A context as its files say it.

use std::path::PathBuf;
use std::sync::Arc;

use isotherm_core::AddrRange;
use isotherm_core::scheme::Bounds;
use isotherm_damon::model::{Config, Context as Model, Intervals, Operations, Scheme, Target};
use rustix::io::Errno;

use super::text;
use crate::engine::{Results, Worker};

/// What the kernel shows as the pid of physical memory.
const MEMORY: i32 = 42;

/// Whether a text of `target_ids` stands for physical memory.
fn is_memory(text: &[u8]) -> bool {
    text::word(text) == Some("paddr")
}

/// The processes of a text of `target_ids`; none for physical memory.
///
/// # Errors
///
/// ENOMEM if one of them does not exist: that is what the kernel says.
pub(super) fn existing(text: &[u8]) -> Result<Vec<i32>, Errno> {
    if is_memory(text) {
        return Ok(Vec::new());
    }
    let pids = text::pids(text);
    let exists = |pid: &i32| *pid > 0 && PathBuf::from(format!("/proc/{pid}")).exists();
    if pids.iter().all(exists) { Ok(pids) } else { Err(Errno::NOMEM) }
}

/// A context.
#[derive(Debug)]
pub(super) struct Context {
    pub(super) name: String,
    intervals: Intervals,
    nr_regions: Bounds<u64>,
    schemes: Vec<Scheme>,
    operations: Operations,
    targets: Vec<(i32, Vec<AddrRange>)>,
    /// What was started last.
    worker: Option<Arc<dyn Worker>>,
    /// What it showed last.
    results: Results,
}

impl Context {
    /// A context with the kernel's defaults: no target.
    pub(super) fn new(name: &str) -> Self {
        let model = Model::default();
        Self {
            name: name.to_owned(),
            intervals: Intervals { update_us: 1_000_000, ..model.intervals },
            nr_regions: model.nr_regions,
            schemes: Vec::new(),
            operations: Operations::Vaddr,
            targets: Vec::new(),
            worker: None,
            results: Results::default(),
        }
    }

    /// What runs; none if nothing does. A context that has ended has no processes as targets any
    /// more.
    pub(super) fn running(&mut self) -> Option<Arc<dyn Worker>> {
        let worker = self.worker.as_ref()?;
        if worker.pid().is_some() {
            return Some(Arc::clone(worker));
        }
        self.worker = None;
        if self.operations != Operations::Paddr {
            self.targets.clear();
        }
        None
    }

    pub(super) const fn has_targets(&self) -> bool {
        !self.targets.is_empty()
    }

    pub(super) fn started(&mut self, worker: Arc<dyn Worker>) {
        self.results = Results::default();
        self.worker = Some(worker);
    }

    pub(super) fn note(&mut self, results: Results) {
        self.results = results;
    }

    /// What the files say together.
    pub(super) fn config(&self) -> Config {
        let target = |(pid, regions): &(i32, Vec<AddrRange>)| Target {
            pid: if self.operations == Operations::Paddr { 0 } else { *pid },
            regions: regions.clone(),
            obsolete: false,
        };
        let context = Model {
            operations: self.operations,
            intervals: self.intervals,
            nr_regions: self.nr_regions,
            targets: self.targets.iter().map(target).collect(),
            schemes: self.schemes.clone(),
            ..Model::default()
        };
        Config { context, ..Config::default() }
    }

    pub(super) fn show_attrs(&self) -> String {
        text::show_attrs(&self.intervals, &self.nr_regions)
    }

    pub(super) fn show_schemes(&self) -> String {
        text::show_schemes(&self.schemes, &self.results.schemes)
    }

    pub(super) fn show_targets(&self) -> String {
        text::show_pids(self.targets.iter().map(|(pid, _)| *pid))
    }

    pub(super) fn show_regions(&self) -> String {
        text::show_regions(self.targets.iter().map(|(_, regions)| regions.as_slice()))
    }

    /// # Errors
    ///
    /// EINVAL if they are not valid.
    pub(super) fn set_attrs(&mut self, text: &[u8]) -> Result<(), Errno> {
        let (intervals, nr_regions) = text::attrs(text)?;
        let fits = nr_regions.min >= 3
            && nr_regions.min <= nr_regions.max
            && intervals.sample_us <= intervals.aggr_us;
        if !fits {
            return Err(Errno::INVAL);
        }
        (self.intervals, self.nr_regions) = (intervals, nr_regions);
        Ok(())
    }

    /// # Errors
    ///
    /// EINVAL if one of them is not valid.
    pub(super) fn set_schemes(&mut self, text: &[u8]) -> Result<(), Errno> {
        self.schemes = text::schemes(text)?;
        self.results = Results::default();
        Ok(())
    }

    /// # Errors
    ///
    /// ENOMEM if there is no such process: that is what the kernel says.
    pub(super) fn set_targets(&mut self, text: &[u8]) -> Result<(), Errno> {
        if is_memory(text) {
            (self.operations, self.targets) = (Operations::Paddr, vec![(MEMORY, Vec::new())]);
            return Ok(());
        }
        let pids = existing(text)?;
        self.operations = Operations::Vaddr;
        self.targets = pids.into_iter().map(|pid| (pid, Vec::new())).collect();
        Ok(())
    }

    /// # Errors
    ///
    /// EINVAL if one of them is not valid. Then there is none.
    pub(super) fn set_regions(&mut self, text: &[u8]) -> Result<(), Errno> {
        let found = text::regions(text, self.targets.len());
        self.targets.iter_mut().for_each(|(_, regions)| regions.clear());
        for ((_, regions), found) in self.targets.iter_mut().zip(found?) {
            *regions = found;
        }
        Ok(())
    }
}
