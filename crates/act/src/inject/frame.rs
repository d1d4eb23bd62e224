//! The safety net: a signal frame that leads back to where the thread was.
//!
//! While a thread carries out an injected call, its registers are not its own. If Isotherm is
//! killed then, the kernel lets the thread go on with these registers. So the injected call is a
//! `syscall; ret` of the program's own code, run on a stack that the injector prepared. `ret` takes
//! the address of a `rt_sigreturn` from that stack. `rt_sigreturn` then finds the frame that a
//! returning signal handler would find, with all registers, the vector state and the blocked
//! signals as they were. So the thread goes on as it was, having made one more `madvise`.
//!
//! The layout is the kernel's `struct rt_sigframe` for x86-64 (arch/x86/include/asm/sigframe.h and
//! uapi/asm/sigcontext.h), which is fixed.

use isotherm_sys::ptrace::Registers;

/// Offsets in the frame, from the return address on.
const CONTEXT: usize = 8;
const ALT_STACK_FLAGS: usize = CONTEXT + 24;
const REGISTERS: usize = CONTEXT + 40;
const SEGMENTS: usize = REGISTERS + 144;
const VECTOR_STATE_AT: usize = REGISTERS + 184;
const BLOCKED: usize = REGISTERS + 256;
/// Where the vector state lies: aligned to 64 bytes, behind everything else.
const VECTOR_STATE: usize = 512;
/// What FXSAVE writes: all there is on a CPU without XSAVE.
const FXSAVE: usize = 512;
/// The legacy part of XSAVE and its header.
const XSAVE_MIN: usize = 576;
/// The kernel's notes for itself, in the legacy part.
const NOTES: usize = 464;
const MAGIC_1: u32 = 0x4650_5853;
const MAGIC_2: u32 = 0x4650_5845;
/// Matrix registers, which most processes may not even use: above the others, and not in the frames
/// of those.
const MATRIX: u64 = 3 << 17;
/// In front of the matrix registers, behind all others.
const BELOW_MATRIX: usize = 2704;
/// Vector state, stack segment, and its exact value.
const FLAGS: u64 = 7;
/// `ERESTARTSYS`, `ERESTARTNOINTR`, `ERESTARTNOHAND`, `ERESTART_RESTARTBLOCK`.
const RESTART: [u64; 4] = [512, 513, 514, 516];

/// Room for a frame, in bytes.
pub(super) const ROOM: u64 = 20 << 10;

/// The bytes of a frame at `at` (aligned to 64 bytes) that gives back `registers`, `blocked` and
/// `vector_state`. `sigreturn` is the address of code that calls `rt_sigreturn`.
pub(super) fn frame(
    at: u64,
    sigreturn: u64,
    registers: &Registers,
    blocked: u64,
    vector_state: &[u8],
) -> Vec<u8> {
    let mut bytes = vec![0_u8; VECTOR_STATE];
    let mut put = |at: usize, value: u64| bytes[at..at + 8].copy_from_slice(&value.to_ne_bytes());
    put(0, sigreturn);
    put(CONTEXT, FLAGS);
    // No valid flags: the alternate signal stack stays what it is.
    put(ALT_STACK_FLAGS, u64::from(u32::MAX >> 1));
    let back = restarted(registers);
    let r = &back;
    let in_order = [
        r.r8, r.r9, r.r10, r.r11, r.r12, r.r13, r.r14, r.r15, r.rdi, r.rsi, r.rbp, r.rbx, r.rdx,
        r.rax, r.rcx, r.rsp, r.rip, r.eflags,
    ];
    for (nr, value) in in_order.into_iter().enumerate() {
        put(REGISTERS + nr * 8, value);
    }
    put(SEGMENTS, r.cs & 0xffff | (r.ss & 0xffff) << 48);
    put(BLOCKED, blocked);
    if let Some(state) = signal_vector_state(vector_state) {
        put(VECTOR_STATE_AT, at + VECTOR_STATE as u64);
        bytes.extend(state);
    }
    bytes
}

/// What the kernel makes of the registers of an interrupted system call when no signal is
/// delivered: it is made again. (A sleep for a time then begins anew. Only the net does that.)
fn restarted(registers: &Registers) -> Registers {
    let mut back = *registers;
    let in_syscall = registers.orig_rax.cast_signed() >= 0;
    if in_syscall && RESTART.contains(&registers.rax.wrapping_neg()) {
        back.rax = registers.orig_rax;
        back.rip = registers.rip.wrapping_sub(2);
    }
    back
}

/// Vector state as ptrace gives it, with the marks that make it a signal frame's. FXSAVE's needs
/// none: a kernel without XSAVE looks for no marks (`fpu__restore_sig`).
fn signal_vector_state(state: &[u8]) -> Option<Vec<u8>> {
    if state.len() == FXSAVE {
        return Some(state.to_vec());
    }
    let word = |at: usize| {
        let bytes = state.get(at..at + 8)?;
        Some(u64::from_ne_bytes(bytes.try_into().ok()?))
    };
    let (mut features, in_use) = (word(NOTES)?, word(512)?);
    let mut size = state.len();
    if features & MATRIX != 0 && in_use & MATRIX == 0 {
        size = size.min(BELOW_MATRIX);
        features &= !MATRIX;
    }
    if size < XSAVE_MIN {
        return None;
    }
    let mut state = state[..size].to_vec();
    let short = u32::try_from(size).ok()?;
    state[NOTES..NOTES + 4].copy_from_slice(&MAGIC_1.to_ne_bytes());
    state[NOTES + 4..NOTES + 8].copy_from_slice(&(short + 4).to_ne_bytes());
    state[NOTES + 8..NOTES + 16].copy_from_slice(&features.to_ne_bytes());
    state[NOTES + 16..NOTES + 20].copy_from_slice(&short.to_ne_bytes());
    state.extend(MAGIC_2.to_ne_bytes());
    Some(state)
}
