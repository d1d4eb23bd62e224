//! Why something cannot be a target.

use std::fmt;
use std::io;

use super::memory::MemoryError;

/// Why something cannot be a target. The text says what was tried, why it failed, and what to do.
#[derive(Debug)]
pub enum TargetError {
    /// No process has this pid (any more).
    NoSuchPid {
        /// The pid.
        pid: u32,
    },
    /// The number is that of a thread.
    IsThread {
        /// The number given.
        pid: u32,
        /// The process that the thread belongs to.
        process: u32,
    },
    /// The kernel does not let us look at it.
    Permission {
        /// The pid.
        pid: u32,
        /// Which of its files was refused.
        file: &'static str,
        /// What the kernel said.
        err: io::Error,
    },
    /// It has exited and waits for its parent; nothing is mapped any more.
    Zombie {
        /// The pid.
        pid: u32,
        /// Its parent.
        parent: u32,
    },
    /// It is a thread of the kernel, without memory of its own.
    KernelThread {
        /// The pid.
        pid: u32,
        /// Its name.
        name: String,
    },
    /// It is this very process.
    Myself {
        /// The pid.
        pid: u32,
    },
    /// The command could not be run.
    SpawnFailed {
        /// The command.
        command: String,
        /// What the kernel said.
        err: io::Error,
    },
    /// The physical memory cannot be one.
    Memory(MemoryError),
    /// Something else went wrong.
    Io {
        /// The pid.
        pid: u32,
        /// Which of its files.
        file: &'static str,
        /// What the kernel said.
        err: io::Error,
    },
}

impl TargetError {
    /// The exit code that a program should end with for it: 5 target gone, 4 permission, 2 usage,
    /// 1 unexpected; for a command that cannot be run what a shell says: 127 not found, 126 else.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::NoSuchPid { .. } | Self::Zombie { .. } => 5,
            Self::Permission { .. } => 4,
            Self::IsThread { .. } | Self::KernelThread { .. } | Self::Myself { .. } => 2,
            Self::SpawnFailed { err, .. } if err.kind() == io::ErrorKind::NotFound => 127,
            Self::SpawnFailed { .. } => 126,
            Self::Memory(err) => err.exit_code(),
            Self::Io { .. } => 1,
        }
    }

    fn why_and_hint(&self) -> (String, &'static str) {
        match self {
            Self::NoSuchPid { .. } => (
                "no process has this pid; it may have just exited".into(),
                "`ps -e` lists the processes that there are",
            ),
            Self::IsThread { process, .. } => (
                format!("this is a thread of process {process}"),
                "give the pid of the process; all of its threads share its memory",
            ),
            Self::Permission { .. } => (
                "the process belongs to another user, or is protected from tracing".into(),
                "run as that user or as root, or add the capability CAP_SYS_PTRACE (for another \
                 user's files also CAP_DAC_READ_SEARCH)",
            ),
            Self::Zombie { parent, .. } => (
                format!("it has exited and waits for its parent {parent} to notice"),
                "give a process that runs",
            ),
            Self::KernelThread { name, .. } => (
                format!("`{name}` is a thread of the kernel and has no memory of its own"),
                "give a process that runs a program",
            ),
            Self::Myself { .. } => (
                "a monitor that looks at itself would mostly see its own looking".into(),
                "give another pid",
            ),
            Self::SpawnFailed { err, .. } => match err.kind() {
                io::ErrorKind::NotFound => (
                    "there is no such file, or none of that name in the PATH".into(),
                    "check the spelling; a script's interpreter (`#!` line) has to exist, too",
                ),
                io::ErrorKind::PermissionDenied => (
                    "the file is not executable, or a directory on the way is closed".into(),
                    "`ls -l` shows the rights; `chmod +x` adds the missing one",
                ),
                _ => (
                    "the kernel did not accept the program".into(),
                    "try the same command without isotherm",
                ),
            },
            Self::Memory(err) => (err.to_string(), ""),
            Self::Io { err, .. } if is_full(err) => (
                "every target needs a few open files, and there may be no more".into(),
                "raise the limit (`ulimit -n`), or do not follow children",
            ),
            Self::Io { .. } => {
                ("the kernel gave an answer that was not expected".into(), "try again")
            }
        }
    }
}

/// Whether we, or the machine, have as many files open as may be.
fn is_full(err: &io::Error) -> bool {
    use rustix::io::Errno;
    [Errno::MFILE, Errno::NFILE].iter().any(|e| err.raw_os_error() == Some(e.raw_os_error()))
}

impl fmt::Display for TargetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // It has the whole text itself.
            Self::Memory(err) => return err.fmt(f),
            Self::NoSuchPid { pid }
            | Self::IsThread { pid, .. }
            | Self::Zombie { pid, .. }
            | Self::KernelThread { pid, .. }
            | Self::Myself { pid } => {
                writeln!(f, "process {pid} cannot be a target")?;
                writeln!(f, "  tried: look at process {pid}")?;
            }
            Self::Permission { pid, file, err } | Self::Io { pid, file, err } => {
                writeln!(f, "process {pid} cannot be a target")?;
                writeln!(f, "  tried: open /proc/{pid}/{file}: {err}")?;
            }
            Self::SpawnFailed { command, err } => {
                writeln!(f, "the command cannot be run")?;
                writeln!(f, "  tried: run `{command}`: {err}")?;
            }
        }
        let (why, hint) = self.why_and_hint();
        writeln!(f, "  why:   {why}")?;
        write!(f, "  hint:  {hint}")
    }
}

impl std::error::Error for TargetError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Permission { err, .. } | Self::Io { err, .. } | Self::SpawnFailed { err, .. } => {
                Some(err)
            }
            Self::Memory(err) => Some(err),
            _ => None,
        }
    }
}
