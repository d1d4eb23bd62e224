//! Finds the two pieces of a target's own code that an injected call runs on. No code is written.

use std::io;

use isotherm_core::AddrRange;
use isotherm_host::proc::{Mapping, Proc, parse_maps};
use isotherm_sys::ptrace::read_memory;

/// `syscall; ret`.
const CALL: &[u8] = &[0x0f, 0x05, 0xc3];
/// `mov $15, %rax; syscall`, in the two ways that compilers and libraries write it.
const SIGRETURN: [&[u8]; 2] = [
    &[0x48, 0xc7, 0xc0, 0x0f, 0x00, 0x00, 0x00, 0x0f, 0x05],
    &[0xb8, 0x0f, 0x00, 0x00, 0x00, 0x0f, 0x05],
];
/// Read at once.
const CHUNK: usize = 64 << 10;
/// Longer than any piece, so that none is missed between two chunks.
const OVERLAP: usize = 16;
/// Looked through at most.
const LIMIT: u64 = 256 << 20;

/// Addresses of the pieces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Code {
    /// A `syscall` with a `ret` behind it.
    pub(super) call: u64,
    /// Calls `rt_sigreturn`.
    pub(super) sigreturn: u64,
}

impl Code {
    /// Looks through the executable memory of a process, the C library first. `None` if a piece is
    /// missing.
    pub(super) fn find(pid: u32) -> io::Result<Option<Self>> {
        let mut text = Vec::new();
        Proc::default().read(pid, "maps", &mut text)?;
        let maps: Vec<_> = parse_maps(&text).filter(|m| m.perms.exec && m.perms.read).collect();
        let is_libc = |name: &[u8]| {
            [&b"/libc.so"[..], b"/libc-", b"/ld-musl"]
                .iter()
                .any(|part| name.windows(part.len()).any(|window| window == *part))
        };
        let (first, then): (Vec<&Mapping<'_>>, Vec<&Mapping<'_>>) =
            maps.iter().partition(|m| is_libc(m.name));
        let (mut call, mut sigreturn, mut left) = (None, None, LIMIT);
        let mut buf = vec![0; CHUNK];
        for mapping in first.into_iter().chain(then) {
            for chunk in chunks(mapping.range) {
                let len = usize::try_from(chunk.len()).unwrap_or(CHUNK);
                // The kernel's vsyscall page cannot be read, a library may be cut short.
                let Ok(got) = read_memory(pid, chunk.start, &mut buf[..len]) else { break };
                let bytes = &buf[..got];
                let find = |what: &[u8]| {
                    let at = bytes.windows(what.len()).position(|window| window == what)?;
                    Some(chunk.start + at as u64)
                };
                call = call.or_else(|| find(CALL));
                sigreturn = sigreturn.or_else(|| SIGRETURN.iter().find_map(|what| find(what)));
                if let (Some(call), Some(sigreturn)) = (call, sigreturn) {
                    return Ok(Some(Self { call, sigreturn }));
                }
                left = left.saturating_sub(chunk.len());
                if left == 0 {
                    return Ok(None);
                }
            }
        }
        Ok(None)
    }

    /// Whether it is all still there.
    pub(super) fn is_there(&self, pid: u32) -> bool {
        let starts = |at: u64, what: &[u8]| {
            let mut bytes = [0; OVERLAP];
            let bytes = &mut bytes[..what.len()];
            read_memory(pid, at, bytes).is_ok() && *bytes == *what
        };
        starts(self.call, CALL) && SIGRETURN.iter().any(|what| starts(self.sigreturn, what))
    }
}

fn chunks(range: AddrRange) -> impl Iterator<Item = AddrRange> {
    let step = CHUNK - OVERLAP;
    (range.start..range.end)
        .step_by(step)
        .map(move |start| AddrRange::new(start, range.end.min(start + CHUNK as u64)))
}
