//! Finds where the kernel maps physical memory, and how many levels its page tables have.
//!
//! A page table names the next one by physical address. To read that one, the kernel address at
//! which physical memory begins is needed (the base of the direct map). The base is random (KASLR),
//! and `/proc/kallsyms` need not show it. But the address of this process's own top page table is
//! known and lies in the direct map, and the base is a multiple of 1 GiB. So every multiple below
//! that address is tried. With the right base, the walk of this process's own page tables leads to
//! a page with the random words that this process wrote there. Two pages are checked; no privilege
//! beyond reading with BPF is needed.
//!
//! The same walk tells 4-level from 5-level tables, and proves that the pointers of `resolve` mean
//! what they are taken for.

use std::fs::File;
use std::hint::black_box;
use std::io;
use std::os::fd::AsFd;

use isotherm_host::error::{SetError, SetKind};

use super::kernel::{Kernel, Paging, Resolved};
use crate::tables::error::SET;

const GIB: u64 = 1 << 30;
/// Enough for 64 TiB of memory, below which the top table lies.
const MAX_CANDIDATES: u64 = 1 << 16;
const WORDS: usize = 3 * 512;

/// Own memory with known random content, two pages apart.
struct Proof {
    words: Box<[u64]>,
}

impl Proof {
    fn new() -> io::Result<Self> {
        let mut words = vec![0_u64; WORDS].into_boxed_slice();
        let mut urandom = File::open("/dev/urandom")?;
        for at in [0, WORDS - 1] {
            let mut random = [0; 8];
            io::Read::read_exact(&mut urandom, &mut random)?;
            words[at] = u64::from_ne_bytes(random) | 1;
        }
        Ok(Self { words: black_box(words) })
    }

    /// Address and content of two words, on different pages.
    fn facts(&self) -> [(u64, u64); 2] {
        [&self.words[0], &self.words[WORDS - 1]]
            .map(|word| (std::ptr::from_ref(word) as u64, *word))
    }
}

/// Sets the kernel's paging up. Returns it, with what our own address space resolves to.
pub(crate) fn calibrate(kernel: &mut Kernel) -> Result<(Paging, Resolved), SetError> {
    let failed = |tried: &str, e: Option<io::Error>, why: &str| {
        let hint = "please report this kernel";
        let error = SetError::of_set(SET, SetKind::NotSupported, tried, why, hint);
        match e {
            Some(e) => error.with(e),
            None => error,
        }
    };
    let mem =
        File::open("/proc/self/mem").map_err(|e| failed("open /proc/self/mem", Some(e), ""))?;
    let tried = "find the direct map";
    let run = |e| failed(tried, Some(e), "");
    let own = kernel.resolve(mem.as_fd()).map_err(run)?;
    let own = own.ok_or_else(|| failed(tried, None, "no way from a descriptor to its memory"))?;
    let proof = Proof::new().map_err(run)?;
    let facts = proof.facts();
    for mask in physical_masks() {
        for nr in 0..MAX_CANDIDATES {
            let base = (own.pgd & !(GIB - 1)).wrapping_sub(nr * GIB);
            if base >> 63 == 0 {
                break;
            }
            for levels in [4, 5] {
                let paging = Paging { base, mask, levels };
                if holds(kernel, own.pgd, &paging, &facts).map_err(run)? {
                    kernel.set_paging(&paging);
                    drop(black_box(proof));
                    return Ok((paging, own));
                }
            }
        }
    }
    Err(failed(tried, None, "no candidate leads to our own memory"))
}

/// Whether a walk under these assumptions finds all the words.
fn holds(kernel: &mut Kernel, pgd: u64, paging: &Paging, facts: &[(u64, u64)]) -> io::Result<bool> {
    for &(addr, content) in facts {
        if read_word(kernel, pgd, paging, addr)? != Some(content) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Reads one word of our own memory the long way, through the page tables.
fn read_word(kernel: &mut Kernel, pgd: u64, p: &Paging, addr: u64) -> io::Result<Option<u64>> {
    let mut table = pgd;
    let shifts: &[u32] = if p.levels == 5 { &[48, 39, 30, 21, 12] } else { &[39, 30, 21, 12] };
    for &shift in shifts {
        let Some(entry) = kernel.peek(table.wrapping_add((addr >> shift & 511) * 8))? else {
            return Ok(None);
        };
        if entry & 1 == 0 {
            return Ok(None);
        }
        let next = p.base.wrapping_add(entry & p.mask);
        let huge = matches!(shift, 21 | 30) && entry & 0x80 != 0;
        if huge || shift == 12 {
            let size = 1_u64 << shift;
            let page = p.base.wrapping_add(entry & p.mask & !(size - 1));
            return kernel.peek(page.wrapping_add(addr & (size - 1)));
        }
        table = next;
    }
    Ok(None)
}

/// Bits of an entry that can be a physical address: by /proc/cpuinfo first (memory encryption puts
/// a flag above them), else all that the architecture allows.
fn physical_masks() -> Vec<u64> {
    let all = (1_u64 << 52) - 4096;
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let bits = text
        .lines()
        .find_map(|line| {
            line.strip_prefix("address sizes")?.split([':', ' ', '\t']).find_map(|w| w.parse().ok())
        })
        .filter(|bits: &u32| (32..=52).contains(bits));
    let mut masks: Vec<u64> = bits.map(|bits| (1_u64 << bits) - 4096).into_iter().collect();
    if masks.first() != Some(&all) {
        masks.push(all);
    }
    masks
}
