//! The value of a BPF array map, mapped into this process as a slice of words.

use std::ffi::c_void;
use std::io;
use std::os::fd::BorrowedFd;

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// A mapped map value. The mapping keeps the map alive, with or without its descriptor.
///
/// The kernel writes here only while a program of ours runs, which is inside a system call made
/// through a `&mut` borrow of the owner, so no Rust reference is alive then.
#[derive(Debug)]
pub struct MappedWords {
    ptr: *mut u64,
    nr_words: usize,
}

// SAFETY: the mapping belongs to the process, not to a thread, and is reached through `&self` and
// `&mut self` only, like memory owned by a `Box`.
unsafe impl Send for MappedWords {}

impl MappedWords {
    /// Maps the first `nr_words` words of the value of `fd`, a map created with `map_create`.
    ///
    /// # Errors
    ///
    /// What the kernel says.
    pub fn new(fd: BorrowedFd<'_>, nr_words: usize) -> io::Result<Self> {
        let prot = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses the address, so that no memory of ours is replaced.
        let ptr =
            unsafe { mmap(std::ptr::null_mut(), nr_words * 8, prot, MapFlags::SHARED, fd, 0) }?;
        Ok(Self { ptr: ptr.cast(), nr_words })
    }

    /// All words.
    pub fn words(&self) -> &[u64] {
        // SAFETY: `ptr` is a live, page-aligned mapping of `nr_words` words, always initialised
        // (the kernel zeroes a new map); see the type's comment for who writes when.
        unsafe { std::slice::from_raw_parts(self.ptr, self.nr_words) }
    }

    /// All words, to write.
    pub fn words_mut(&mut self) -> &mut [u64] {
        // SAFETY: as above, and `&mut self` makes it the only reference.
        unsafe { std::slice::from_raw_parts_mut(self.ptr, self.nr_words) }
    }
}

impl Drop for MappedWords {
    fn drop(&mut self) {
        // SAFETY: `new` mapped exactly this, and no slice can outlive `self`.
        let unmapped = unsafe { munmap(self.ptr.cast::<c_void>(), self.nr_words * 8) };
        debug_assert!(unmapped.is_ok(), "unmapping our own mapping failed");
    }
}
