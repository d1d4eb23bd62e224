//! The loaded programs and their map: the only part of the page walk that runs BPF.
//!
//! Knows no pid and no policy: descriptors, address-space numbers and addresses in, entries out.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use isotherm_host::error::{SetError, SetKind, too_many_files};
use isotherm_host::proc::Proc;
use isotherm_sys::bpf::{self, Kind};
use isotherm_sys::map::{KernelTypes, MappedWords, VMLINUX};

use super::asm::Program;
use super::btf::{Btf, BtfError};
use super::code::{self as program, MAX_KEYS, MAX_SLOTS, MAX_TABLES, Offsets, at};
use super::mappings::Mappings;
use crate::tables::entry::Entry;
use crate::tables::error::{SET, SETCAP};

/// What an open `/proc/PID/mem` leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Resolved {
    /// Kernel address of the file's operations: the same for every file of this kind.
    pub(crate) file_ops: u64,
    /// Kernel address of the address space; tells two of them apart.
    pub(crate) mm: u64,
    /// Kernel address of its top page table.
    pub(crate) pgd: u64,
}

/// Direct map and paging, found by `calibrate`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Paging {
    pub(crate) base: u64,
    pub(crate) mask: u64,
    pub(crate) levels: u8,
}

/// The programs, loaded.
#[derive(Debug)]
pub(crate) struct Kernel {
    map: MappedWords,
    resolve: OwnedFd,
    peek: OwnedFd,
    walk: OwnedFd,
    dense: OwnedFd,
    mappings: Option<Mappings>,
}

impl Kernel {
    /// Makes the programs for the running kernel and loads them. Returns the time that took too.
    pub(crate) fn load() -> Result<(Self, Duration), SetError> {
        let begin = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        let (btf, offsets) = types()?;
        let bytes = u32::try_from(at::LEN * 8).unwrap_or(u32::MAX);
        let fd = bpf::map_create("isotherm", bytes).map_err(|e| refused("create a BPF map", e))?;
        let map_fd = fd.as_raw_fd();
        let map = MappedWords::new(fd.as_fd(), at::LEN).map_err(|e| refused("map a BPF map", e))?;
        let kernel = Self {
            resolve: load("isotherm_find", &program::resolve(map_fd, &offsets))?,
            peek: load("isotherm_peek", &program::peek(map_fd))?,
            walk: load("isotherm_walk", &program::walk(map_fd))?,
            dense: load("isotherm_dense", &program::dense(map_fd))?,
            mappings: Mappings::load(&btf),
            map,
        };
        let end = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        let took = (end - begin).try_into().unwrap_or(Duration::ZERO);
        Ok((kernel, took))
    }

    /// Uses this paging from now on.
    pub(crate) fn set_paging(&mut self, paging: &Paging) {
        let words = self.map.words_mut();
        words[at::BASE] = paging.base;
        words[at::MASK] = paging.mask;
        words[at::LEVELS] = paging.levels.into();
    }

    /// Follows a descriptor of this process, an open `/proc/PID/mem`, to its address space.
    /// `None` if a pointer on the way could not be followed or is null.
    pub(crate) fn resolve(&mut self, mem: BorrowedFd<'_>) -> io::Result<Option<Resolved>> {
        self.map.words_mut()[at::FD] = u64::try_from(mem.as_raw_fd()).unwrap_or(u64::MAX);
        let failed = bpf::prog_run(&self.resolve)? != 0;
        let words = self.map.words();
        let found =
            Resolved { file_ops: words[at::FILE_OPS], mm: words[at::MM], pgd: words[at::PGD] };
        Ok((!failed && found.pgd != 0).then_some(found))
    }

    /// Reads one word of kernel memory. `None` if nothing is there.
    pub(crate) fn peek(&mut self, address: u64) -> io::Result<Option<u64>> {
        let words = self.map.words_mut();
        words[at::NR] = 1;
        words[at::KEYS] = address;
        bpf::prog_run(&self.peek)?;
        let words = self.map.words();
        Ok((words[at::KEYS] == 0).then_some(words[at::ENTRIES]))
    }

    /// The reader of mappings, where the kernel has what it needs.
    pub(crate) const fn mappings(&mut self) -> Option<&mut Mappings> {
        self.mappings.as_mut()
    }

    /// Gives address space number `slot` its top table; 0 makes all of it unreadable.
    pub(crate) fn set_space(&mut self, slot: u16, pgd: u64) {
        self.map.words_mut()[at::TOPS + usize::from(slot) % MAX_SLOTS] = pgd;
    }

    /// The key that names the page at `addr` in address space `slot`.
    pub(crate) const fn key(slot: u16, addr: u64) -> u64 {
        (addr & !0xfff) | (slot as u64 % MAX_SLOTS as u64)
    }

    /// Looks up at most [`MAX_KEYS`] keys. Cheapest when neighbours stand together.
    pub(crate) fn walk(&mut self, keys: impl Iterator<Item = u64>) -> io::Result<&[u64]> {
        let words = self.map.words_mut();
        let mut nr = 0;
        for (to, key) in words[at::KEYS..at::KEYS + MAX_KEYS].iter_mut().zip(keys) {
            *to = key;
            nr += 1;
        }
        words[at::NR] = nr as u64;
        if nr > 0 {
            bpf::prog_run(&self.walk)?;
        }
        Ok(&self.map.words()[at::ENTRIES..at::ENTRIES + nr])
    }

    /// Reads the last-level tables of the 2 MiB around at most [`MAX_TABLES`] keys. Cheapest when
    /// neighbours stand together.
    pub(crate) fn dense(&mut self, keys: impl Iterator<Item = u64>) -> io::Result<Tables<'_>> {
        let words = self.map.words_mut();
        let mut nr = 0;
        for (to, key) in words[at::KEYS..at::KEYS + MAX_TABLES].iter_mut().zip(keys) {
            *to = key;
            nr += 1;
        }
        words[at::NR] = nr as u64;
        if nr > 0 {
            bpf::prog_run(&self.dense)?;
        }
        let words = self.map.words();
        Ok(Tables {
            marks: &words[at::MARKS..at::MARKS + nr],
            tables: &words[at::TABLES..at::TABLES + 512 * nr],
        })
    }
}

/// What a dense run has read.
#[derive(Debug)]
pub(crate) struct Tables<'a> {
    marks: &'a [u64],
    tables: &'a [u64],
}

impl<'a> Tables<'a> {
    /// Each slot: how its walk ended, and its table's 512 raw entries where it has one.
    pub(crate) fn slots(&self) -> impl Iterator<Item = (Entry, Option<&'a [u64]>)> + use<'a> {
        self.marks.iter().zip(self.tables.chunks_exact(512)).map(|(&mark, table)| {
            let mark = Entry(mark);
            (mark, mark.is_table().then_some(table))
        })
    }
}

/// The kernel's types, and the offsets that the programs need.
fn types() -> Result<(Btf, Offsets), SetError> {
    let tried = format!("read {VMLINUX}");
    let data = KernelTypes::open().map_err(|e| {
        let why = "this kernel shows no types of its own (CONFIG_DEBUG_INFO_BTF)";
        let hint = "use a kernel with BTF, or another operations set";
        SetError::of_set(SET, SetKind::NotSupported, tried.clone(), why, hint).with(e)
    })?;
    let found = Btf::parse(data).and_then(|btf| Offsets::find(&btf).map(|found| (btf, found)));
    found.map_err(|e: BtfError| {
        let why = format!("{e}");
        SetError::of_set(SET, SetKind::NotSupported, tried, why, "please report this kernel")
    })
}

fn load(name: &str, program: &Program) -> Result<OwnedFd, SetError> {
    load_kind(name, program, Kind::Syscall)
}

/// Loads a program that runs at such times.
pub(super) fn load_kind(name: &str, program: &Program, kind: Kind) -> Result<OwnedFd, SetError> {
    let (types, funcs) = program::function_types(program);
    let btf = bpf::btf_load(&types).map_err(|e| refused("load BPF type information", e))?;
    let load = bpf::Load {
        name,
        kind,
        code: &program.code,
        licence: program::LICENCE,
        btf: btf.as_fd(),
        funcs: &funcs,
    };
    bpf::prog_load(&load, None).map_err(|first| {
        if is_permission(&first) {
            return refused("load a BPF program", first);
        }
        // Once more, to hear why.
        let mut log = vec![0_u8; 1 << 18];
        match bpf::prog_load(&load, Some(&mut log)) {
            Ok(_now_it_works) => refused("load a BPF program", first),
            Err(second) => rejected(name, second, &log),
        }
    })
}

fn is_permission(e: &io::Error) -> bool {
    matches!(e.raw_os_error(), Some(libc::EPERM | libc::EACCES))
}

/// The verifier's own last words. Without a privilege it says `EINVAL` and "cannot use helper",
/// too.
fn rejected(name: &str, e: io::Error, log: &[u8]) -> SetError {
    let tried = format!("load the BPF program {name}");
    if too_many_files(&e).is_some() {
        return SetError::of_set(SET, SetKind::Io, tried, "", "").with(e);
    }
    if is_locked_down() || !has_capabilities() {
        return refused(&tried, e);
    }
    let end = log.iter().position(|b| *b == 0).unwrap_or(log.len());
    let text = String::from_utf8_lossy(&log[..end]);
    let lines: Vec<&str> = text.lines().collect();
    let tail = lines[lines.len().saturating_sub(6)..].join(" | ");
    let why = if tail.is_empty() {
        format!("programs of type `syscall` need Linux 5.14, `bpf_loop` 5.17; here: {}", release())
    } else {
        format!("the verifier of {} says: {tail}", release())
    };
    let hint = "if this kernel is 6.1 or later, please report it";
    SetError::of_set(SET, SetKind::NotSupported, tried, why, hint).with(e)
}

/// Whether this process has what the programs need.
fn has_capabilities() -> bool {
    const SYS_ADMIN: u32 = 21;
    const PERFMON: u32 = 38;
    const BPF: u32 = 39;
    let status = Proc::default().status(std::process::id(), &mut Vec::new());
    // Where it does not say, the kernel's own answer stands.
    status.map_or(true, |status| {
        let has = |nr: u32| status.cap_eff >> nr & 1 == 1;
        has(SYS_ADMIN) || (has(BPF) && has(PERFMON))
    })
}

/// Whether the kernel forbids BPF to read its memory.
fn is_locked_down() -> bool {
    let text = std::fs::read_to_string("/sys/kernel/security/lockdown").unwrap_or_default();
    text.contains("[confidentiality]")
}

fn release() -> String {
    rustix::system::uname().release().to_string_lossy().into_owned()
}

/// Why a bpf(2) command was refused.
fn refused(tried: &str, e: io::Error) -> SetError {
    if too_many_files(&e).is_some() {
        return SetError::of_set(SET, SetKind::Io, tried, "", "").with(e);
    }
    if e.raw_os_error() == Some(libc::ENOSYS) {
        let why = "this kernel was built without CONFIG_BPF_SYSCALL";
        return SetError::of_set(SET, SetKind::NotSupported, tried, why, "").with(e);
    }
    if is_locked_down() {
        let why = "the kernel is locked down (confidentiality): BPF may not read kernel memory";
        let hint = "boot with lockdown=integrity or lower, or use another operations set";
        return SetError::of_set(SET, SetKind::Permission, tried, why, hint).with(e);
    }
    if has_capabilities() {
        if is_permission(&e) {
            let why = "CAP_BPF and CAP_PERFMON are there, so a filter of system calls (seccomp), a \
                       security module or a user namespace forbids it";
            let hint = "allow bpf and perf_event_open: `isotherm agent --write-seccomp FILE` writes \
                        a filter that does; or run outside of the container";
            return SetError::of_set(SET, SetKind::Permission, tried, why, hint).with(e);
        }
        let why = format!("kernel {}", release());
        return SetError::of_set(SET, SetKind::NotSupported, tried, why, "").with(e);
    }
    let why = "needs CAP_BPF and CAP_PERFMON (or CAP_SYS_ADMIN)";
    let hint = format!("run as root, or `{SETCAP} FILE`; `isotherm doctor` shows what is there");
    SetError::of_set(SET, SetKind::Permission, tried, why, hint).with(e)
}
