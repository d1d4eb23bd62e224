//! `swapon(2)` and `swapoff(2)`.

use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Starts to swap to a device or file that holds a swap header. Needs `CAP_SYS_ADMIN`.
///
/// # Errors
///
/// What the kernel says.
pub fn swap_on(path: &Path) -> io::Result<()> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: the string ends with a zero byte and lives across the call, which only reads it.
    match unsafe { libc::swapon(path.as_ptr(), 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Stops swapping there, after bringing everything back; a signal can interrupt it (`EINTR`).
///
/// # Errors
///
/// What the kernel says.
pub fn swap_off(path: &Path) -> io::Result<()> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: the string ends with a zero byte and lives across the call, which only reads it.
    match unsafe { libc::swapoff(path.as_ptr()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
