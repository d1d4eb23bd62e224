//! `move_pages(2)`: on which node pages of another process are, and moving them.

use std::io;

/// `MPOL_MF_MOVE`: pages that only this process maps. `MPOL_MF_MOVE_ALL`: all.
const MOVE: i32 = 1 << 1;
const MOVE_ALL: i32 = 1 << 2;

/// A page's status that the kernel did not write.
pub const UNKNOWN: i32 = -libc::ECANCELED;

/// Fills `status` with each page's node, or a negative errno (`ENOENT`: no page there; `EFAULT`: no
/// mapping, or the page of zeros).
///
/// The kernel takes a pid and not a pidfd, so the caller must check that the process is still the
/// same.
///
/// # Errors
///
/// What the kernel says.
pub fn query(pid: u32, pages: &[u64], status: &mut Vec<i32>) -> io::Result<()> {
    call(pid, pages, None, status, 0)
}

/// Moves each page to the node at its place in `nodes`. With `shared` also moves pages that other
/// processes map, which takes `CAP_SYS_NICE`. Fills `status` as [`query`] does, with [`UNKNOWN`]
/// for pages that the kernel did not reach.
///
/// # Errors
///
/// What the kernel says.
///
/// # Panics
///
/// If there are not as many nodes as pages.
pub fn move_to(
    pid: u32,
    pages: &[u64],
    nodes: &[i32],
    shared: bool,
    status: &mut Vec<i32>,
) -> io::Result<()> {
    assert_eq!(pages.len(), nodes.len());
    let flags = if shared { MOVE_ALL } else { MOVE };
    call(pid, pages, Some(nodes), status, flags)
}

fn call(
    pid: u32,
    pages: &[u64],
    nodes: Option<&[i32]>,
    status: &mut Vec<i32>,
    flags: i32,
) -> io::Result<()> {
    status.clear();
    status.resize(pages.len(), UNKNOWN);
    let nodes = nodes.map_or(std::ptr::null(), <[i32]>::as_ptr);
    // SAFETY: the arrays live across the call and have one entry per page; an address takes the
    // same eight bytes as a pointer; what is moved belongs to another process and keeps its
    // content.
    let done = unsafe {
        libc::syscall(
            libc::SYS_move_pages,
            pid,
            pages.len(),
            pages.as_ptr(),
            nodes,
            status.as_mut_ptr(),
            flags,
        )
    };
    // A positive result is the number of pages that were not moved. Their status says why.
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::child::touch::TestChild;

    #[test]
    fn a_node_that_is_not_there_is_refused() {
        let child = TestChild::fork().unwrap();
        let page = child.pages().start;
        let mut status = Vec::new();
        if let Err(e) = query(child.pid(), &[page, 4096], &mut status) {
            // A kernel without NUMA has no such call.
            assert_eq!(e.raw_os_error(), Some(libc::ENOSYS), "{e}");
            return;
        }
        assert!(status[0] >= 0 && status[1] == -libc::EFAULT, "{status:?}");
        let here = status[0];
        move_to(child.pid(), &[page], &[here], false, &mut status).unwrap();
        assert_eq!(status, [here]);
        let e = move_to(child.pid(), &[page], &[1000], false, &mut status).unwrap_err();
        assert_eq!(e.raw_os_error(), Some(libc::ENODEV), "{e}");
    }
}
