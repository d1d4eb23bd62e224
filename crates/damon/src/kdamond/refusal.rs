//! Why the kernel refused a command, in words that say what to do.

use std::io;

use super::{Command, Kdamond};
use crate::config::check::problems;
use crate::error::{self, DamonError, DamonKind};
use crate::sysfs::module;

impl Kdamond {
    /// The error for a kdamond that ended by itself.
    #[must_use]
    pub fn died(&self, tried: &str) -> DamonError {
        error::cannot(
            DamonKind::NotRunning,
            format!("{tried} kdamond {}", self.index),
            "it ended by itself: all of its targets are gone, or a commit failed half way",
            "",
        )
    }

    /// What the kernel said to `command`.
    pub(super) fn explain(&self, command: Command, said: io::Error) -> DamonError {
        let tried = format!("write `{}` to {}", command.name(), self.path("state").display());
        if !self.exists() {
            return self.removed(tried).with(said);
        }
        let on = self.is_on().unwrap_or(false);
        let error = |kind, why: &str, hint: &str| error::cannot(kind, &*tried, why, hint);
        let error = match said.raw_os_error() {
            Some(libc::EBUSY) if command == Command::On && on => {
                error(DamonKind::Running, "it runs already", "turn it off first, or commit to it")
            }
            Some(libc::EBUSY) if command == Command::On => match module::running(&self.root) {
                Some(module) => error(
                    DamonKind::ModuleInTheWay,
                    &format!("{} is enabled, and it runs alone", module.title()),
                    &module.how_to_stop(),
                ),
                None => return error::io(tried, said),
            },
            Some(libc::EINVAL | libc::EPERM | libc::ECANCELED) if command != Command::On && !on => {
                error(
                    DamonKind::NotRunning,
                    "it does not run: it was never turned on, or ended by itself",
                    "turn it on first",
                )
            }
            Some(libc::ECANCELED) if command.walks() => error(
                DamonKind::NothingToWalk,
                "no scheme was applied: there is none, or the watermarks stopped all, or it is paused",
                "",
            ),
            Some(libc::EINVAL | libc::ENOMEM)
                if matches!(command, Command::On | Command::Commit | Command::CommitGoals) =>
            {
                let reasons = reasons(self, said.raw_os_error());
                error(
                    DamonKind::Refused,
                    &format!("the kernel refuses what the files say: {reasons}"),
                    "",
                )
            }
            Some(libc::EINVAL) => error(
                DamonKind::OlderKernel,
                &format!(
                    "this kernel ({}) is older than {}, which brought this command",
                    self.root.release(),
                    command.since()
                ),
                "",
            ),
            _ => return error::io(tried, said),
        };
        error.with(said)
    }

    /// The error for a directory that somebody removed under us.
    pub(crate) fn removed(&self, tried: String) -> DamonError {
        error::cannot(
            DamonKind::NotOurs,
            tried,
            format!(
                "{} is gone: another program wrote nr_kdamonds, which removes all kdamonds",
                self.dir().display()
            ),
            "let only one program drive DAMON at a time",
        )
    }
}

/// The reasons that can be seen in the files for `errno`, as one phrase.
fn reasons(kdamond: &Kdamond, errno: Option<i32>) -> String {
    let found = match kdamond.read() {
        Ok(Some(config)) => problems(&config, |pid| {
            let mut buf = Vec::new();
            kdamond.root().proc().stat(pid, &mut buf).is_ok()
        }),
        Ok(None) => vec!["there is no context".into()],
        Err(_) => Vec::new(),
    };
    if !found.is_empty() {
        return found.join("; ");
    }
    match errno {
        // The kernel reports every error in building a scheme with this one (R§9.4.1).
        Some(libc::ENOMEM) => {
            "a scheme could not be built, such as for a cgroup that is not there, or there was no \
             memory for it"
                .into()
        }
        _ => "for a reason that cannot be seen in the files; the kernel's log may have it".into(),
    }
}
