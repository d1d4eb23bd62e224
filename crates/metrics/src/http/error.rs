//! Why metrics cannot be served.

use std::io;

use isotherm_host::error::{Class, Error, Kind};

use super::Address;

/// Why metrics cannot be served.
pub type ServeError = Error<ServeKind>;

/// The kind of a [`ServeError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ServeKind {
    /// The text is no address.
    NoAddress,
    /// Other machines could reach the address.
    NotLoopback,
    /// Somebody else listens there.
    InUse,
    /// We may not listen there.
    Permission,
    /// Something else went wrong.
    Io,
}

impl Kind for ServeKind {
    fn class(self) -> Class {
        match self {
            Self::NoAddress | Self::NotLoopback => Class::Usage,
            Self::InUse => Class::Busy,
            Self::Permission => Class::Permission,
            Self::Io => Class::Unexpected,
        }
    }
}

const WHAT: &str = "metrics cannot be served";

pub(super) fn no_address(text: &str, why: &str) -> ServeError {
    let hint = "127.0.0.1:9464, [::1]:9464, or /run/isotherm/metrics.sock";
    Error::new(ServeKind::NoAddress, WHAT, format!("listen on `{text}`"), why, hint)
}

pub(super) fn not_loopback(text: &str) -> ServeError {
    let why = "other machines could reach it, and metrics tell everybody what runs here";
    let hint = "127.0.0.1 and a proxy with authentication in front; or --metrics-any-address";
    Error::new(ServeKind::NotLoopback, WHAT, format!("listen on `{text}`"), why, hint)
}

/// Sorts what the kernel said.
pub(super) fn not_bound(address: &Address, said: io::Error) -> ServeError {
    let (kind, why, hint) = match said.kind() {
        io::ErrorKind::AddrInUse => (
            ServeKind::InUse,
            "another program listens there",
            "`ss -lp` tells which; give another port or path",
        ),
        io::ErrorKind::PermissionDenied => (
            ServeKind::Permission,
            "ports below 1024 and most directories are for root",
            "a port from 1024 on, or a path in a directory of your own",
        ),
        io::ErrorKind::NotFound => {
            (ServeKind::Io, "the directory of the socket does not exist", "make it first")
        }
        io::ErrorKind::AddrNotAvailable => {
            (ServeKind::Io, "this machine has no such address", "`ip addr` lists those it has")
        }
        _ => (ServeKind::Io, "the kernel gave an answer that was not expected", ""),
    };
    Error::new(kind, WHAT, format!("listen on {address}"), why, hint).with(said)
}

pub(super) fn no_thread(address: &Address, said: io::Error) -> ServeError {
    let why = "the machine or its limits allow no more threads";
    Error::new(ServeKind::Io, WHAT, format!("start a thread for {address}"), why, "").with(said)
}
