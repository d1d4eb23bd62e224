//! `/proc/PID/clear_refs`: all accessed bits of a process at once.
//!
//! Clearing does not flush the TLB. A program that only computes can keep its translations, and
//! look idle until something else makes the CPU drop them. On a kernel without soft-dirty bits,
//! writing `4` (soft-dirty) only flushes. On a kernel with them it would write-protect all memory,
//! so it is left out there.

use std::fs::File;
use std::io::{self, Write};
use std::sync::OnceLock;

use isotherm_core::Time;
use isotherm_host::proc::Proc;
use isotherm_sys::clock::now;
use isotherm_sys::priority::raise;

/// Clears the accessed bits of the process that this open `clear_refs` belongs to. Where that is
/// allowed, the calling thread has a real-time priority meanwhile: a caller that is preempted would
/// hold the process's mmap lock. Returns when half of it was done: on a large process this takes as
/// long as some sample intervals.
///
/// # Errors
///
/// What the kernel says.
pub fn clear_accessed(file: &mut File) -> io::Result<Time> {
    let flushes = !has_soft_dirty();
    // Without the right to it, it goes without.
    let _raised = raise();
    let begin = now();
    file.write_all(b"1")?;
    let half = Time(begin.0 + now().since(begin) / 2);
    if flushes {
        // The bits are cleared already. Without this flush some accesses are seen only later.
        file.write_all(b"4").ok();
    }
    Ok(half)
}

/// Whether this kernel tracks soft-dirty pages. New mappings then have the flag `sd`.
fn has_soft_dirty() -> bool {
    static HAS: OnceLock<bool> = OnceLock::new();
    *HAS.get_or_init(|| {
        let mut text = Vec::new();
        // Unknown counts as yes: then nothing more than before is done.
        let read = Proc::default().read_system("self/smaps", &mut text).is_ok();
        !read || text.split(|b| *b == b'\n').any(has_flag)
    })
}

fn has_flag(line: &[u8]) -> bool {
    line.starts_with(b"VmFlags:") && line.split(|b| *b == b' ').any(|flag| flag == b"sd")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flag_is_a_word_of_its_own() {
        for (line, expected) in [
            ("VmFlags: rd wr mr mw me sd ", true),
            ("VmFlags: rd wr mr mw me nr", false),
            ("VmFlags: rd sdx", false),
            ("Rss: sd", false),
        ] {
            assert_eq!(has_flag(line.as_bytes()), expected, "{line}");
        }
    }
}
