//! The heap of this process (`mallopt(3)`).

/// Makes large blocks go back to the kernel as soon as they are freed. glibc keeps them otherwise
/// once some were freed, in a heap per thread: a program whose threads each read a file of 5 MiB
/// would keep these for good. Other C libraries are left as they are.
pub fn give_back_large_blocks() {
    #[cfg(target_env = "gnu")]
    {
        /// Bytes from which on a block is a mapping of its own. To set it stops glibc from raising
        /// it, which is what matters.
        const LARGE: libc::c_int = 256 << 10;
        // SAFETY: changes a number of the allocator, under its own lock. Blocks that exist stay.
        // A refusal leaves everything as it was.
        unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE) };
    }
}
