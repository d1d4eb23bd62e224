//! Makes the kernel put pages on their LRU lists that it still holds back, per CPU, to do it in
//! batches.
//!
//! No call does just that; `move_pages(2)` does it first of all, on all CPUs, whatever is to be
//! moved. So one page of ours is "moved" to the node where it is, which moves nothing.

use std::ffi::c_void;
use std::io;

/// Moves pages that only this process maps (`MPOL_MF_MOVE`).
const MOVE: libc::c_int = 1 << 1;

/// Empties the batches of all CPUs. Takes some 10 µs and wakes a kernel thread on CPUs that have
/// any.
///
/// # Errors
///
/// What the kernel says.
pub fn drain_lru_batches() -> io::Result<()> {
    let page = 0_u8;
    let pages: [*const c_void; 1] = [std::ptr::from_ref(&page).cast()];
    let node = move_own_page(&pages, None)?;
    move_own_page(&pages, Some(node)).map(|_same_node| ())
}

/// Moves the page to a node, or only asks where it is.
fn move_own_page(pages: &[*const c_void; 1], to: Option<i32>) -> io::Result<i32> {
    let nodes = to.map(|node| [node]);
    let nodes = nodes.as_ref().map_or(std::ptr::null(), |nodes| nodes.as_ptr());
    let mut status = [0_i32];
    // SAFETY: the three arrays have one element, as the count says, and live across the call; pid 0
    // is this process, and moving one of its pages changes no content.
    let done = unsafe {
        libc::syscall(
            libc::SYS_move_pages,
            0,
            1_usize,
            pages.as_ptr(),
            nodes,
            status.as_mut_ptr(),
            MOVE,
        )
    };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(status[0]) }
}

#[cfg(test)]
mod tests {
    #[test]
    fn drains_where_the_kernel_can_move_pages() {
        let drained = super::drain_lru_batches();
        let absent = drained.as_ref().is_err_and(|e| e.raw_os_error() == Some(libc::ENOSYS));
        assert!(drained.is_ok() || absent, "{drained:?}");
    }
}
