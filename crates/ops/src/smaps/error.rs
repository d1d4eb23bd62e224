//! Why a process cannot be watched with `smaps`.

use std::fmt;
use std::io;

/// Why a process cannot be watched with `smaps`.
#[derive(Debug)]
pub enum SmapsError {
    /// Clearing would stop it for too long.
    TooLarge {
        /// The pid.
        pid: u32,
        /// Its resident memory, in bytes.
        rss_bytes: u64,
        /// The limit, in bytes.
        max_bytes: u64,
    },
    /// One of its files cannot be used.
    Io {
        /// The pid.
        pid: u32,
        /// The file.
        file: &'static str,
        /// What the kernel said.
        err: io::Error,
    },
}

impl SmapsError {
    pub(super) const fn io(pid: u32, file: &'static str, err: io::Error) -> Self {
        Self::Io { pid, file, err }
    }

    /// Whether the kernel refused for lack of permission.
    #[must_use]
    pub fn is_denied(&self) -> bool {
        matches!(self, Self::Io { err, .. } if isotherm_host::proc::is_denied(err))
    }

    /// Whether the process is gone.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        matches!(self, Self::Io { err, .. } if isotherm_host::proc::is_gone(err))
    }
}

impl fmt::Display for SmapsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge { pid, rss_bytes, max_bytes } => {
                let mib = |bytes: &u64| bytes >> 20;
                writeln!(f, "process {pid} is too large for operations set `smaps`")?;
                writeln!(
                    f,
                    "  tried: check the size: {} MiB resident, limit {} MiB",
                    mib(rss_bytes),
                    mib(max_bytes)
                )?;
                writeln!(
                    f,
                    "  why:   this set clears accessed bits for the whole process at once, which \
                     stops its mmap and page faults for about 10 ms per GiB every time"
                )?;
                write!(
                    f,
                    "  hint:  use operations set `pagewalk` (`isotherm doctor` says what it needs), \
                     or force it"
                )
            }
            Self::Io { pid, file, err } => {
                writeln!(f, "process {pid} cannot be watched with operations set `smaps`")?;
                writeln!(f, "  tried: open /proc/{pid}/{file}: {err}")?;
                let (why, hint) = if self.is_gone() {
                    ("the process is gone", "`ps -e` lists the processes that there are")
                } else if self.is_denied() {
                    (
                        "the process belongs to another user, or is protected from tracing",
                        "run as that user or as root, or add the capabilities CAP_SYS_PTRACE and \
                         CAP_DAC_OVERRIDE",
                    )
                } else if *file == "clear_refs" || *file == "smaps" {
                    (
                        "the kernel may be built without CONFIG_PROC_PAGE_MONITOR",
                        "`isotherm doctor` lists the sets that this machine supports",
                    )
                } else {
                    ("the kernel gave an answer that was not expected", "try again")
                };
                writeln!(f, "  why:   {why}")?;
                write!(f, "  hint:  {hint}")
            }
        }
    }
}

impl std::error::Error for SmapsError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::TooLarge { .. } => None,
            Self::Io { err, .. } => Some(err),
        }
    }
}
