//! A kdamond of our own, beside those of others.
//!
//! Directories are made by writing their number to `nr_kdamonds` (`mm/damon/sysfs.c`, 5.18 to 7.2).
//! That write first removes *all* existing directories, configured or not. It fails with EBUSY
//! while any kdamond runs. So nobody can add a kdamond beside a running one, and adding one beside
//! a configured one destroys that. A directory without a context is free: nobody has set it up.
//! Therefore:
//!
//! 1. A directory that runs nothing and has no context is taken.
//! 2. If there are no directories, some are made. They are more than needed, so that rule 1 works
//!    for the next claim.
//! 3. Otherwise the claim is refused, and the error names the kdamonds in the way. The user may
//!    allow that idle ones are removed.
//!
//! Dropping the claim ends it: the kdamond is stopped and its context removed. `nr_kdamonds` gets
//! its old value back if nothing of others would be lost. After a SIGKILL the next claim cleans up
//! ([`recover`](super::recover)).

use crate::config::entries::{FilterDirs, entries};
use crate::config::model::Config;
use crate::error::{self, DamonError, DamonKind};
use crate::kdamond::Kdamond;
use crate::kdamond::write::Written;
use crate::owned::ledger::{Ledger, Settings};
use crate::owned::leftover::{Leftover, recover_locked};
use crate::owned::note::{Note, Phase, Who, file_list};
use crate::sysfs::module;
use crate::sysfs::root::Root;

/// A kdamond that is ours until this value goes.
#[derive(Debug)]
pub struct Claim {
    pub(crate) kdamond: Kdamond,
    pub(crate) config: Config,
    pub(crate) written: Written,
    pub(crate) note: Note,
    settings: Settings,
    recovered: Vec<Leftover>,
    released: bool,
}

impl Claim {
    /// Finds a free kdamond directory and writes `config` into it. The kdamond does not run yet.
    /// What killed Isotherms left behind is cleaned up first.
    ///
    /// # Errors
    ///
    /// [`DamonKind::NotOurs`] if all directories are somebody else's.
    /// [`DamonKind::ModuleInTheWay`] if a running module would prevent the start. Else what
    /// [`Kdamond::write`] says. Nothing is left behind.
    pub fn set_up(root: &Root, config: &Config, settings: &Settings) -> Result<Self, DamonError> {
        root.require()?;
        let ledger = Ledger::lock(root, settings)?;
        let recovered = recover_locked(root, &ledger)?;
        if let Some(module) = module::running(root) {
            return Err(error::cannot(
                DamonKind::ModuleInTheWay,
                "start a kdamond",
                format!("{} is enabled, and it runs alone", module.title()),
                module.how_to_stop(),
            ));
        }
        let boot = root.proc().boot_id().unwrap_or_default();
        let me = std::process::id();
        let owner = Who::is_now(root.proc(), me).unwrap_or(Who { pid: me, start: 0 });
        let kdamond = Kdamond::new(root, find(root, &ledger, settings, &boot)?);
        let note = Note {
            boot,
            owner,
            index: kdamond.index(),
            phase: Phase::Writing,
            worker: None,
            files: file_list(&entries(config, FilterDirs::Layers)),
            next: file_list(&entries(config, FilterDirs::One)),
        };
        let mut claim = Self {
            kdamond,
            config: config.clone(),
            written: Written::default(),
            note,
            settings: settings.clone(),
            recovered,
            released: false,
        };
        let done = claim.save_note(&ledger).and_then(|()| {
            claim.written = claim.kdamond.write(config, None)?;
            claim.note.files = file_list(claim.written.entries());
            claim.note.next.clear();
            claim.note.phase = Phase::Ready;
            claim.save_note(&ledger)
        });
        if let Err(err) = done {
            return Err(match claim.end(&ledger) {
                Ok(()) => err,
                Err(more) => err.because(&format!("and cleaning up failed: {more}")),
            });
        }
        Ok(claim)
    }

    pub(crate) fn save_note(&self, ledger: &Ledger) -> Result<(), DamonError> {
        self.note.save(ledger.dir()).map_err(|said| {
            error::io(format!("write a note into {}", ledger.dir().display()), said)
        })
    }

    pub(crate) fn ledger(&self) -> Result<Ledger, DamonError> {
        Ledger::lock(self.kdamond.root(), &self.settings)
    }

    /// The kdamond: for reading back. Writing is the claim's.
    #[must_use]
    pub const fn kdamond(&self) -> &Kdamond {
        &self.kdamond
    }

    /// What it was told last.
    #[must_use]
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// What was found of killed Isotherms when this claim was made.
    #[must_use]
    pub fn recovered(&self) -> &[Leftover] {
        &self.recovered
    }

    /// The pid of the kdamond's thread if it was turned on, also after the thread ended by itself.
    #[must_use]
    pub fn worker(&self) -> Option<u32> {
        self.note.worker.map(|worker| worker.pid)
    }

    /// Turns the kdamond on. Returns the pid of its thread.
    ///
    /// # Errors
    ///
    /// As [`Kdamond::command`]. The claim stays, and the call can be tried again.
    pub fn on(&mut self) -> Result<u32, DamonError> {
        let pid = self.kdamond.on()?;
        self.note.worker =
            Some(Who::is_now(self.kdamond.root().proc(), pid).unwrap_or(Who { pid, start: 0 }));
        self.note.phase = Phase::Running;
        // The kdamond runs already. If this note cannot be written, the old one says `ready`, which
        // is also right.
        self.save_note(&self.ledger()?)?;
        Ok(pid)
    }

    /// Turns the kdamond off. Its regions are lost. The files stay, and it can be turned on again.
    ///
    /// # Errors
    ///
    /// As [`Kdamond::command`], or if what runs there is no longer ours.
    pub fn off(&mut self) -> Result<(), DamonError> {
        self.check_owner()?;
        self.kdamond.off()?;
        self.note.worker = None;
        self.note.phase = Phase::Ready;
        self.save_note(&self.ledger()?)
    }

    /// Whether the thread that [`Self::on`] started still runs. The thread ends by itself when all
    /// targets have ended.
    ///
    /// # Errors
    ///
    /// What the kernel says, or if somebody else's kdamond runs there now.
    pub fn is_running(&self) -> Result<bool, DamonError> {
        self.check_owner()?;
        Ok(self.note.worker.is_some() && self.kdamond.pid()?.is_some())
    }

    /// Checks that nobody took the directory away or started something else in it.
    fn check_owner(&self) -> Result<(), DamonError> {
        if !self.kdamond.exists() {
            return Err(self.kdamond.removed("use a kdamond of ours".into()));
        }
        let Some(pid) = self.kdamond.pid()? else { return Ok(()) };
        let now = Who::is_now(self.kdamond.root().proc(), pid);
        match self.note.worker {
            Some(ours)
                if ours.pid == pid && now.is_none_or(|now| now == ours || ours.start == 0) =>
            {
                Ok(())
            }
            // Between the start and the note of it.
            None if self.note.phase == Phase::Ready => Ok(()),
            _ => Err(error::cannot(
                DamonKind::NotOurs,
                format!("use kdamond {}", self.kdamond.index()),
                format!("thread {pid} runs there now, which another program started"),
                "let only one program drive DAMON at a time",
            )),
        }
    }

    /// Ends the claim: stops the kdamond and removes its context. Puts `nr_kdamonds` back to its
    /// old value if nobody else uses a directory by now. Dropping the claim does the same and
    /// ignores errors.
    ///
    /// # Errors
    ///
    /// What could not be undone. The note then stays, and the next Isotherm tries again.
    pub fn release(mut self) -> Result<(), DamonError> {
        let ledger = self.ledger()?;
        self.end(&ledger)
    }

    fn end(&mut self, ledger: &Ledger) -> Result<(), DamonError> {
        if std::mem::replace(&mut self.released, true) {
            return Ok(());
        }
        let root = self.kdamond.root().clone();
        // What somebody else removed or took over is not ours to clean up, so the note must go.
        if let Err(err) = self.check_owner() {
            if err.kind() == DamonKind::NotOurs {
                Note::remove(ledger.dir(), self.note.index).ok();
            }
            return Err(err);
        }
        self.kdamond.off()?;
        self.kdamond.clear()?;
        Note::remove(ledger.dir(), self.note.index)
            .map_err(|said| error::io("remove a note".into(), said))?;
        ledger.lower(&root, &self.note.boot)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if !self.released
            && let Ok(ledger) = self.ledger()
        {
            // Nobody to tell; the note stays if it failed.
            self.end(&ledger).ok();
        }
    }
}

impl Kdamond {
    /// Whether the directory is as the kernel makes it: off, and without a context.
    ///
    /// # Errors
    ///
    /// What the kernel says.
    pub fn is_untouched(&self) -> Result<bool, DamonError> {
        let contexts: u32 = self.root().number(&self.path("contexts/nr_contexts"))?;
        Ok(contexts == 0 && !self.is_on()?)
    }

    /// Makes it so again; it must be off.
    pub(crate) fn clear(&self) -> Result<(), DamonError> {
        for file in ["contexts/nr_contexts", "refresh_ms"] {
            let path = self.path(file);
            if self.root().exists(&path) {
                let written = self.root().write(&path, "0");
                written
                    .map_err(|said| error::io(format!("write `0` to {}", path.display()), said))?;
            }
        }
        Ok(())
    }
}

/// A directory that is nobody's; made if there is none.
fn find(root: &Root, ledger: &Ledger, settings: &Settings, boot: &str) -> Result<u32, DamonError> {
    let indices = root.indices()?;
    let mut running = Vec::new();
    for &index in &indices {
        let kdamond = Kdamond::new(root, index);
        // An untouched directory with a note that could not be read is not ours to take.
        if kdamond.is_untouched()? && !Note::path(ledger.dir(), index).exists() {
            return Ok(index);
        }
        if kdamond.is_on()? {
            running.push(index);
        }
    }
    let refuse = |why: String, hint: &str| {
        Err(error::cannot(
            DamonKind::NotOurs,
            "find a kdamond directory that is nobody's",
            why,
            hint,
        ))
    };
    if !running.is_empty() {
        return refuse(
            format!(
                "{}, all directories are in use, and the kernel lets nobody make more while one runs",
                said_of(root, &running)
            ),
            "stop it, or have whoever runs it make one directory more before they start it",
        );
    }
    if !indices.is_empty() && !settings.take_idle {
        return refuse(
            format!(
                "another program set up {} of them, which do not run; making more would remove them",
                indices.len()
            ),
            "let that program end them, or allow it: --take-idle-kdamonds",
        );
    }
    ledger.raise(root, boot, 1 + settings.spare)?;
    Ok(0)
}

fn said_of(root: &Root, running: &[u32]) -> String {
    let one = |&index: &u32| match Kdamond::new(root, index).pid() {
        Ok(Some(pid)) => format!("kdamond {index} (thread {pid})"),
        _ => format!("kdamond {index}"),
    };
    let names: Vec<String> = running.iter().map(one).collect();
    let verb = if names.len() == 1 { "runs" } else { "run" };
    format!("{} {verb}", names.join(", "))
}
