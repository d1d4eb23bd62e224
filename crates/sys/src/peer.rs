//! The groups of the process at the other end of a socket.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// The supplementary groups that the peer had when it connected (`SO_PEERGROUPS`, Linux 4.13;
/// `sk_getsockopt()` in `net/core/sock.c`). What its process became since then does not count, and
/// another process that has got its pid does not, either.
///
/// # Errors
///
/// The kernel's error, for a socket that is not of the Unix kind.
pub fn groups(socket: BorrowedFd<'_>) -> io::Result<Vec<u32>> {
    let mut groups = vec![0_u32; 32];
    loop {
        let room = groups.len() * size_of::<u32>();
        let mut len = libc::socklen_t::try_from(room).unwrap_or(libc::socklen_t::MAX);
        // SAFETY: the buffer is writable and holds `len` bytes; the kernel writes whole gid_t (u32)
        // and the used length, and nothing if there is not enough room.
        let done = unsafe {
            libc::getsockopt(
                socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_PEERGROUPS,
                groups.as_mut_ptr().cast(),
                &raw mut len,
            )
        };
        if done == 0 {
            groups.truncate(len as usize / size_of::<u32>());
            return Ok(groups);
        }
        let err = io::Error::last_os_error();
        // The kernel says how much room it needs. A peer has at most 65536 groups.
        let needed = len as usize / size_of::<u32>();
        if err.raw_os_error() != Some(libc::ERANGE) || needed <= groups.len() {
            return Err(err);
        }
        groups = vec![0; needed];
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn a_peer_has_the_groups_of_its_process() {
        let (one, _other) = UnixStream::pair().unwrap();
        let mut groups = groups(one.as_fd()).unwrap();
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("Groups:")).unwrap();
        let mut own: Vec<u32> = line.split_whitespace().map(|g| g.parse().unwrap()).collect();
        own.sort_unstable();
        groups.sort_unstable();
        assert_eq!(groups, own);
    }
}
