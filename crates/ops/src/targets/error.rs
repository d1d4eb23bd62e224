//! Why something cannot be a target.

use std::io;

use isotherm_host::error::{Class, Error, Kind};
use isotherm_host::proc::{is_denied, is_gone};
use isotherm_pages::tables::SETCAP;

use super::memory::MemoryKind;

/// Why something cannot be a target. The text says what was tried, why it failed, and what to do.
pub type TargetError = Error<TargetKind>;

/// The kind of a [`TargetError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum TargetKind {
    /// No process has this pid (any more).
    NoSuchPid,
    /// The number is that of a thread.
    IsThread,
    /// The kernel does not let us look at it.
    Permission,
    /// It has exited and waits for its parent; nothing is mapped any more.
    Zombie,
    /// It is a thread of the kernel, without memory of its own.
    KernelThread,
    /// It is this very process.
    Myself,
    /// There is no such command.
    NoSuchCommand,
    /// The command could not be run.
    SpawnFailed,
    /// The physical memory cannot be one.
    Memory(MemoryKind),
    /// Something else went wrong.
    Io,
}

impl Kind for TargetKind {
    fn class(self) -> Class {
        match self {
            Self::NoSuchPid | Self::Zombie => Class::Gone,
            Self::Permission => Class::Permission,
            Self::IsThread | Self::KernelThread | Self::Myself => Class::Usage,
            Self::Memory(kind) => kind.class(),
            Self::NoSuchCommand | Self::SpawnFailed | Self::Io => Class::Unexpected,
        }
    }

    /// For a command that cannot be run what a shell says: 127 not found, 126 else.
    fn exit_code(self) -> u8 {
        match self {
            Self::NoSuchCommand => 127,
            Self::SpawnFailed => 126,
            _ => self.class().exit_code(),
        }
    }
}

fn of(pid: u32, kind: TargetKind, why: impl Into<String>, hint: &str) -> TargetError {
    let what = format!("process {pid} cannot be a target");
    Error::new(kind, what, format!("look at process {pid}"), why, hint)
}

/// No process has this pid (any more).
pub(super) fn no_such_pid(pid: u32) -> TargetError {
    let why = "no process has this pid; it may have just exited";
    of(pid, TargetKind::NoSuchPid, why, "`ps -e` lists the processes that there are")
}

/// The number is that of a thread of `process`.
pub(super) fn is_thread(pid: u32, process: u32) -> TargetError {
    let why = format!("this is a thread of process {process}");
    let hint = "give the pid of the process; all of its threads share its memory";
    of(pid, TargetKind::IsThread, why, hint)
}

/// It has exited and waits for its parent.
pub(super) fn zombie(pid: u32, parent: u32) -> TargetError {
    let why = format!("it has exited and waits for its parent {parent} to notice");
    of(pid, TargetKind::Zombie, why, "give a process that runs")
}

/// It is a thread of the kernel.
pub(super) fn kernel_thread(pid: u32, name: &str) -> TargetError {
    let why = format!("`{name}` is a thread of the kernel and has no memory of its own");
    of(pid, TargetKind::KernelThread, why, "give a process that runs a program")
}

/// It is this very process.
pub(super) fn myself(pid: u32) -> TargetError {
    let why = "a monitor that looks at itself would mostly see its own looking";
    of(pid, TargetKind::Myself, why, "give another pid")
}

/// Sorts what the kernel said about one of a process's files.
pub(super) fn io(pid: u32, file: &str, said: io::Error) -> TargetError {
    let (kind, why, hint) = if is_gone(&said) {
        return no_such_pid(pid);
    } else if is_denied(&said) {
        (
            TargetKind::Permission,
            "the process belongs to another user, or is protected from tracing",
            format!(
                "run as that user or as root, or add the capability CAP_SYS_PTRACE (for another \
                 user's files also CAP_DAC_READ_SEARCH): sudo {SETCAP} FILE"
            ),
        )
    } else {
        (TargetKind::Io, "the kernel gave an answer that was not expected", "try again".into())
    };
    let what = format!("process {pid} cannot be a target");
    Error::new(kind, what, format!("open /proc/{pid}/{file}"), why, hint).with(said)
}

/// The command could not be run.
pub(super) fn not_run(command: &str, said: io::Error) -> TargetError {
    let (kind, why, hint) = match said.kind() {
        io::ErrorKind::NotFound => (
            TargetKind::NoSuchCommand,
            "there is no such file, or none of that name in the PATH",
            "check the spelling; a script's interpreter (`#!` line) has to exist, too",
        ),
        io::ErrorKind::PermissionDenied => (
            TargetKind::SpawnFailed,
            "the file is not executable, or a directory on the way is closed",
            "`ls -l` shows the rights; `chmod +x` adds the missing one",
        ),
        _ => (
            TargetKind::SpawnFailed,
            "the kernel did not accept the program",
            "try the same command without isotherm",
        ),
    };
    let tried = format!("run `{command}`");
    Error::new(kind, "the command cannot be run", tried, why, hint).with(said)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_denied_process_is_told_with_the_command_that_helps() {
        let text = io(7, "maps", io::Error::from(io::ErrorKind::PermissionDenied)).to_string();
        assert!(text.contains("CAP_SYS_PTRACE") && text.contains("sudo setcap cap_bpf,"), "{text}");
    }
}
