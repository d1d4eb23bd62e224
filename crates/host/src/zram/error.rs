//! Why there is no zram swap.

use std::fmt;
use std::io;

/// Why a zram swap device could not be set up or taken down.
#[derive(Debug)]
#[non_exhaustive]
pub enum ZramError {
    /// Other swap is active: what is paged out could go there, and nothing would tell.
    OtherSwap {
        /// Its devices and files.
        names: Vec<String>,
    },
    /// Another program has held the lock for the whole waiting time.
    Locked {
        /// How long was waited, in seconds.
        waited_s: u64,
    },
    /// The kernel has no zram, or no free device of it.
    NotSupported {
        /// What was tried.
        tried: String,
        /// What the kernel said, if it was asked.
        err: Option<io::Error>,
    },
    /// That needs root (`CAP_SYS_ADMIN`).
    Permission {
        /// What was tried.
        tried: String,
        /// What the kernel said.
        err: io::Error,
    },
    /// Anything else that the kernel said.
    Io {
        /// What was tried.
        tried: String,
        /// What the kernel said.
        err: io::Error,
    },
}

impl ZramError {
    pub(super) fn io(tried: impl Into<String>, err: io::Error) -> Self {
        let tried = tried.into();
        match err.kind() {
            io::ErrorKind::PermissionDenied => Self::Permission { tried, err },
            _ => Self::Io { tried, err },
        }
    }

    /// Whether the machine, not the caller, is the reason: a test may skip then.
    #[must_use]
    pub const fn is_missing(&self) -> bool {
        !matches!(self, Self::Io { .. })
    }

    fn lines(&self) -> (String, String, &'static str) {
        let (tried, err) = match self {
            Self::OtherSwap { names } => {
                let why = format!("there is other swap: {}", names.join(", "));
                return ("read /proc/swaps".to_owned(), why, "`swapoff` it, or run elsewhere");
            }
            Self::Locked { waited_s } => {
                let why = format!("another program had zram swap for {waited_s} s");
                return (format!("lock {}", super::LOCK), why, "wait until that one has ended");
            }
            Self::NotSupported { tried, err } => (tried, err.as_ref()),
            Self::Permission { tried, err } | Self::Io { tried, err } => (tried, Some(err)),
        };
        let tried = err.map_or_else(|| tried.clone(), |err| format!("{tried}: {err}"));
        let (why, hint) = match self {
            Self::NotSupported { .. } => (
                "this kernel has no zram, or no device of it is free",
                "`modprobe zram`, or a kernel with CONFIG_ZRAM",
            ),
            Self::Permission { .. } => ("swap devices are for root only", "run as root"),
            _ => ("", ""),
        };
        (tried, why.to_owned(), hint)
    }
}

impl fmt::Display for ZramError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (tried, why, hint) = self.lines();
        write!(f, "no zram swap\n  tried: {tried}")?;
        for (name, text) in [("why:  ", why.as_str()), ("hint: ", hint)] {
            if !text.is_empty() {
                write!(f, "\n  {name} {text}")?;
            }
        }
        Ok(())
    }
}

impl std::error::Error for ZramError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::OtherSwap { .. } | Self::Locked { .. } => None,
            Self::NotSupported { err, .. } => err.as_ref().map(|e| e as _),
            Self::Permission { err, .. } | Self::Io { err, .. } => Some(err),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_what_was_tried_why_and_what_to_do() {
        let expected = expect_test::expect![[r"
            no zram swap
              tried: read /proc/swaps
              why:   there is other swap: /dev/sda2, /swapfile
              hint:  `swapoff` it, or run elsewhere"]];
        let names = vec!["/dev/sda2".to_owned(), "/swapfile".to_owned()];
        expected.assert_eq(&ZramError::OtherSwap { names }.to_string());
        let expected = expect_test::expect![[r"
            no zram swap
              tried: swapon /dev/zram1: Permission denied (os error 13)
              why:   swap devices are for root only
              hint:  run as root"]];
        let denied = ZramError::io("swapon /dev/zram1", io::Error::from_raw_os_error(13));
        expected.assert_eq(&denied.to_string());
    }
}
