//! The directory where all Isotherms of a machine write down what they changed in DAMON's files,
//! and the lock on that directory.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::FlockOperation;

use crate::error::{self, DamonError, DamonKind};
use crate::kdamond::Kdamond;
use crate::owned::note::save_text;
use crate::sysfs::files::patiently;
use crate::sysfs::root::Root;

/// How to claim kdamonds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Where claims are written down. Must not outlive the boot.
    pub run_dir: PathBuf,
    /// How many kdamond directories to make beyond the one asked for, when there is none yet. The
    /// kernel makes no more while a kdamond runs, so these are for other contexts and other
    /// Isotherms.
    pub spare: u32,
    /// Whether kdamonds may be removed that somebody set up and that do not run.
    pub take_idle: bool,
}

impl Default for Settings {
    /// `/run/isotherm/damon`, or a directory below `XDG_RUNTIME_DIR` if that cannot be written; 7
    /// spare directories; idle kdamonds are not removed.
    fn default() -> Self {
        let system = Path::new("/run/isotherm/damon");
        let own = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
        let run_dir = match own {
            Some(dir) if make(system).is_err() => dir.join("isotherm/damon"),
            _ => system.to_owned(),
        };
        Self { run_dir, spare: 7, take_idle: false }
    }
}

fn make(dir: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)
}

/// The directory, locked: no other Isotherm claims or releases anything meanwhile.
#[derive(Debug)]
pub(crate) struct Ledger {
    dir: PathBuf,
    _lock: File,
}

/// That `nr_kdamonds` was changed by us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Raised {
    before: u32,
    set: u32,
}

impl Ledger {
    /// Makes the directory if needed and waits for its lock, as long as for the kernel's lock.
    pub(crate) fn lock(root: &Root, settings: &Settings) -> Result<Self, DamonError> {
        let dir = settings.run_dir.clone();
        let path = dir.join("lock");
        let open = || {
            make(&dir)?;
            OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(&path)
        };
        let file = open().map_err(|said| {
            error::io(format!("write {}", path.display()), said).because(
                "what is done to DAMON is written down there first, to be cleaned up after a crash",
            )
        })?;
        // A killed holder frees the lock at once, so a holder is one that is at work.
        let patience = root.patience().max(Duration::from_secs(10));
        let locked = patiently(patience, || {
            match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Err(rustix::io::Errno::WOULDBLOCK) => {
                    Err(io::Error::from_raw_os_error(libc::EBUSY))
                }
                done => Ok(done?),
            }
        });
        locked.map_err(|said| {
            error::cannot(
                DamonKind::Busy,
                format!("lock {}", path.display()),
                "another Isotherm is setting up or ending a kdamond",
                "try again",
            )
            .with(said)
        })?;
        Ok(Self { dir, _lock: file })
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    fn raised_path(&self) -> PathBuf {
        self.dir.join("nr_kdamonds")
    }

    /// Changes `nr_kdamonds`, which removes all existing directories. Writes down the old number
    /// first.
    pub(crate) fn raise(&self, root: &Root, boot: &str, set: u32) -> Result<(), DamonError> {
        let before = root.nr_kdamonds()?;
        let path = self.raised_path();
        save_text(&path, &format!("{boot} {before} {set}\n"))
            .map_err(|said| error::io(format!("write {}", path.display()), said))?;
        let file = root.kdamonds().join("nr_kdamonds");
        root.write(&file, &set.to_string()).map_err(|said| {
            std::fs::remove_file(&path).ok();
            let tried = format!("write `{set}` to {}", file.display());
            if said.raw_os_error() != Some(libc::EBUSY) {
                return error::io(tried, said);
            }
            error::cannot(
                DamonKind::NotOurs,
                tried,
                "the kernel lets nobody add a kdamond while one runs, and one does",
                "stop it, or have whoever runs it make one directory more",
            )
            .with(said)
        })
    }

    fn raised(&self, boot: &str) -> Option<Raised> {
        let text = std::fs::read_to_string(self.raised_path()).ok()?;
        let mut words = text.split_ascii_whitespace();
        if words.next()? != boot {
            return None;
        }
        Some(Raised { before: words.next()?.parse().ok()?, set: words.next()?.parse().ok()? })
    }

    /// Puts `nr_kdamonds` back to its value before us, if all directories are as the kernel made
    /// them. Otherwise it stays, because what others set up would be lost.
    pub(crate) fn lower(&self, root: &Root, boot: &str) -> Result<(), DamonError> {
        let Some(raised) = self.raised(boot) else { return Ok(()) };
        let now = root.nr_kdamonds()?;
        if now != raised.set {
            // Somebody else has changed it since: not ours to put back.
            std::fs::remove_file(self.raised_path()).ok();
            return Ok(());
        }
        for index in root.indices()? {
            if !Kdamond::new(root, index).is_untouched()? {
                return Ok(());
            }
        }
        let file = root.kdamonds().join("nr_kdamonds");
        match root.write(&file, &raised.before.to_string()) {
            // Somebody has just started one.
            Err(said) if said.raw_os_error() == Some(libc::EBUSY) => Ok(()),
            Err(said) => {
                Err(error::io(format!("write `{}` to {}", raised.before, file.display()), said))
            }
            Ok(()) => {
                std::fs::remove_file(self.raised_path()).ok();
                Ok(())
            }
        }
    }
}
