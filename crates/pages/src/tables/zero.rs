//! The zero page: a frame of the kernel's own that is mapped wherever anonymous memory was read and
//! never written.
//!
//! It is no memory of the process, and no call takes its accessed bits away: `MADV_COLD` and
//! `clear_refs` leave it out. So it must be known by its frame.

use std::hint::black_box;
use std::io;

use super::entry::Entry;
use super::program::kernel::Kernel;

/// Fresh memory of this process, in bytes: more than an allocator ever keeps (32 MiB), so that it
/// comes from the kernel. Only two pages of it are ever mapped.
const FRESH: usize = 65 << 20;
const PAGE: usize = 4096;

/// The address of the zero page's frame, if it can be found. `pgd`: top page table of this process.
pub(super) fn find(kernel: &mut Kernel, pgd: u64) -> io::Result<Option<u64>> {
    let fresh = black_box(vec![0_u8; FRESH]);
    // No address space has a slot yet.
    kernel.set_space(0, pgd);
    let mut found = None;
    // A huge page of zeros may be mapped where one fits, so both ends are tried.
    for at in [2 * PAGE, FRESH - 3 * PAGE] {
        let pages = [at, at + PAGE].map(|at| {
            black_box(fresh[at]);
            std::ptr::from_ref(&fresh[at]) as u64
        });
        let entries = kernel.walk(pages.iter().map(|addr| Kernel::key(0, *addr)))?;
        let [first, second] = [0, 1].map(|nr| Entry(entries.get(nr).copied().unwrap_or(0)));
        // Two pages of one frame: nothing else is mapped twice there.
        let is_page = first.is_present() && first.leaf_shift() == 12;
        if is_page && first.frame() == second.frame() {
            found = Some(first.frame());
        }
    }
    kernel.set_space(0, 0);
    Ok(found)
}
