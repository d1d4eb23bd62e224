//! One kdamond directory: the commands of its `state` file (R§5.3).
//!
//! A handle is only a path: it claims nothing and cleans nothing up.

mod read;
mod refusal;
pub(crate) mod results;
pub(crate) mod write;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::error::{DamonError, DamonKind};
use crate::sysfs::module;
use crate::sysfs::root::Root;

/// A handle for one kdamond directory.
#[derive(Debug, Clone)]
pub struct Kdamond {
    root: Root,
    index: u32,
}

/// A command for a kdamond.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Command {
    /// Start it from what the files say.
    On,
    /// Stop it; regions are lost, the files stay.
    Off,
    /// Take over what the files say, while it runs (5.19).
    Commit,
    /// Take over the goals of the schemes alone (6.8).
    CommitGoals,
    /// Bring `stats` up to date.
    UpdateStats,
    /// Bring `tried_regions` up to date. Waits until each scheme was applied once (6.2).
    UpdateTriedRegions,
    /// Bring `tried_regions/total_bytes` up to date, without the regions. Waits like
    /// [`Self::UpdateTriedRegions`] (6.6).
    UpdateTriedBytes,
    /// Remove what is in `tried_regions` (6.2).
    ClearTriedRegions,
    /// Bring `quotas/effective_bytes` up to date (6.9).
    UpdateEffectiveQuotas,
    /// Write the tuned intervals into `sample_us` and `aggr_us` (6.15).
    UpdateTunedIntervals,
}

impl Command {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::On,
        Self::Off,
        Self::Commit,
        Self::CommitGoals,
        Self::UpdateStats,
        Self::UpdateTriedRegions,
        Self::UpdateTriedBytes,
        Self::ClearTriedRegions,
        Self::UpdateEffectiveQuotas,
        Self::UpdateTunedIntervals,
    ];

    /// The kernel's keyword.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::On => "on",
            Self::Off => "off",
            Self::Commit => "commit",
            Self::CommitGoals => "commit_schemes_quota_goals",
            Self::UpdateStats => "update_schemes_stats",
            Self::UpdateTriedRegions => "update_schemes_tried_regions",
            Self::UpdateTriedBytes => "update_schemes_tried_bytes",
            Self::ClearTriedRegions => "clear_schemes_tried_regions",
            Self::UpdateEffectiveQuotas => "update_schemes_effective_quotas",
            Self::UpdateTunedIntervals => "update_tuned_intervals",
        }
    }

    /// The first mainline kernel that takes it.
    #[must_use]
    pub const fn since(self) -> &'static str {
        match self {
            Self::On | Self::Off | Self::UpdateStats => "5.18",
            Self::Commit => "5.19",
            Self::CommitGoals => "6.8",
            Self::UpdateTriedRegions | Self::ClearTriedRegions => "6.2",
            Self::UpdateTriedBytes => "6.6",
            Self::UpdateEffectiveQuotas => "6.9",
            Self::UpdateTunedIntervals => "6.15",
        }
    }

    const fn walks(self) -> bool {
        matches!(self, Self::UpdateTriedRegions | Self::UpdateTriedBytes)
    }
}

impl Kdamond {
    /// A handle for the directory with this index, there or not.
    #[must_use]
    pub fn new(root: &Root, index: u32) -> Self {
        Self { root: root.clone(), index }
    }

    /// Its number.
    #[must_use]
    pub const fn index(&self) -> u32 {
        self.index
    }

    /// Where it is.
    #[must_use]
    pub const fn root(&self) -> &Root {
        &self.root
    }

    /// Its directory.
    #[must_use]
    pub fn dir(&self) -> PathBuf {
        self.root.kdamond(self.index)
    }

    /// A file below its directory.
    #[must_use]
    pub fn path(&self, file: &str) -> PathBuf {
        self.dir().join(file)
    }

    /// Whether the directory is there.
    #[must_use]
    pub fn exists(&self) -> bool {
        self.root.exists(&self.dir())
    }

    /// Whether it runs.
    ///
    /// # Errors
    ///
    /// What the kernel says.
    pub fn is_on(&self) -> Result<bool, DamonError> {
        Ok(self.root.read(&self.path("state"))? == "on")
    }

    /// The pid of the kdamond's thread. `None` if it does not run.
    ///
    /// # Errors
    ///
    /// What the kernel says.
    pub fn pid(&self) -> Result<Option<u32>, DamonError> {
        let pid: i32 = self.root.number(&self.path("pid"))?;
        Ok(u32::try_from(pid).ok().filter(|&pid| pid != 0))
    }

    /// Gives the kdamond a command and waits until it is done. EBUSY is retried for the root's
    /// patience. What waiting cannot cure is an error at once: the kdamond runs already, or a
    /// module is in the way.
    ///
    /// A walk ([`Command::UpdateTriedRegions`], [`Command::UpdateTriedBytes`]) holds DAMON's one
    /// lock for up to the longest apply interval of the schemes. Until then no other command
    /// reaches any kdamond.
    ///
    /// # Errors
    ///
    /// What the kernel says, with the known reasons for that. See [`DamonError::kind`].
    pub fn command(&self, command: Command) -> Result<(), DamonError> {
        let path = self.path("state");
        let start = Instant::now();
        let mut pause = Duration::from_millis(1);
        loop {
            let Err(said) = self.root.write_once(&path, command.name()) else { return Ok(()) };
            let busy = said.raw_os_error() == Some(libc::EBUSY);
            if busy && start.elapsed() < self.root.patience() && !self.is_for_good(command) {
                std::thread::sleep(pause);
                pause = (pause * 2).min(Duration::from_millis(50));
                continue;
            }
            return Err(self.explain(command, said));
        }
    }

    /// Whether EBUSY will not pass by waiting.
    fn is_for_good(&self, command: Command) -> bool {
        command == Command::On
            && (self.is_on().unwrap_or(false) || module::running(&self.root).is_some())
    }

    /// Starts the kdamond, and returns the pid of its thread.
    ///
    /// # Errors
    ///
    /// As [`Self::command`], and if the kdamond ended at once.
    pub fn on(&self) -> Result<u32, DamonError> {
        self.command(Command::On)?;
        self.pid()?.ok_or_else(|| self.died("start"))
    }

    /// Stops the kdamond. Does nothing if it does not run.
    ///
    /// # Errors
    ///
    /// As [`Self::command`].
    pub fn off(&self) -> Result<(), DamonError> {
        if !self.exists() || !self.is_on()? {
            return Ok(());
        }
        match self.command(Command::Off) {
            // It ended by itself in the meantime.
            Err(err) if err.kind() == DamonKind::NotRunning => Ok(()),
            done => done,
        }
    }
}
