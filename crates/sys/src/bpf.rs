//! The commands of bpf(2) that the page walk needs: create a map, load types, load a program, run
//! it, and open an iterator over a process's mappings.
//!
//! There is no ELF, no relocation and no pinning. A program is a slice of instructions that
//! `pagewalk::program` made for the running kernel. The attribute structs are the leading part of
//! `union bpf_attr` (include/uapi/linux/bpf.h). The kernel accepts a shorter struct and takes the
//! rest as zeros.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

const MAP_CREATE: libc::c_int = 0;
const PROG_LOAD: libc::c_int = 5;
const PROG_TEST_RUN: libc::c_int = 10;
const BTF_LOAD: libc::c_int = 18;
const LINK_CREATE: libc::c_int = 28;
const ITER_CREATE: libc::c_int = 33;

const MAP_TYPE_ARRAY: u32 = 2;
/// Linux 5.5: an array whose values can be mapped into the process.
const MAP_MMAPABLE: u32 = 1 << 10;
/// Linux 5.14: a program that runs once per `PROG_TEST_RUN`, in the caller's context.
const PROG_TYPE_SYSCALL: u32 = 31;
/// A program that the kernel calls at a place that is known by its type information.
const PROG_TYPE_TRACING: u32 = 26;
/// Linux 5.8: the place is an iterator, which calls it for each of some objects.
const TRACE_ITER: u32 = 28;
/// Programs of the type `syscall` must be sleepable.
const PROG_SLEEPABLE: u32 = 1 << 4;

/// When a program runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// When [`prog_run`] is called.
    Syscall,
    /// For each object of the iterator whose function has this number in the kernel's types.
    Iter(u32),
}

/// What `PROG_LOAD` gets: the program and what the verifier needs to know about it.
#[derive(Debug)]
pub struct Load<'a> {
    /// Shown by `bpftool prog`; at most 15 bytes count.
    pub name: &'a str,
    /// When it runs.
    pub kind: Kind,
    /// Encoded instructions.
    pub code: &'a [u64],
    /// Decides which helpers may be called.
    pub licence: &'a CStr,
    /// Types of the functions (see [`btf_load`]); a callback needs one.
    pub btf: BorrowedFd<'a>,
    /// Pairs of (first instruction, type id) of every function.
    pub funcs: &'a [[u32; 2]],
}

#[repr(C)]
#[derive(Default)]
struct MapAttr {
    map_type: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
    map_flags: u32,
    inner_map_fd: u32,
    numa_node: u32,
    name: [u8; 16],
}

#[repr(C)]
#[derive(Default)]
struct BtfAttr {
    btf: u64,
    log_buf: u64,
    size: u32,
    log_size: u32,
    log_level: u32,
    pad: u32,
}

#[repr(C)]
#[derive(Default)]
struct ProgAttr {
    prog_type: u32,
    insn_cnt: u32,
    insns: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log_buf: u64,
    kern_version: u32,
    prog_flags: u32,
    name: [u8; 16],
    ifindex: u32,
    attach_type: u32,
    btf_fd: u32,
    func_info_rec_size: u32,
    func_info: u64,
    func_info_cnt: u32,
    line_info_rec_size: u32,
    line_info: u64,
    line_info_cnt: u32,
    attach_btf_id: u32,
}

/// `link_create` for an iterator.
#[repr(C)]
#[derive(Default)]
struct LinkAttr {
    prog_fd: u32,
    target_fd: u32,
    attach_type: u32,
    flags: u32,
    iter_info: u64,
    iter_info_len: u32,
    pad: u32,
}

#[repr(C)]
#[derive(Default)]
struct IterAttr {
    link_fd: u32,
    flags: u32,
}

#[repr(C)]
#[derive(Default)]
struct RunAttr {
    prog_fd: u32,
    retval: u32,
    data_size_in: u32,
    data_size_out: u32,
    data_in: u64,
    data_out: u64,
    repeat: u32,
    duration: u32,
    ctx_size_in: u32,
    ctx_size_out: u32,
    ctx_in: u64,
    ctx_out: u64,
    flags: u32,
    cpu: u32,
}

fn bpf<T>(cmd: libc::c_int, attr: &mut T) -> io::Result<i32> {
    // SAFETY: `attr` is a `repr(C)` struct of plain integers that lives across the call, and its
    // exact size is passed. Addresses inside it come from slices that the callers below keep
    // borrowed until the call returns.
    let r = unsafe { libc::syscall(libc::SYS_bpf, cmd, std::ptr::from_mut(attr), size_of::<T>()) };
    if r < 0 { Err(io::Error::last_os_error()) } else { Ok(i32::try_from(r).unwrap_or(i32::MAX)) }
}

fn owned(fd: i32) -> OwnedFd {
    // SAFETY: the commands that end here return a new descriptor that nobody else owns.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

fn raw(fd: BorrowedFd<'_>) -> u32 {
    fd.as_raw_fd().cast_unsigned()
}

fn addr<T>(slice: &[T]) -> u64 {
    slice.as_ptr() as u64
}

fn count<T>(slice: &[T]) -> io::Result<u32> {
    u32::try_from(slice.len()).map_err(|_too_long| io::ErrorKind::InvalidInput.into())
}

fn object_name(name: &str) -> [u8; 16] {
    let mut out = [0; 16];
    for (to, from) in out.iter_mut().zip(name.bytes().take(15)) {
        *to = from;
    }
    out
}

/// Creates an array map with a single value of `size` bytes that can be mapped into the process.
///
/// # Errors
///
/// What the kernel says.
pub fn map_create(name: &str, size: u32) -> io::Result<OwnedFd> {
    let mut attr = MapAttr {
        map_type: MAP_TYPE_ARRAY,
        key_size: 4,
        value_size: size,
        max_entries: 1,
        map_flags: MAP_MMAPABLE,
        name: object_name(name),
        ..MapAttr::default()
    };
    bpf(MAP_CREATE, &mut attr).map(owned)
}

/// Hands the kernel the types that a program's functions have.
///
/// # Errors
///
/// What the kernel says.
pub fn btf_load(btf: &[u8]) -> io::Result<OwnedFd> {
    let mut attr = BtfAttr { btf: addr(btf), size: count(btf)?, ..BtfAttr::default() };
    bpf(BTF_LOAD, &mut attr).map(owned)
}

/// Loads a program. With `log`, the verifier writes into it, zero-terminated.
///
/// # Errors
///
/// What the kernel says.
pub fn prog_load(load: &Load<'_>, log: Option<&mut [u8]>) -> io::Result<OwnedFd> {
    let (log_level, log_size, log_buf) = match log {
        Some(log) => (1, count(log)?, log.as_mut_ptr() as u64),
        None => (0, 0, 0),
    };
    let (prog_type, prog_flags, attach_type, attach_btf_id) = match load.kind {
        Kind::Syscall => (PROG_TYPE_SYSCALL, PROG_SLEEPABLE, 0, 0),
        Kind::Iter(function) => (PROG_TYPE_TRACING, 0, TRACE_ITER, function),
    };
    let mut attr = ProgAttr {
        prog_type,
        insn_cnt: count(load.code)?,
        insns: addr(load.code),
        license: load.licence.as_ptr() as u64,
        log_level,
        log_size,
        log_buf,
        prog_flags,
        attach_type,
        attach_btf_id,
        name: object_name(load.name),
        btf_fd: raw(load.btf),
        func_info_rec_size: 8,
        func_info: addr(load.funcs),
        func_info_cnt: count(load.funcs)?,
        ..ProgAttr::default()
    };
    bpf(PROG_LOAD, &mut attr).map(owned)
}

/// Runs a program once, now, on this thread; returns what it returned.
///
/// # Errors
///
/// What the kernel says.
pub fn prog_run(prog: &OwnedFd) -> io::Result<u32> {
    let mut attr = RunAttr { prog_fd: raw(prog.as_fd()), ..RunAttr::default() };
    bpf(PROG_TEST_RUN, &mut attr)?;
    Ok(attr.retval)
}

/// Opens an iterator over the objects of one task: reading the file runs the program for each of
/// them, and gives what it wrote. Linux 6.1.
///
/// # Errors
///
/// What the kernel says. `ESRCH`: there is no such task.
pub fn iter_of_task(prog: &OwnedFd, tid: u32) -> io::Result<OwnedFd> {
    // `union bpf_iter_link_info`, of which `task.tid` is the first word.
    let info = [tid, 0, 0, 0];
    let mut attr = LinkAttr {
        prog_fd: raw(prog.as_fd()),
        attach_type: TRACE_ITER,
        iter_info: addr(&info),
        iter_info_len: count(&info)? * 4,
        ..LinkAttr::default()
    };
    let link = owned(bpf(LINK_CREATE, &mut attr)?);
    let mut attr = IterAttr { link_fd: raw(link.as_fd()), flags: 0 };
    bpf(ITER_CREATE, &mut attr).map(owned)
}
