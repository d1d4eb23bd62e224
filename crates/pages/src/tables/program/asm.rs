//! A small assembler for eBPF, with the mnemonics that the page walk needs.
//!
//! An instruction is 64 bits: opcode (8), destination (4), source (4), offset (16), constant (32);
//! Documentation/bpf/standardization/instruction-set.rst. All arithmetic here is 64-bit. Labels
//! stand for jump targets and functions; [`Asm::finish`] fills the distances in. Labels and notes
//! stay with the code, so that `disasm` can print a program that people can review.
//!
//! Absent on purpose: everything that the page walk does not use.

/// A register: r0 holds results, r1 to r5 arguments (lost in a call), r6 to r9 survive calls, r10
/// is the frame pointer (read only).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Reg {
    R0 = 0,
    R1,
    R2,
    R3,
    R4,
    R6 = 6,
    R7,
    R8,
    R9,
    R10,
}

/// A helper function of the kernel; the number is its ABI (include/uapi/linux/bpf.h).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub(crate) enum Call {
    /// The running task's `task_struct` (Linux 4.8).
    GetCurrentTask = 35,
    /// Copies kernel memory; a fault gives an error, not an oops (Linux 5.5).
    ProbeReadKernel = 113,
    /// Writes to the file by which an iterator is read (Linux 5.8).
    SeqWrite = 127,
    /// Calls a function so many times (Linux 5.17).
    Loop = 181,
}

/// When a jump is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum If {
    Eq = 0x10,
    Ne = 0x50,
    /// Any bit in common.
    Set = 0x40,
}

/// An arithmetic operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Op {
    Add = 0x00,
    And = 0x50,
    Or = 0x40,
    Lsh = 0x60,
    Rsh = 0x70,
}

/// Source-register values that turn a 64-bit constant into something else.
const PSEUDO_MAP_VALUE: u8 = 2;
const PSEUDO_FUNC: u8 = 4;

/// A finished program.
#[derive(Debug, Clone)]
pub(crate) struct Program {
    /// Encoded instructions.
    pub(crate) code: Vec<u64>,
    /// Labels by position, in order.
    pub(crate) labels: Vec<(usize, &'static str)>,
    /// Notes for people, by position, in order; the kernel never sees them.
    #[cfg(test)]
    pub(crate) notes: Vec<(usize, &'static str)>,
    /// First instructions of the functions, in order; the first is 0.
    pub(crate) funcs: Vec<usize>,
}

/// A program being written.
#[derive(Debug, Default)]
pub(crate) struct Asm {
    code: Vec<u64>,
    labels: Vec<(usize, &'static str)>,
    notes: Vec<(usize, &'static str)>,
    funcs: Vec<usize>,
    jumps: Vec<(usize, &'static str)>,
    func_refs: Vec<(usize, &'static str)>,
}

impl Asm {
    fn emit(&mut self, op: u8, dst: u8, src: u8, offset: i16, constant: i32) {
        self.code.push(
            u64::from(op)
                | u64::from(dst) << 8
                | u64::from(src) << 12
                | u64::from(offset.cast_unsigned()) << 16
                | u64::from(constant.cast_unsigned()) << 32,
        );
    }

    fn emit_wide(&mut self, dst: Reg, pseudo: u8, low: i32, high: i32) {
        self.emit(0x18, dst as u8, pseudo, 0, low);
        self.emit(0, 0, 0, 0, high);
    }

    /// Says something about what follows.
    pub(crate) fn note(&mut self, text: &'static str) {
        self.notes.push((self.code.len(), text));
    }

    /// Names this place.
    pub(crate) fn label(&mut self, name: &'static str) {
        self.labels.push((self.code.len(), name));
    }

    /// Begins a function here.
    pub(crate) fn func(&mut self, name: &'static str) {
        self.funcs.push(self.code.len());
        self.label(name);
    }

    /// `dst = src`
    pub(crate) fn mov(&mut self, dst: Reg, src: Reg) {
        self.emit(0xbf, dst as u8, src as u8, 0, 0);
    }

    /// `dst = constant`, sign-extended.
    pub(crate) fn set(&mut self, dst: Reg, constant: i32) {
        self.emit(0xb7, dst as u8, 0, 0, constant);
    }

    /// `dst op= src`
    pub(crate) fn alu(&mut self, op: Op, dst: Reg, src: Reg) {
        self.emit(0x0f | op as u8, dst as u8, src as u8, 0, 0);
    }

    /// `dst op= constant`, sign-extended.
    pub(crate) fn alu_const(&mut self, op: Op, dst: Reg, constant: i32) {
        self.emit(0x07 | op as u8, dst as u8, 0, 0, constant);
    }

    /// `dst = *(u64 *)(base + offset)`
    pub(crate) fn load(&mut self, dst: Reg, base: Reg, offset: i16) {
        self.emit(0x79, dst as u8, base as u8, offset, 0);
    }

    /// `*(u64 *)(base + offset) = src`
    pub(crate) fn store(&mut self, base: Reg, offset: i16, src: Reg) {
        self.emit(0x7b, base as u8, src as u8, offset, 0);
    }

    /// `*(u64 *)(base + offset) = constant`, sign-extended.
    pub(crate) fn store_const(&mut self, base: Reg, offset: i16, constant: i32) {
        self.emit(0x7a, base as u8, 0, offset, constant);
    }

    /// Jumps if `a` stands to the constant so.
    pub(crate) fn jump_if(&mut self, a: Reg, cond: If, constant: i32, to: &'static str) {
        self.jumps.push((self.code.len(), to));
        self.emit(0x05 | cond as u8, a as u8, 0, 0, constant);
    }

    /// Jumps if `a` stands to `b` so.
    pub(crate) fn jump_if_reg(&mut self, a: Reg, cond: If, b: Reg, to: &'static str) {
        self.jumps.push((self.code.len(), to));
        self.emit(0x0d | cond as u8, a as u8, b as u8, 0, 0);
    }

    /// Jumps.
    pub(crate) fn jump(&mut self, to: &'static str) {
        self.jumps.push((self.code.len(), to));
        self.emit(0x05, 0, 0, 0, 0);
    }

    /// Calls a helper: r1 to r5 go in and are lost, r0 comes out.
    pub(crate) fn call(&mut self, helper: Call) {
        self.emit(0x85, 0, 0, 0, helper as i32);
    }

    /// `dst =` address of the value of the only entry of the map behind `fd`.
    pub(crate) fn map_value(&mut self, dst: Reg, fd: i32) {
        self.emit_wide(dst, PSEUDO_MAP_VALUE, fd, 0);
    }

    /// `dst =` the function `name`, for [`Call::Loop`].
    pub(crate) fn func_ref(&mut self, dst: Reg, name: &'static str) {
        self.func_refs.push((self.code.len(), name));
        self.emit_wide(dst, PSEUDO_FUNC, 0, 0);
    }

    /// Returns r0.
    pub(crate) fn exit(&mut self) {
        self.emit(0x95, 0, 0, 0, 0);
    }

    /// Fills in the jumps.
    ///
    /// Panics on a label that is missing or out of reach: that is a mistake in the program's
    /// source, and every test run comes through here.
    pub(crate) fn finish(mut self) -> Program {
        let labels = std::mem::take(&mut self.labels);
        let distance = |from: usize, to: &str| -> i64 {
            let found = labels.iter().find(|(_, name)| *name == to);
            let Some(&(at, _)) = found else { panic!("no label {to}") };
            i64::try_from(at).unwrap_or(i64::MAX) - i64::try_from(from).unwrap_or(i64::MAX) - 1
        };
        for (at, to) in std::mem::take(&mut self.jumps) {
            let Ok(offset) = i16::try_from(distance(at, to)) else {
                panic!("label {to} is too far")
            };
            self.code[at] |= u64::from(offset.cast_unsigned()) << 16;
        }
        for (at, to) in std::mem::take(&mut self.func_refs) {
            let Ok(offset) = i32::try_from(distance(at, to)) else {
                panic!("label {to} is too far")
            };
            self.code[at] |= u64::from(offset.cast_unsigned()) << 32;
        }
        Program {
            code: self.code,
            labels,
            #[cfg(test)]
            notes: self.notes,
            funcs: self.funcs,
        }
    }
}
