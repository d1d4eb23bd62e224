//! Why there is no zram swap.

use std::io;

use super::LOCK;
use crate::error::{Class, Error, Kind};

/// Why a zram swap device could not be set up or taken down.
pub type ZramError = Error<ZramKind>;

/// The kind of a [`ZramError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ZramKind {
    /// Other swap is active: what is paged out could go there, and nothing would tell.
    OtherSwap,
    /// Another program has held the lock for the whole waiting time.
    Locked,
    /// The kernel has no zram, or no free device of it.
    NotSupported,
    /// That needs root (`CAP_SYS_ADMIN`).
    Permission,
    /// Anything else that the kernel said.
    Io,
}

impl Kind for ZramKind {
    fn class(self) -> Class {
        match self {
            Self::OtherSwap | Self::Locked => Class::Busy,
            Self::NotSupported => Class::NotSupported,
            Self::Permission => Class::Permission,
            Self::Io => Class::Unexpected,
        }
    }
}

fn error(
    kind: ZramKind,
    tried: impl Into<String>,
    why: impl Into<String>,
    hint: &str,
) -> ZramError {
    Error::new(kind, "no zram swap", tried, why, hint)
}

/// These devices and files are swap already.
pub(super) fn other_swap(names: &[String]) -> ZramError {
    let why = format!("there is other swap: {}", names.join(", "));
    error(ZramKind::OtherSwap, "read /proc/swaps", why, "`swapoff` it, or run elsewhere")
}

/// The lock was held by others for `waited_s` seconds.
pub(super) fn locked(waited_s: u64) -> ZramError {
    let why = format!("another program had zram swap for {waited_s} s");
    error(ZramKind::Locked, format!("lock {LOCK}"), why, "wait until that one has ended")
}

/// What the kernel said to something that every kernel with zram can do.
pub(super) fn not_supported(tried: &str, said: io::Error) -> ZramError {
    let why = "this kernel has no zram, or no device of it is free";
    let hint = "`modprobe zram`, or a kernel with CONFIG_ZRAM";
    error(ZramKind::NotSupported, tried, why, hint).with(said)
}

/// What the kernel said to anything else.
pub(super) fn io(tried: impl Into<String>, said: io::Error) -> ZramError {
    let (kind, why, hint) = match said.kind() {
        io::ErrorKind::PermissionDenied => {
            (ZramKind::Permission, "swap devices are for root only", "run as root")
        }
        _ => (ZramKind::Io, "", ""),
    };
    error(kind, tried, why, hint).with(said)
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
        let names = ["/dev/sda2".to_owned(), "/swapfile".to_owned()];
        expected.assert_eq(&other_swap(&names).to_string());
        let expected = expect_test::expect![[r"
            no zram swap
              tried: swapon /dev/zram1: Permission denied (os error 13)
              why:   swap devices are for root only
              hint:  run as root"]];
        let denied = io("swapon /dev/zram1", io::Error::from_raw_os_error(13));
        expected.assert_eq(&denied.to_string());
    }
}
