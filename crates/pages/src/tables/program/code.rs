// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! The BPF programs: they read page tables and nothing else.
//!
//! All policy is in Rust; these programs follow pointers. They run only when this process asks
//! (`BPF_PROG_TYPE_SYSCALL`), on its own time, and cannot write to kernel memory: the only memory
//! they write is the value of one map, laid out below, which is mapped into this process. Every
//! read of kernel memory goes through `probe_read_kernel`, which gives an error where a plain read
//! would fault. They need no kernel function newer than `bpf_loop` (Linux 5.17).
//!
//! * `resolve`: descriptor of `/proc/PID/mem` -> mm -> address of its top page table.
//! * `walk`: for each of n addresses, the page-table entry that maps it.
//! * `dense`: for each of n addresses, the whole last-level table of the 2 MiB around it.
//! * `peek`: n words of kernel memory; used once, to find the direct map (`calibrate`).
//!
//! A result is the hardware's entry with the level at which the walk ended in its top byte, see
//! `entry`. Page-table pages can be freed and reused while they are read: then a result is wrong,
//! but nothing else happens. The kernel itself wants a GPL-compatible licence for
//! `probe_read_kernel`.

use std::ffi::CStr;

use super::asm::{
    Asm, Call, If, Op, Program,
    Reg::{R0, R1, R2, R3, R4, R6, R7, R8, R9, R10},
};
use super::btf::{Btf, BtfError};

/// What the kernel is told.
pub(crate) const LICENCE: &CStr = c"Dual MIT/GPL";

/// Addresses per run of `walk` and `peek`. A power of two.
pub(crate) const MAX_KEYS: usize = 4096;
/// Addresses per run of `dense`. A power of two.
pub(crate) const MAX_TABLES: usize = 64;
/// Address spaces known at a time. A power of two, at most 4096: the number is kept in the low bits
/// of a page address.
pub(crate) const MAX_SLOTS: usize = 4096;

/// The map's layout, in words.
pub(crate) mod at {
    use super::{MAX_KEYS, MAX_SLOTS, MAX_TABLES};

    /// In: kernel address of physical address 0.
    pub(crate) const BASE: usize = 0;
    /// In: the bits of an entry that are a physical address.
    pub(crate) const MASK: usize = 1;
    /// In: 4 or 5.
    pub(crate) const LEVELS: usize = 2;
    /// In: a descriptor of this process.
    pub(crate) const FD: usize = 3;
    /// In: number of keys.
    pub(crate) const NR: usize = 4;
    /// Out, `resolve`: the file's operations, mm, top table.
    pub(crate) const FILE_OPS: usize = 7;
    pub(crate) const MM: usize = 8;
    pub(crate) const PGD: usize = 9;
    /// Between calls of one run: which tables were found last, by what address.
    pub(crate) const SEEN_SLOT: usize = 10;
    pub(crate) const SEEN_GIB: usize = 11;
    pub(crate) const SEEN_MIDDLE: usize = 12;
    pub(crate) const SEEN_2MIB: usize = 13;
    pub(crate) const SEEN_LAST: usize = 14;
    /// In: page addresses, with the number of the address space in the low bits.
    pub(crate) const KEYS: usize = 512;
    /// In: top tables of the address spaces.
    pub(crate) const TOPS: usize = KEYS + MAX_KEYS;
    /// Out: entries, in the keys' order.
    pub(crate) const ENTRIES: usize = TOPS + MAX_SLOTS;
    /// Out, `dense`: how the walk for each key ended.
    pub(crate) const MARKS: usize = ENTRIES + MAX_KEYS;
    /// Out, `dense`: the tables themselves.
    pub(crate) const TABLES: usize = MARKS + 512;
    /// All words.
    pub(crate) const LEN: usize = TABLES + 512 * MAX_TABLES;
}

/// Byte offsets of the pointers that `resolve` follows, on the running kernel.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Offsets {
    pub(crate) task_files: u32,
    pub(crate) files_fdt: u32,
    pub(crate) fdtable_fd: u32,
    pub(crate) file_private_data: u32,
    pub(crate) file_f_op: u32,
    pub(crate) mm_pgd: u32,
}

impl Offsets {
    /// Looks the offsets up.
    pub(crate) fn find(btf: &Btf) -> Result<Self, BtfError> {
        Ok(Self {
            task_files: btf.pointer_offset("task_struct", "files")?,
            files_fdt: btf.pointer_offset("files_struct", "fdt")?,
            fdtable_fd: btf.pointer_offset("fdtable", "fd")?,
            file_private_data: btf.pointer_offset("file", "private_data")?,
            file_f_op: btf.pointer_offset("file", "f_op")?,
            mm_pgd: btf.pointer_offset("mm_struct", "pgd")?,
        })
    }
}

/// An entry's bits (Intel SDM 3A, 4.5): 0 present, 7 page size.
const PRESENT: i32 = 1;
const LEAF: i32 = 1 << 7;

/// Slots on the stack: what was read last, and at which level.
const ENTRY: i16 = -8;
const LEVEL: i16 = -16;
/// Level that says that reading failed.
pub(crate) const LEVEL_FAULT: i32 = 7;

/// Byte offset of a word, for arithmetic.
const fn byte(word: usize) -> i32 {
    constant(word * 8)
}

/// Byte offset of a word near the map's beginning, in reach of a load's own offset.
const fn head(word: usize) -> i16 {
    assert!(word < 4096);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        reason = "checked above"
    )]
    return (word * 8) as i16;
}

/// The bits of an index below `nr`.
const fn mask(nr: usize) -> i32 {
    assert!(nr.is_power_of_two());
    constant(nr - 1)
}

const fn constant(n: usize) -> i32 {
    assert!(n < 1 << 31);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        reason = "checked above"
    )]
    return n as i32;
}

/// `resolve`: current -> files -> fdt -> fd[FD] = file; file -> `f_op`; file -> mm -> pgd.
/// Returns 0, or 1 where a pointer could not be followed.
pub(crate) fn resolve(map_fd: i32, o: &Offsets) -> Program {
    let mut a = Asm::default();
    a.func("resolve");
    a.map_value(R6, map_fd);
    for out in [at::FILE_OPS, at::MM, at::PGD] {
        a.store_const(R6, head(out), 0);
    }
    a.call(Call::GetCurrentTask);
    a.mov(R7, R0);
    follow(&mut a, o.task_files);
    follow(&mut a, o.files_fdt);
    follow(&mut a, o.fdtable_fd);
    a.note("r7 = array of files; the descriptor's own one");
    a.load(R1, R6, head(at::FD));
    a.alu_const(Op::Lsh, R1, 3);
    a.alu(Op::Add, R7, R1);
    follow(&mut a, 0);
    a.note("r8 = file");
    a.mov(R8, R7);
    follow(&mut a, o.file_f_op);
    a.store(R6, head(at::FILE_OPS), R7);
    a.mov(R7, R8);
    follow(&mut a, o.file_private_data);
    a.store(R6, head(at::MM), R7);
    follow(&mut a, o.mm_pgd);
    a.store(R6, head(at::PGD), R7);
    a.set(R0, 0);
    a.exit();
    a.label("failed");
    a.set(R0, 1);
    a.exit();
    a.finish()
}

/// `r7 = *(r7 + offset)`, or the end.
fn follow(a: &mut Asm, offset: u32) {
    a.mov(R3, R7);
    a.alu_const(Op::Add, R3, i32::try_from(offset).unwrap_or(i32::MAX));
    probe(a, 8);
    a.jump_if(R0, If::Ne, 0, "failed");
    a.load(R7, R10, ENTRY);
}

/// Reads one word at r3 into the stack; r0 is not 0 if that failed.
fn probe(a: &mut Asm, size: i32) {
    a.mov(R1, R10);
    a.alu_const(Op::Add, R1, ENTRY.into());
    a.set(R2, size);
    a.call(Call::ProbeReadKernel);
}

/// `peek`: for each key, `entries[i] = *key`, and `key = 0` if that worked.
pub(crate) fn peek(map_fd: i32) -> Program {
    let mut a = Asm::default();
    main_loop(&mut a, map_fd, "peek", "peek_one");
    a.func("peek_one");
    a.map_value(R6, map_fd);
    a.alu_const(Op::And, R1, mask(MAX_KEYS));
    a.alu_const(Op::Lsh, R1, 3);
    a.alu(Op::Add, R6, R1);
    a.alu_const(Op::Add, R6, byte(at::KEYS));
    a.load(R3, R6, 0);
    probe(&mut a, 8);
    a.store(R6, 0, R0);
    a.alu_const(Op::Add, R6, byte(at::ENTRIES - at::KEYS));
    a.load(R1, R10, ENTRY);
    a.store(R6, 0, R1);
    a.set(R0, 0);
    a.exit();
    a.finish()
}

/// `name`: forgets the tables seen, then calls `each` with 0, 1, ... NR - 1.
fn main_loop(a: &mut Asm, map_fd: i32, name: &'static str, each: &'static str) {
    a.func(name);
    a.map_value(R6, map_fd);
    for seen in [at::SEEN_SLOT, at::SEEN_GIB, at::SEEN_2MIB] {
        a.store_const(R6, head(seen), -1);
    }
    a.load(R1, R6, head(at::NR));
    a.func_ref(R2, each);
    a.set(R3, 0);
    a.set(R4, 0);
    a.call(Call::Loop);
    a.set(R0, 0);
    a.exit();
}

/// `walk`: for each key, `entries[i]` = the entry that maps it.
///
/// In the callback r6 = map, r7 = key, r8 = where the result goes, r9 = table.
pub(crate) fn walk(map_fd: i32) -> Program {
    let mut a = Asm::default();
    main_loop(&mut a, map_fd, "walk", "walk_one");
    a.func("walk_one");
    a.map_value(R6, map_fd);
    a.mov(R8, R6);
    a.alu_const(Op::And, R1, mask(MAX_KEYS));
    a.alu_const(Op::Lsh, R1, 3);
    a.alu(Op::Add, R8, R1);
    a.load(R7, R8, head(at::KEYS));
    a.alu_const(Op::Add, R8, byte(at::ENTRIES));
    enter_space(&mut a);
    a.note("the same 2 MiB, or the same GiB, as before? then enter there");
    a.mov(R2, R7);
    a.alu_const(Op::Rsh, R2, 21);
    a.load(R9, R6, head(at::SEEN_LAST));
    a.load(R1, R6, head(at::SEEN_2MIB));
    a.jump_if_reg(R1, If::Eq, R2, "last");
    a.alu_const(Op::Rsh, R2, 9);
    a.load(R9, R6, head(at::SEEN_MIDDLE));
    a.load(R1, R6, head(at::SEEN_GIB));
    a.jump_if_reg(R1, If::Eq, R2, "middle");
    upper_levels(&mut a);
    a.label("middle");
    read_entry(&mut a, 2, 21);
    a.jump_if(R1, If::Set, LEAF, "done");
    enter_table(&mut a);
    a.store(R6, head(at::SEEN_LAST), R9);
    a.mov(R2, R7);
    a.alu_const(Op::Rsh, R2, 21);
    a.store(R6, head(at::SEEN_2MIB), R2);
    a.label("last");
    read_entry(&mut a, 1, 12);
    finish_result(&mut a);
    a.finish()
}

/// Forgets the tables seen if the address space of key r7 is not that of the key before.
fn enter_space(a: &mut Asm) {
    a.note("another address space than before? then no table is known");
    a.mov(R1, R7);
    a.alu_const(Op::And, R1, mask(MAX_SLOTS));
    a.load(R2, R6, head(at::SEEN_SLOT));
    a.jump_if_reg(R1, If::Eq, R2, "same_space");
    a.store(R6, head(at::SEEN_SLOT), R1);
    a.store_const(R6, head(at::SEEN_GIB), -1);
    a.store_const(R6, head(at::SEEN_2MIB), -1);
    a.label("same_space");
}

/// From the top table of r7's address space to the table of the GiB around r7 (in r9, and
/// remembered).
fn upper_levels(a: &mut Asm) {
    a.note("r9 = top table of the address space");
    a.mov(R1, R7);
    a.alu_const(Op::And, R1, mask(MAX_SLOTS));
    a.alu_const(Op::Lsh, R1, 3);
    a.alu(Op::Add, R1, R6);
    a.alu_const(Op::Add, R1, byte(at::TOPS));
    a.load(R9, R1, 0);
    a.load(R1, R6, head(at::LEVELS));
    a.jump_if(R1, If::Ne, 5, "four_levels");
    read_entry(a, 5, 48);
    enter_table(a);
    a.label("four_levels");
    read_entry(a, 4, 39);
    enter_table(a);
    read_entry(a, 3, 30);
    a.jump_if(R1, If::Set, LEAF, "done");
    enter_table(a);
    a.store(R6, head(at::SEEN_MIDDLE), R9);
    a.mov(R2, R7);
    a.alu_const(Op::Rsh, R2, 30);
    a.store(R6, head(at::SEEN_GIB), R2);
}

/// r1 = the entry of table r9 for address r7, at this level.
fn read_entry(a: &mut Asm, level: i32, shift: i32) {
    a.store_const(R10, LEVEL, level);
    a.mov(R3, R7);
    a.alu_const(Op::Rsh, R3, shift);
    a.alu_const(Op::And, R3, 511);
    a.alu_const(Op::Lsh, R3, 3);
    a.alu(Op::Add, R3, R9);
    probe(a, 8);
    a.jump_if(R0, If::Ne, 0, "fault");
    a.load(R1, R10, ENTRY);
}

/// r9 = the table that entry r1 names, or the end if it names none.
fn enter_table(a: &mut Asm) {
    a.mov(R2, R1);
    a.alu_const(Op::And, R2, PRESENT);
    a.jump_if(R2, If::Eq, 0, "done");
    a.load(R2, R6, head(at::MASK));
    a.alu(Op::And, R1, R2);
    a.load(R9, R6, head(at::BASE));
    a.alu(Op::Add, R9, R1);
}

/// The ends: `*r8` = entry r1 with the level in its top byte.
fn finish_result(a: &mut Asm) {
    a.label("done");
    a.alu_const(Op::Lsh, R1, 8);
    a.alu_const(Op::Rsh, R1, 8);
    a.load(R2, R10, LEVEL);
    a.alu_const(Op::Lsh, R2, 56);
    a.alu(Op::Or, R1, R2);
    a.store(R8, 0, R1);
    a.set(R0, 0);
    a.exit();
    a.label("fault");
    a.set(R1, 0);
    a.store_const(R10, LEVEL, LEVEL_FAULT);
    a.jump("done");
}

/// `dense`: for each key, `marks[i]` = the entry at which the walk ended; if that names a
/// last-level table, `tables[i]` = all of it.
///
/// In the callback r6 = map, r7 = key, r8 = where the mark goes, r9 = table.
pub(crate) fn dense(map_fd: i32) -> Program {
    let mut a = Asm::default();
    main_loop(&mut a, map_fd, "dense", "dense_one");
    a.func("dense_one");
    a.map_value(R6, map_fd);
    a.alu_const(Op::And, R1, mask(MAX_TABLES));
    a.note("the table's place, kept on the stack");
    a.mov(R2, R1);
    a.alu_const(Op::Lsh, R2, 12);
    a.alu(Op::Add, R2, R6);
    a.alu_const(Op::Add, R2, byte(at::TABLES));
    a.store(R10, -24, R2);
    a.mov(R8, R1);
    a.alu_const(Op::Lsh, R8, 3);
    a.alu(Op::Add, R8, R6);
    a.load(R7, R8, head(at::KEYS));
    a.alu_const(Op::Add, R8, byte(at::MARKS));
    enter_space(&mut a);
    a.note("the same GiB as before? then enter there");
    a.mov(R2, R7);
    a.alu_const(Op::Rsh, R2, 30);
    a.load(R9, R6, head(at::SEEN_MIDDLE));
    a.load(R1, R6, head(at::SEEN_GIB));
    a.jump_if_reg(R1, If::Eq, R2, "middle");
    upper_levels(&mut a);
    a.label("middle");
    read_entry(&mut a, 2, 21);
    a.jump_if(R1, If::Set, LEAF, "done");
    enter_table(&mut a);
    a.load(R1, R10, -24);
    a.set(R2, 4096);
    a.mov(R3, R9);
    a.call(Call::ProbeReadKernel);
    a.jump_if(R0, If::Ne, 0, "fault");
    a.load(R1, R10, ENTRY);
    finish_result(&mut a);
    a.finish()
}

/// The types of a program's functions: all are `int f(void)` to the kernel, the first is global,
/// the callback static. Without them it refuses a callback.
pub(crate) fn function_types(program: &Program) -> (Vec<u8>, Vec<[u32; 2]>) {
    const KIND_INT: u32 = 1 << 24;
    const KIND_FUNC: u32 = 12 << 24;
    const KIND_FUNC_PROTO: u32 = 13 << 24;
    const SIGNED_32: u32 = 1 << 24 | 32;
    let mut strings = b"\0int\0".to_vec();
    let mut types = vec![1, KIND_INT, 4, SIGNED_32, 0, KIND_FUNC_PROTO, 1];
    let mut funcs = Vec::new();
    let word = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    for (nr, &start) in program.funcs.iter().enumerate() {
        let name = program.labels.iter().find(|(at, _)| *at == start).map_or("f", |(_, n)| n);
        let linkage = if nr == 0 { 1 } else { 0 };
        types.extend([word(strings.len()), KIND_FUNC | linkage, 2]);
        strings.extend(name.bytes().chain([0]));
        funcs.push([word(start), word(nr) + 3]);
    }
    let types: Vec<u8> = types.into_iter().flat_map(u32::to_le_bytes).collect();
    let mut blob = vec![0x9f, 0xeb, 1, 0];
    for field in [24, 0, word(types.len()), word(types.len()), word(strings.len())] {
        blob.extend(u32::to_le_bytes(field));
    }
    blob.extend(types);
    blob.extend(strings);
    (blob, funcs)
}
