//! DAMON's modules: switched by a file each, and alone while they run (R§6.1).

use std::sync::Arc;

use isotherm_core::scheme::Counters;
use isotherm_damon::model::Config;
use isotherm_damon::modules::Module;
use rustix::io::Errno;

use super::{State, Unlock, World};
use crate::engine::{Asker, Results, Worker};
use crate::stage::{Files, module_config};
use crate::tree::{Ino, boolean};

/// What a file of a module is.
#[derive(Debug, Clone, Copy)]
pub(super) enum Switch {
    Enabled,
    CommitInputs,
}

impl State {
    /// Whether a module runs, or contexts of debugfs. Then no kdamond may be started.
    pub(super) fn is_exclusive(&self) -> bool {
        self.modules.values().chain(&self.others).any(|worker| worker.pid().is_some())
    }

    fn running(&self, module: Module) -> Option<Arc<dyn Worker>> {
        self.modules.get(&module).filter(|worker| worker.pid().is_some()).cloned()
    }
}

impl World {
    /// Writes a switch of a module.
    ///
    /// # Errors
    ///
    /// EINVAL for what is no boolean, and as R§6 says.
    pub(super) fn switch(
        &self,
        ino: Ino,
        module: Module,
        switch: Switch,
        text: &[u8],
    ) -> Result<(), Errno> {
        let wanted = boolean(text)?;
        let (running, config) = {
            let mut state = self.state();
            if state.locked {
                return Err(Errno::BUSY);
            }
            let dir = state.tree.parent(ino).ok_or(Errno::NODEV)?;
            let config = module_config(module, Files::new(&state.tree, dir));
            state.locked = true;
            (state.running(module), config)
        };
        let _unlock = Unlock(self);
        match (switch, wanted, running) {
            (Switch::Enabled, true, None) => self.enable(module, &config?),
            (Switch::Enabled, false, Some(worker)) => {
                worker.stop();
                Ok(())
            }
            (Switch::Enabled, true, Some(_)) | (Switch::Enabled, false, None) => Ok(()),
            (Switch::CommitInputs, false, _) => Ok(()),
            (Switch::CommitInputs, true, None) => Err(Errno::INVAL),
            (Switch::CommitInputs, true, Some(worker)) => worker.commit(&config?),
        }
    }

    fn enable(&self, module: Module, config: &Config) -> Result<(), Errno> {
        if self.state().nr_running() > 0 || self.state().is_exclusive() {
            return Err(Errno::BUSY);
        }
        let worker = self.engine.start(config, Asker::Module(module), 0)?;
        self.state().modules.insert(module, worker);
        Ok(())
    }

    /// The text of a file that a module writes.
    pub(super) fn said(&self, module: Module, name: &str) -> String {
        let worker = self.state().modules.get(&module).cloned();
        if name == "kdamond_pid" {
            return worker.and_then(|worker| worker.pid()).unwrap_or(-1).to_string();
        }
        // What a module said last stays, as in the kernel.
        if let Some(Ok(results)) = worker.map(|worker| worker.results()) {
            self.state().module_results.insert(module, results);
        }
        let state = self.state();
        statistic(state.module_results.get(&module), name)
    }

    /// Whether a module runs, as its switch shows it.
    pub(super) fn is_enabled(&self, module: Module) -> bool {
        self.state().running(module).is_some()
    }
}

/// A statistic, by the name of its file.
fn statistic(results: Option<&Results>, name: &str) -> String {
    let nothing = Results::default();
    let results = results.unwrap_or(&nothing);
    let of = |index: usize, f: fn(&Counters) -> u64| {
        results.schemes.get(index).map_or(0, |scheme| f(&scheme.stats)).to_string()
    };
    // Of the two schemes of `lru_sort`, the second is that for cold memory.
    let index = usize::from(name.contains("cold"));
    match name {
        "aggr_interval_us" => results.aggr_us.to_string(),
        "estimated_memory_bandwidth" => results.bandwidth.to_string(),
        "memory_idle_ms_percentiles" => {
            let idle = results.idle_ms.iter().map(ToString::to_string);
            let idle: Vec<String> = idle.collect();
            if idle.is_empty() { vec!["0"; 101].join(",") } else { idle.join(",") }
        }
        _ if name.ends_with("quota_exceeds") => of(index, |stats| stats.qt_exceeds),
        _ if name.contains("tried") && name.starts_with("nr_") => of(index, |stats| stats.nr_tried),
        _ if name.contains("tried") => of(index, |stats| stats.sz_tried),
        _ if name.starts_with("nr_") => of(index, |stats| stats.nr_applied),
        _ => of(index, |stats| stats.sz_applied),
    }
}
