//! The tree with what runs behind it.
//!
//! A command of a `state` file reads the tree, lets go of it while it waits for the engine, and
//! then writes the results into the tree. Meanwhile DAMON's one lock counts as held
//! (`damon_sysfs_lock`, Linux 7.2): files under it answer EBUSY, and no others wait.

mod command;
mod module;
mod refresh;
mod results;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use isotherm_damon::model::Config;
use isotherm_damon::modules::Module;
use rustix::io::Errno;

use self::module::Switch;
use crate::engine::{Asker, Engine, Results, Status, Worker};
use crate::tree::{Changed, Child, DAMON, Ino, Kind, Tree, Value, word_of};

pub(crate) use command::Command;

/// The most bytes of a write that the kernel looks at (`kernfs_fop_write_iter()`).
const PAGE: usize = 4096;

/// The tree, and what runs.
#[derive(Debug)]
pub struct World {
    /// Itself, for threads that must not keep it.
    this: Weak<Self>,
    engine: Arc<dyn Engine>,
    state: Mutex<State>,
}

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) tree: Tree,
    /// What was started last in each kdamond directory.
    pub(crate) workers: BTreeMap<Ino, Arc<dyn Worker>>,
    /// What was started last of each module, and what it said last.
    modules: BTreeMap<Module, Arc<dyn Worker>>,
    module_results: BTreeMap<Module, Results>,
    /// What was started last without this tree: by the files of debugfs.
    others: Vec<Arc<dyn Worker>>,
    /// Whether a command holds DAMON's lock.
    locked: bool,
}

impl World {
    /// A tree without kdamonds, over this engine.
    #[must_use]
    pub fn new(engine: Arc<dyn Engine>) -> Arc<Self> {
        let state = State {
            tree: Tree::new(),
            workers: BTreeMap::new(),
            modules: BTreeMap::new(),
            module_results: BTreeMap::new(),
            others: Vec::new(),
            locked: false,
        };
        let state = Mutex::new(state);
        Arc::new_cyclic(|this| Self { this: Weak::clone(this), engine, state })
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        // A panic in one request must not end the others. The tree is changed in small steps, each
        // of which leaves it whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The entry of a directory with this name.
    ///
    /// # Errors
    ///
    /// ENOENT if there is none, ENOTDIR if this is a file.
    pub fn lookup(&self, dir: Ino, name: &str) -> Result<Ino, Errno> {
        self.state().tree.lookup(dir, name)
    }

    /// What is at this path below DAMON's directory, for tests and tools.
    #[must_use]
    pub fn at(&self, path: &str) -> Option<Ino> {
        self.state().tree.at(DAMON, path)
    }

    /// What this number stands for.
    ///
    /// # Errors
    ///
    /// ENOENT if it was removed.
    pub fn kind(&self, ino: Ino) -> Result<Kind, Errno> {
        self.state().tree.kind(ino)
    }

    /// The entries of a directory, with `.` and `..`: number, name, and whether it is a directory.
    ///
    /// # Errors
    ///
    /// As [`World::lookup`].
    pub fn entries(&self, dir: Ino) -> Result<Vec<(Ino, String, bool)>, Errno> {
        let state = self.state();
        let inside = state.tree.entries(dir)?;
        let parent = state.tree.parent(dir).unwrap_or(DAMON);
        let dots = [(dir, ".".to_owned(), true), (parent, "..".to_owned(), true)];
        Ok(dots.into_iter().chain(inside).collect())
    }

    /// The text of a file.
    ///
    /// # Errors
    ///
    /// ENODEV if it was removed, EISDIR for a directory, EBUSY while a command holds the lock that
    /// the file needs.
    pub fn read(&self, ino: Ino) -> Result<Vec<u8>, Errno> {
        let state = self.state();
        let value = state.tree.value(ino)?;
        if value.takes_lock_to_read() && state.locked {
            return Err(Errno::BUSY);
        }
        if let Some(text) = value.show() {
            return Ok(text);
        }
        let of_module = match *value {
            Value::Enabled(module) => Some((module, None)),
            Value::CommitInputs(_) => return Ok(b"N\n".to_vec()),
            Value::Said(module, name) => Some((module, Some(name))),
            _ => None,
        };
        if let Some((module, name)) = of_module {
            drop(state);
            let switch = || if self.is_enabled(module) { "Y" } else { "N" }.to_owned();
            let text = name.map_or_else(switch, |name| self.said(module, name));
            return Ok(format!("{text}\n").into_bytes());
        }
        let pid = state.tree.parent(ino).and_then(|dir| state.workers.get(&dir)?.pid());
        let text = match value {
            Value::AvailableOperations => {
                let names = self.engine.operations().into_iter().map(|ops| ops.name().to_owned());
                names.collect::<Vec<_>>().join("\n")
            }
            Value::State => if pid.is_some() { "on" } else { "off" }.to_owned(),
            _ => pid.unwrap_or(-1).to_string(),
        };
        Ok(format!("{text}\n").into_bytes())
    }

    /// Whether a read or write of this file can wait for what runs.
    #[must_use]
    pub fn may_wait(&self, ino: Ino) -> bool {
        let waits = |value: &Value| {
            let is_module = matches!(value, Value::Enabled(_) | Value::CommitInputs(_));
            is_module || matches!(value, Value::State | Value::Said(..))
        };
        self.state().tree.value(ino).is_ok_and(waits)
    }

    /// Whether a write of this file can make or remove directories.
    #[must_use]
    pub fn changes_dirs(&self, ino: Ino) -> bool {
        let changes = |value: &Value| matches!(value, Value::Nr(..) | Value::State);
        self.state().tree.value(ino).is_ok_and(changes)
    }

    /// What writes have changed since the last call.
    #[must_use]
    pub fn take_changed(&self) -> Changed {
        self.state().tree.take_changed()
    }

    /// Writes a text to a file, as one transaction, and returns how many bytes were taken.
    ///
    /// # Errors
    ///
    /// What the kernel says (R§5); nothing has changed then.
    pub fn write(&self, ino: Ino, text: &[u8]) -> Result<usize, Errno> {
        let text = &text[..text.len().min(PAGE)];
        if text.is_empty() {
            return Ok(0);
        }
        let mut state = self.state();
        let value = state.tree.value(ino)?;
        let is_state = matches!(value, Value::State);
        if let Value::Nr(_, child) = value {
            // The kernel reads the number before it looks at the lock, and at what runs.
            child.wanted(text)?;
        }
        if value.takes_lock_to_write() && state.locked {
            return Err(Errno::BUSY);
        }
        if is_state {
            let command = Command::from_word(word_of(text)).ok_or(Errno::INVAL)?;
            let kdamond = state.tree.parent(ino).ok_or(Errno::NODEV)?;
            state.locked = true;
            drop(state);
            let _unlock = Unlock(self);
            self.command(kdamond, command)?;
            return Ok(text.len());
        }
        let switch = match *value {
            Value::Enabled(module) => Some((module, Switch::Enabled)),
            Value::CommitInputs(module) => Some((module, Switch::CommitInputs)),
            _ => None,
        };
        if let Some((module, switch)) = switch {
            drop(state);
            self.switch(ino, module, switch, text)?;
            return Ok(text.len());
        }
        let remakes_kdamonds = matches!(value, Value::Nr(_, Child::Kdamond));
        if remakes_kdamonds && state.nr_running() > 0 {
            return Err(Errno::BUSY);
        }
        state.tree.store(ino, text)?;
        let State { tree, workers, .. } = &mut *state;
        workers.retain(|dir, _| tree.kind(*dir).is_ok());
        Ok(text.len())
    }

    /// The context whose kdamond has this pid, from inside; none if there is no such kdamond.
    #[must_use]
    pub fn status_of(&self, pid: i32) -> Option<Status> {
        let worker = {
            let state = self.state();
            let worker = state.all().find(|worker| worker.pid() == Some(pid));
            worker.cloned()
        };
        worker?.status().ok()
    }

    /// Whether anything runs.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.state().all().any(|worker| worker.pid().is_some())
    }

    /// Starts contexts that are not of this tree, all or none. Nothing else may run meanwhile.
    ///
    /// # Errors
    ///
    /// EBUSY if anything runs, and as [`Engine::start`].
    pub fn start_exclusively(&self, configs: &[Config]) -> Result<Vec<Arc<dyn Worker>>, Errno> {
        {
            let mut state = self.state();
            if state.locked || state.all().any(|worker| worker.pid().is_some()) {
                return Err(Errno::BUSY);
            }
            state.locked = true;
        }
        let _unlock = Unlock(self);
        let mut started = Vec::new();
        for (nr, config) in configs.iter().enumerate() {
            match self.engine.start(config, Asker::Files, nr) {
                Ok(worker) => started.push(worker),
                Err(errno) => {
                    started.iter().for_each(|worker| worker.stop());
                    return Err(errno);
                }
            }
        }
        self.state().others.clone_from(&started);
        Ok(started)
    }

    /// Stops all that runs.
    pub fn stop_all(&self) {
        let workers: Vec<_> = {
            let state = self.state();
            state.all().cloned().collect()
        };
        workers.iter().for_each(|worker| worker.stop());
    }
}

impl State {
    /// All that was started last.
    fn all(&self) -> impl Iterator<Item = &Arc<dyn Worker>> {
        self.workers.values().chain(self.modules.values()).chain(&self.others)
    }

    /// How many kdamonds run.
    pub(crate) fn nr_running(&self) -> usize {
        self.workers.values().filter(|worker| worker.pid().is_some()).count()
    }
}

/// Lets go of DAMON's lock, also if the command panicked.
struct Unlock<'a>(&'a World);

impl Drop for Unlock<'_> {
    fn drop(&mut self) {
        self.0.state().locked = false;
    }
}
