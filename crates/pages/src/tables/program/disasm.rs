//! Prints a program in the notation of the kernel's own verifier, for review and for tests.
//!
//! It decodes the finished instructions, independently of the assembler's mnemonics; only the names
//! of places and the notes come from the source.

use std::fmt::Write as _;

use super::asm::Program;

/// The whole program as text, one instruction per line.
pub(crate) fn disassemble(program: &Program) -> String {
    let mut out = String::new();
    let mut wide = false;
    for (at, &insn) in program.code.iter().enumerate() {
        for (_, name) in program.labels.iter().filter(|(p, _)| *p == at) {
            writeln!(out, "{name}:").unwrap();
        }
        for (_, note) in program.notes.iter().filter(|(p, _)| *p == at) {
            writeln!(out, "       ; {note}").unwrap();
        }
        if std::mem::take(&mut wide) {
            continue;
        }
        wide = insn & 0xff == 0x18;
        let next = program.code.get(at + 1).copied().unwrap_or(0);
        writeln!(out, "{at:4}   {}", line(program, at, insn, next)).unwrap();
    }
    out
}

struct Fields {
    op: u64,
    dst: u64,
    src: u64,
    offset: i16,
    constant: i32,
}

fn fields(insn: u64) -> Fields {
    let [op, regs, o0, o1, c0, c1, c2, c3] = insn.to_le_bytes();
    Fields {
        op: op.into(),
        dst: (regs & 15).into(),
        src: (regs >> 4).into(),
        offset: i16::from_le_bytes([o0, o1]),
        constant: i32::from_le_bytes([c0, c1, c2, c3]),
    }
}

fn line(program: &Program, at: usize, insn: u64, next: u64) -> String {
    let Fields { op, dst, src, offset, constant } = fields(insn);
    let place = |distance: i64| {
        let to = i64::try_from(at).unwrap_or(i64::MAX) + 1 + distance;
        let name = program.labels.iter().find(|(p, _)| i64::try_from(*p) == Ok(to));
        name.map_or_else(|| format!("{to}"), |(_, name)| (*name).to_owned())
    };
    let operand = if op & 8 == 0 { format!("{constant}") } else { format!("r{src}") };
    match op {
        0x18 => match src {
            0 => format!("r{dst} = {:#x}", (insn >> 32) | (next & !0xffff_ffff)),
            2 => format!("r{dst} = map_value"),
            4 => format!("r{dst} = func {}", place(constant.into())),
            _ => format!("?? {insn:#018x}"),
        },
        0x79 => format!("r{dst} = *(u64 *)(r{src} {offset:+})"),
        0x7b => format!("*(u64 *)(r{dst} {offset:+}) = r{src}"),
        0x7a => format!("*(u64 *)(r{dst} {offset:+}) = {constant}"),
        0x85 => format!("call {}", helper(constant)),
        0x95 => "exit".to_owned(),
        0x05 => format!("goto {}", place(offset.into())),
        _ => match (op & 7, op & 0xf0) {
            (7, 0x00) => format!("r{dst} += {operand}"),
            (7, 0x40) => format!("r{dst} |= {operand}"),
            (7, 0x50) => format!("r{dst} &= {operand}"),
            (7, 0x60) => format!("r{dst} <<= {operand}"),
            (7, 0x70) => format!("r{dst} >>= {operand}"),
            (7, 0xb0) => format!("r{dst} = {operand}"),
            (5, 0x10) => format!("if r{dst} == {operand} goto {}", place(offset.into())),
            (5, 0x40) => format!("if r{dst} & {operand} goto {}", place(offset.into())),
            (5, 0x50) => format!("if r{dst} != {operand} goto {}", place(offset.into())),
            _ => format!("?? {insn:#018x}"),
        },
    }
}

fn helper(number: i32) -> String {
    match number {
        35 => "get_current_task".to_owned(),
        113 => "probe_read_kernel".to_owned(),
        127 => "seq_write".to_owned(),
        181 => "loop".to_owned(),
        other => format!("helper {other}"),
    }
}

#[test]
fn programs_are_what_was_reviewed() {
    use super::code::{self as program, Offsets};
    use super::mappings::{self, NO_COLD, mappings};
    // Made-up offsets, so that the text is the same on every kernel.
    let offsets = Offsets {
        task_files: 3000,
        files_fdt: 32,
        fdtable_fd: 8,
        file_private_data: 200,
        file_f_op: 176,
        mm_pgd: 72,
    };
    let of_mapping = mappings::Offsets { start: 0, end: 8, flags: 32 };
    let all = [
        program::resolve(9, &offsets),
        program::peek(9),
        program::walk(9),
        program::dense(9),
        mappings(of_mapping, NO_COLD),
    ];
    let text = all.iter().map(disassemble).collect::<Vec<_>>().join("\n");
    assert!(!text.contains("??") && !text.contains("helper"), "an instruction has no name here");
    // `UPDATE_EXPECT=1 cargo test` writes the file anew.
    expect_test::expect_file!["programs.txt"].assert_eq(&text);
}
