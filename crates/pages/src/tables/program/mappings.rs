// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! The BPF program that tells which mappings of a process have certain flags.
//!
//! `smaps` shows the flags of a mapping, too, but walks all of its pages for that: 10 to 20 ms per
//! GiB. An iterator over mappings (Linux 6.1 for those of one process) takes well under a
//! microsecond for each. Where the kernel has none, nothing is known.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;

use isotherm_core::AddrRange;
use isotherm_sys::bpf::{Kind, iter_of_task};

use super::asm::{
    Asm, Call, If, Op, Program,
    Reg::{R0, R1, R2, R3, R6, R7, R10},
};
use super::btf::{Btf, BtfError};
use super::kernel::load_kind;

/// The function that stands for the iterator in the kernel's types.
const ITERATOR: &str = "bpf_iter_task_vma";
/// Context of the program: what is iterated over, and the mapping.
const META: i16 = 0;
const MAPPING: i16 = 16;
/// `VM_SEQ_READ`, `VM_RAND_READ`; `VM_LOCKED`, `VM_HUGETLB`, `VM_PFNMAP` (include/linux/mm.h).
pub(crate) const NO_COLD: i32 = 0x8000 | 0x1_0000 | 0x2000 | 0x40_0000 | 0x400;
/// What the program writes for a mapping: start, end and flags.
const RECORD: usize = 24;
/// Bytes to read at once: more than the kernel collects (8 pages), so that no record is cut.
const BUFFER: usize = 1 << 16;

/// Byte offsets in `vm_area_struct`, on the running kernel.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Offsets {
    pub(crate) start: i16,
    pub(crate) end: i16,
    pub(crate) flags: i16,
}

impl Offsets {
    fn find(btf: &Btf) -> Result<Self, BtfError> {
        let of = |member| {
            let offset = btf.word_offset("vm_area_struct", member)?;
            i16::try_from(offset).map_err(|_large| BtfError::NoMember(member.to_owned()))
        };
        Ok(Self { start: of("vm_start")?, end: of("vm_end")?, flags: of("vm_flags")? })
    }
}

/// Writes a record for each mapping with one of these flags.
pub(crate) fn mappings(o: Offsets, flags: i32) -> Program {
    let mut a = Asm::default();
    a.func("mappings");
    a.load(R6, R1, META);
    a.load(R7, R1, MAPPING);
    a.note("at the end it is called without a mapping");
    a.jump_if(R7, If::Eq, 0, "done");
    a.load(R2, R7, o.flags);
    a.jump_if(R2, If::Set, flags, "tell");
    a.jump("done");
    a.label("tell");
    a.store(R10, -8, R2);
    a.load(R2, R7, o.start);
    a.store(R10, -24, R2);
    a.load(R2, R7, o.end);
    a.store(R10, -16, R2);
    a.note("r1 = the file that is read");
    a.load(R1, R6, 0);
    a.mov(R2, R10);
    a.alu_const(Op::Add, R2, -24);
    a.set(R3, 24);
    a.call(Call::SeqWrite);
    a.label("done");
    a.set(R0, 0);
    a.exit();
    a.finish()
}

/// The loaded program.
#[derive(Debug)]
pub(crate) struct Mappings {
    program: OwnedFd,
    bytes: Vec<u8>,
}

impl Mappings {
    /// Loads the program. `None` on a kernel that cannot run it.
    pub(crate) fn load(btf: &Btf) -> Option<Self> {
        let offsets = Offsets::find(btf).ok()?;
        let kind = Kind::Iter(btf.function(ITERATOR).ok()?);
        let program = load_kind("isotherm_maps", &mappings(offsets, NO_COLD), kind).ok()?;
        Some(Self { program, bytes: Vec::new() })
    }

    /// Appends the mappings of a process that have one of the flags, in address order.
    pub(crate) fn read(&mut self, pid: u32, ranges: &mut Vec<AddrRange>) -> io::Result<()> {
        let mut file = File::from(iter_of_task(&self.program, pid)?);
        self.bytes.resize(BUFFER, 0);
        let mut behind = 0;
        loop {
            let len = file.read(&mut self.bytes)?;
            for record in self.bytes[..len].as_chunks::<RECORD>().0 {
                let (start, end) = (word(record, 0), word(record, 8));
                // The iterator over one task gives the last mapping again and again (Linux 6.18).
                if start < behind || start >= end {
                    return Ok(());
                }
                ranges.push(AddrRange::new(start, end));
                behind = end;
            }
            if len < RECORD {
                return Ok(());
            }
        }
    }
}

fn word(record: &[u8; RECORD], at: usize) -> u64 {
    let bytes = record[at..].first_chunk().copied();
    u64::from_ne_bytes(bytes.unwrap_or_default())
}
