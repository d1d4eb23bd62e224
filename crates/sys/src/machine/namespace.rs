//! Mount namespaces (`unshare(2)`).

use std::io;

/// Gives the calling thread a mount namespace of its own, a copy of the one that it is in. Needs
/// `CAP_SYS_ADMIN`. Other threads stay where they are; processes that this thread starts are in the
/// new one.
///
/// Mounts still spread between both namespaces until the caller makes them private.
///
/// # Errors
///
/// What the kernel says.
pub fn own_mounts() -> io::Result<()> {
    // SAFETY: a thread without a shared mount namespace, root and working directory holds no
    // invariant of Rust's: paths of this thread are only resolved elsewhere from now on.
    match unsafe { libc::unshare(libc::CLONE_NEWNS) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
