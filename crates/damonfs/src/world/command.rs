//! The commands of a `state` file (`damon_sysfs_handle_cmd()`, Linux 7.2; R§5.3).

use std::sync::{Arc, Weak};

use isotherm_damon::Command as Word;
use isotherm_damon::model::Config;
use rustix::io::Errno;

use super::{World, refresh};
use crate::engine::{Asker, Worker};
use crate::stage::{Files, config};
use crate::tree::Ino;

/// What is done with a kdamond.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Command(Word);

impl Command {
    /// The command of this word.
    pub(crate) fn from_word(word: &[u8]) -> Option<Self> {
        Word::ALL.into_iter().find(|known| known.name().as_bytes() == word).map(Self)
    }
}

impl World {
    /// Carries out a command. The caller holds DAMON's lock, and not the tree's.
    ///
    /// # Errors
    ///
    /// As R§5.3 says.
    pub(super) fn command(&self, kdamond: Ino, command: Command) -> Result<(), Errno> {
        match command.0 {
            Word::On => self.start(kdamond),
            Word::Off => self.stop(kdamond),
            Word::Commit => {
                let worker = self.started(kdamond)?;
                worker.commit(&self.staged(kdamond)?)
            }
            Word::CommitGoals => {
                let worker = self.started(kdamond)?;
                worker.commit_goals(&self.staged(kdamond)?)
            }
            Word::UpdateStats => {
                let results = self.started(kdamond)?.results()?;
                self.show_stats(kdamond, &results);
                Ok(())
            }
            Word::UpdateEffectiveQuotas => {
                let results = self.started(kdamond)?.results()?;
                self.show_effective_quotas(kdamond, &results);
                Ok(())
            }
            Word::UpdateTunedIntervals => {
                let results = self.started(kdamond)?.results()?;
                self.show_intervals(kdamond, &results);
                Ok(())
            }
            Word::UpdateTriedRegions => {
                self.started(kdamond)?;
                self.clear_tried_regions(kdamond);
                let tried = self.started(kdamond)?.walk()?;
                self.show_tried_regions(kdamond, &tried, true);
                Ok(())
            }
            Word::UpdateTriedBytes => {
                self.started(kdamond)?;
                self.clear_tried_regions(kdamond);
                let tried = self.started(kdamond)?.walk()?;
                self.show_tried_regions(kdamond, &tried, false);
                Ok(())
            }
            Word::ClearTriedRegions => {
                self.started(kdamond)?;
                self.clear_tried_regions(kdamond);
                Ok(())
            }
        }
    }

    /// What the files of a kdamond say.
    fn staged(&self, kdamond: Ino) -> Result<Config, Errno> {
        config(Files::new(&self.state().tree, kdamond))
    }

    fn start(&self, kdamond: Ino) -> Result<(), Errno> {
        let (staged, nr_running) = {
            let state = self.state();
            if state.workers.get(&kdamond).is_some_and(|worker| worker.pid().is_some()) {
                return Err(Errno::BUSY);
            }
            if state.is_exclusive() {
                return Err(Errno::BUSY);
            }
            let staged = config(Files::new(&state.tree, kdamond))?;
            (staged, state.nr_running())
        };
        if staged.context.targets.iter().any(|target| target.obsolete) {
            return Err(Errno::INVAL);
        }
        let worker = self.engine.start(&staged, Asker::Files, nr_running)?;
        self.state().workers.insert(kdamond, Arc::clone(&worker));
        refresh::follow(Weak::clone(&self.this), kdamond, worker);
        Ok(())
    }

    fn stop(&self, kdamond: Ino) -> Result<(), Errno> {
        let worker = self.state().workers.get(&kdamond).cloned().ok_or(Errno::INVAL)?;
        if worker.pid().is_none() {
            return Err(Errno::PERM);
        }
        worker.stop();
        Ok(())
    }

    /// What was started in this directory, whether it still runs or not.
    fn started(&self, kdamond: Ino) -> Result<Arc<dyn Worker>, Errno> {
        let state = self.state();
        if state.tree.at(kdamond, "contexts/0").is_none() {
            return Err(Errno::INVAL);
        }
        state.workers.get(&kdamond).cloned().ok_or(Errno::INVAL)
    }
}
