//! Memory of the kernel, mapped into this process: the value of a BPF array map as a slice of
//! words, and the description of the kernel's types.

use std::ffi::c_void;
use std::fs::File;
use std::io;
use std::ops::Deref;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::fstatfs;
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

/// Where Linux (>= 5.4 with `CONFIG_DEBUG_INFO_BTF`) shows its own types.
pub const VMLINUX: &str = "/sys/kernel/btf/vmlinux";

/// `SYSFS_MAGIC` of linux/magic.h.
const SYSFS: i64 = 0x6265_6572;

/// The kernel's description of its own types (BTF): 5 MiB that never change.
///
/// Newer kernels map them (6.18 does). To read them takes 1350 system calls, of a page each, and as
/// many page faults for the copy: 10 ms.
#[derive(Debug)]
pub struct KernelTypes(Bytes);

#[derive(Debug)]
enum Bytes {
    Mapped { ptr: *const u8, len: usize },
    Read(Vec<u8>),
}

// SAFETY: the mapping belongs to the process, not to a thread, and is never written.
unsafe impl Send for Bytes {}
// SAFETY: as above: whoever reads it at the same time reads the same.
unsafe impl Sync for Bytes {}

impl KernelTypes {
    /// Maps them, or reads them where the kernel does not map them.
    ///
    /// # Errors
    ///
    /// What the kernel says; `NotFound` if it shows none.
    pub fn open() -> io::Result<Self> {
        let file = File::open(VMLINUX)?;
        // Whatever else is mounted there may change while it is mapped.
        if !fstatfs(&file).is_ok_and(|of| of.f_type == SYSFS) {
            return std::fs::read(VMLINUX).map(Self::from);
        }
        let len = usize::try_from(file.metadata()?.len()).unwrap_or(0);
        // SAFETY: the kernel chooses the address, so that no memory of ours is replaced.
        let mapped = unsafe {
            mmap(std::ptr::null_mut(), len, ProtFlags::READ, MapFlags::PRIVATE, file.as_fd(), 0)
        };
        match mapped {
            Ok(ptr) => Ok(Self(Bytes::Mapped { ptr: ptr.cast_const().cast(), len })),
            Err(_does_not_map) => std::fs::read(VMLINUX).map(Self::from),
        }
    }
}

impl From<Vec<u8>> for KernelTypes {
    fn from(data: Vec<u8>) -> Self {
        Self(Bytes::Read(data))
    }
}

impl Deref for KernelTypes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Bytes::Read(data) => data,
            // SAFETY: `ptr` is a live mapping of `len` bytes, which are the kernel's read-only data
            // and end with it: it checks that no more than that is mapped.
            Bytes::Mapped { ptr, len } => unsafe { std::slice::from_raw_parts(*ptr, *len) },
        }
    }
}

impl Drop for Bytes {
    fn drop(&mut self) {
        if let Self::Mapped { ptr, len } = *self {
            // SAFETY: `open` mapped exactly this, and no slice can outlive `self`.
            let unmapped = unsafe { munmap(ptr.cast_mut().cast::<c_void>(), len) };
            debug_assert!(unmapped.is_ok(), "unmapping our own mapping failed");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_that_are_mapped_are_those_that_are_read() {
        let Ok(types) = KernelTypes::open() else {
            return println!("skipped: this kernel shows no types of its own");
        };
        let read = std::fs::read(VMLINUX).unwrap();
        assert!(*types == *read, "{} and {} bytes", types.len(), read.len());
        assert!(*KernelTypes::from(read.clone()) == *read);
    }
}
