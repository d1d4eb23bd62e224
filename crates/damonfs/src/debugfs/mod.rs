//! DAMON's files before sysfs: `/sys/kernel/debug/damon` of Linux 5.15 to 6.13, as the first
//! patches and papers use them.
//!
//! ```text
//! attrs schemes target_ids init_regions kdamond_pid      of the first context
//! NAME/attrs ...                                         of one that `mk_contexts` has made
//! mk_contexts rm_contexts monitor_on                     of all
//! ```
//!
//! All contexts start and stop together, and alone: not while a kdamond of the sysfs tree or a
//! module runs. Nothing changes while they run.
//!
//! Invariant: no call waits for what runs while the contexts are locked.

mod context;
mod text;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;

use self::context::Context;
use crate::engine::Worker;
use crate::served::Served;
use crate::tree::{Changed, Ino, Kind};
use crate::world::World;

/// The first context, whose files are in the root.
const FIRST: u64 = 0;
/// How many numbers a context has: its directory's, and its files'.
const STEP: u64 = 16;
/// The root's number.
pub const ROOT: Ino = STEP;

/// The most contexts. The kernel's limit is memory.
const MOST_CONTEXTS: usize = 1_000;
/// The longest name of a file (`NAME_MAX`).
const LONGEST: usize = 255;

/// A file of a context's directory. The last three are in the root only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum File {
    Attrs,
    Schemes,
    TargetIds,
    InitRegions,
    KdamondPid,
    MkContexts,
    RmContexts,
    MonitorOn,
}

impl File {
    /// All of them, each before the number that it has behind the directory's.
    const ALL: [(Self, &'static str); 8] = [
        (Self::Attrs, "attrs"),
        (Self::Schemes, "schemes"),
        (Self::TargetIds, "target_ids"),
        (Self::InitRegions, "init_regions"),
        (Self::KdamondPid, "kdamond_pid"),
        (Self::MkContexts, "mk_contexts"),
        (Self::RmContexts, "rm_contexts"),
        (Self::MonitorOn, "monitor_on"),
    ];

    /// The files of a context's directory, with their numbers behind its own.
    fn of(context: u64) -> impl Iterator<Item = (u64, Self, &'static str)> {
        let nr = if context == FIRST { 8 } else { 5 };
        (1..).zip(Self::ALL).take(nr).map(|(at, (file, name))| (at, file, name))
    }
}

/// The files and what they say.
#[derive(Debug)]
pub struct Debugfs {
    world: Arc<World>,
    contexts: Mutex<Contexts>,
}

#[derive(Debug)]
struct Contexts {
    by_number: BTreeMap<u64, Context>,
    next: u64,
}

impl Contexts {
    /// What a number stands for: a context, and one of its files unless it is the directory.
    fn find(&self, ino: Ino) -> Result<(u64, Option<File>), Errno> {
        let (context, at) = ((ino / STEP).wrapping_sub(1), ino % STEP);
        if !self.by_number.contains_key(&context) {
            return Err(Errno::NOENT);
        }
        if at == 0 {
            return Ok((context, None));
        }
        let file = File::of(context).find(|(known, ..)| *known == at);
        file.map(|(_, file, _)| (context, Some(file))).ok_or(Errno::NOENT)
    }

    fn dir(&self, ino: Ino) -> Result<u64, Errno> {
        match self.find(ino)? {
            (context, None) => Ok(context),
            _ => Err(Errno::NOTDIR),
        }
    }

    /// The number of a context that was made under this name.
    fn named(&self, name: &str) -> Option<u64> {
        let mut made = self.by_number.iter().filter(|(number, _)| **number != FIRST);
        made.find(|(_, context)| context.name == name).map(|(number, _)| *number)
    }

    fn is_file(name: &str) -> bool {
        File::of(FIRST).any(|(.., known)| known == name)
    }

    /// # Errors
    ///
    /// EEXIST for a name that is there, EINVAL for one that no directory can have, and ENOMEM.
    fn make(&mut self, name: &str) -> Result<(), Errno> {
        if self.named(name).is_some() || Self::is_file(name) {
            return Err(Errno::EXIST);
        }
        if matches!(name, "." | "..") || name.contains('/') || name.len() > LONGEST {
            return Err(Errno::INVAL);
        }
        if self.by_number.len() == MOST_CONTEXTS {
            return Err(Errno::NOMEM);
        }
        self.by_number.insert(self.next, Context::new(name));
        self.next += 1;
        Ok(())
    }

    /// # Errors
    ///
    /// ENOENT if there is no such context, EINVAL for a file.
    fn remove(&mut self, name: &str) -> Result<(), Errno> {
        if Self::is_file(name) {
            return Err(Errno::INVAL);
        }
        let number = self.named(name).ok_or(Errno::NOENT)?;
        self.by_number.remove(&number);
        Ok(())
    }
}

impl Debugfs {
    /// The files, with one context that has no target. What is started runs in `world`'s engine.
    #[must_use]
    pub fn new(world: Arc<World>) -> Arc<Self> {
        let by_number = BTreeMap::from([(FIRST, Context::new(""))]);
        Arc::new(Self { world, contexts: Mutex::new(Contexts { by_number, next: FIRST + 1 }) })
    }

    fn contexts(&self) -> MutexGuard<'_, Contexts> {
        // Contexts are changed in small steps, each of which leaves them whole.
        self.contexts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn show(&self, number: u64, file: File) -> Result<String, Errno> {
        let running = {
            let mut contexts = self.contexts();
            contexts.by_number.get_mut(&number).ok_or(Errno::NODEV)?.running()
        };
        // A file that counts shows what is so now. What has ended shows what it has shown last.
        if let (Some(worker), File::Schemes) = (&running, file)
            && let Ok(results) = worker.results()
            && let Some(context) = self.contexts().by_number.get_mut(&number)
        {
            context.note(results);
        }
        let contexts = self.contexts();
        let context = contexts.by_number.get(&number).ok_or(Errno::NODEV)?;
        Ok(match file {
            File::Attrs => context.show_attrs(),
            File::Schemes => context.show_schemes(),
            File::TargetIds => context.show_targets(),
            File::InitRegions if running.is_some() => return Err(Errno::BUSY),
            File::InitRegions => context.show_regions(),
            File::KdamondPid => match running.and_then(|worker| worker.pid()) {
                Some(pid) => format!("{pid}\n"),
                None => "none\n".to_owned(),
            },
            File::MonitorOn => if self.world.is_running() { "on\n" } else { "off\n" }.to_owned(),
            File::MkContexts | File::RmContexts => return Err(Errno::INVAL),
        })
    }

    fn store(&self, number: u64, file: File, text: &[u8]) -> Result<(), Errno> {
        if file == File::MonitorOn {
            return match text::word(text) {
                Some("on") => self.start(),
                Some("off") => self.stop(),
                _ => Err(Errno::INVAL),
            };
        }
        let mut contexts = self.contexts();
        if matches!(file, File::MkContexts | File::RmContexts) {
            let name = text::word(text).ok_or(Errno::INVAL)?;
            if self.world.is_running() {
                return Err(Errno::BUSY);
            }
            return if file == File::MkContexts {
                contexts.make(name)
            } else {
                contexts.remove(name)
            };
        }
        let context = contexts.by_number.get_mut(&number).ok_or(Errno::NODEV)?;
        if file == File::KdamondPid {
            return Err(Errno::INVAL);
        }
        // The kernel reads these before it looks at what runs, and the others after that.
        match file {
            File::Attrs => text::attrs(text).map(drop)?,
            File::Schemes => text::schemes(text).map(drop)?,
            File::TargetIds => context::existing(text).map(drop)?,
            _ => {}
        }
        if context.running().is_some() {
            return Err(Errno::BUSY);
        }
        match file {
            File::Attrs => context.set_attrs(text),
            File::Schemes => context.set_schemes(text),
            File::TargetIds => context.set_targets(text),
            _ => context.set_regions(text),
        }
    }

    /// Starts all contexts.
    ///
    /// # Errors
    ///
    /// EINVAL if one has no target, EBUSY if any kdamond runs, and as
    /// [`Engine::start`](crate::Engine::start). Nothing runs then.
    fn start(&self) -> Result<(), Errno> {
        let (numbers, configs) = {
            let mut contexts = self.contexts();
            for context in contexts.by_number.values_mut() {
                if context.running().is_some() {
                    return Err(Errno::BUSY);
                }
                if !context.has_targets() {
                    return Err(Errno::INVAL);
                }
            }
            let all = contexts.by_number.iter();
            all.map(|(number, context)| (*number, context.config())).unzip::<_, _, Vec<_>, Vec<_>>()
        };
        let workers = self.world.start_exclusively(&configs)?;
        let mut contexts = self.contexts();
        for (number, worker) in numbers.into_iter().zip(workers) {
            if let Some(context) = contexts.by_number.get_mut(&number) {
                context.started(worker);
            }
        }
        Ok(())
    }

    /// Stops all contexts.
    ///
    /// # Errors
    ///
    /// EPERM if none runs.
    fn stop(&self) -> Result<(), Errno> {
        let running: Vec<Arc<dyn Worker>> = {
            let mut contexts = self.contexts();
            contexts.by_number.values_mut().filter_map(Context::running).collect()
        };
        if running.is_empty() {
            return Err(Errno::PERM);
        }
        running.iter().for_each(|worker| worker.stop());
        Ok(())
    }
}

impl Served for Debugfs {
    fn lookup(&self, dir: Ino, name: &str) -> Result<Ino, Errno> {
        let contexts = self.contexts();
        let context = contexts.dir(dir)?;
        if let Some((at, ..)) = File::of(context).find(|(.., known)| *known == name) {
            return Ok(dir + at);
        }
        let made = if context == FIRST { contexts.named(name) } else { None };
        made.map(|number| (number + 1) * STEP).ok_or(Errno::NOENT)
    }

    fn kind(&self, ino: Ino) -> Result<Kind, Errno> {
        let contexts = self.contexts();
        Ok(match contexts.find(ino)? {
            (_, Some(_)) => Kind { is_dir: false, mode: 0o600, nr_dirs: 0 },
            (context, None) => {
                let made = if context == FIRST { contexts.by_number.len() - 1 } else { 0 };
                let nr_dirs = u32::try_from(made).unwrap_or(u32::MAX);
                Kind { is_dir: true, mode: 0o755, nr_dirs }
            }
        })
    }

    fn entries(&self, dir: Ino) -> Result<Vec<(Ino, String, bool)>, Errno> {
        let contexts = self.contexts();
        let context = contexts.dir(dir)?;
        let mut all = vec![(dir, ".".to_owned(), true), (ROOT, "..".to_owned(), true)];
        all.extend(File::of(context).map(|(at, _, name)| (dir + at, name.to_owned(), false)));
        if context == FIRST {
            let made = contexts.by_number.iter().filter(|(number, _)| **number != FIRST);
            all.extend(made.map(|(nr, context)| ((nr + 1) * STEP, context.name.clone(), true)));
        }
        Ok(all)
    }

    fn read(&self, ino: Ino) -> Result<Vec<u8>, Errno> {
        let (context, file) = self.contexts().find(ino).map_err(|_gone| Errno::NODEV)?;
        self.show(context, file.ok_or(Errno::ISDIR)?).map(String::into_bytes)
    }

    fn may_wait(&self, ino: Ino) -> bool {
        let found = self.contexts().find(ino);
        matches!(found, Ok((_, Some(File::Schemes | File::MonitorOn))))
    }

    fn changes_dirs(&self, ino: Ino) -> bool {
        let found = self.contexts().find(ino);
        matches!(found, Ok((_, Some(File::MkContexts | File::RmContexts))))
    }

    /// Directories of contexts are not stable entries. How many there are is an attribute of the
    /// root, the only directory that has directories.
    fn take_changed(&self) -> Changed {
        Changed { dirs: BTreeSet::from([ROOT]), ..Changed::default() }
    }

    fn write(&self, ino: Ino, offset: u64, text: &[u8]) -> Result<usize, Errno> {
        let (context, file) = self.contexts().find(ino).map_err(|_gone| Errno::NODEV)?;
        if offset != 0 {
            // One write is all of a value.
            return Err(Errno::INVAL);
        }
        self.store(context, file.ok_or(Errno::ISDIR)?, text)?;
        Ok(text.len())
    }

    fn size(&self) -> u64 {
        0
    }

    fn is_stable(&self, name: &str) -> bool {
        Contexts::is_file(name)
    }
}
