//! Tests of the set `idle` over real processes: opening the set or saying why not, and targets.

use std::path::Path;
use std::sync::{Mutex, MutexGuard};

use isotherm_core::AddrRange;
use isotherm_host::error::SetKind;
use isotherm_ops::idle::IdleOps;
use isotherm_pages::idle::BITMAP;

use crate::odd::Odd;

pub(crate) const PAGE: u64 = 4096;
pub(crate) const BASE: u64 = 0x2000_0000_0000;

/// Tests run one at a time, because the whole machine shares one set of marks.
static ONE: Mutex<()> = Mutex::new(());

pub(crate) type Open = fn() -> IdleOps;

/// The set in both forms, or why this test cannot run here, printed.
pub(crate) fn sets() -> Option<(MutexGuard<'static, ()>, [Open; 2])> {
    let one = ONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    match IdleOps::new() {
        Ok(set) => assert!(set.reads_page_tables(), "the lab's kernels have BPF"),
        Err(e) if matches!(e.kind(), SetKind::NotSupported | SetKind::Permission) => {
            // A kernel that has it must not be passed over, if we are root of it.
            let has_it = Path::new(BITMAP).exists() && rustix::process::geteuid().is_root();
            assert!(!has_it, "{e}");
            eprintln!("skipped: {e}");
            return None;
        }
        Err(e) => panic!("{e}"),
    }
    Some((one, [|| IdleOps::new().unwrap(), || IdleOps::by_pagemap().unwrap()]))
}

pub(crate) fn range(from: u64, to: u64) -> AddrRange {
    AddrRange::new(BASE + from, BASE + to)
}

/// A target with memory of its own, filled.
pub(crate) fn target(memory: AddrRange, kind: &str) -> Option<Odd> {
    let mut odd = Odd::start()?;
    for word in ["anon", kind, "fill"] {
        odd.tell(word, memory, "");
    }
    Some(odd)
}

/// Touches pages of a process after a flush of its TLB. The set does not flush, and an access
/// through a cached TLB entry sets no accessed bit. Unmapping more pages than the kernel flushes
/// one by one flushes the whole TLB.
pub(crate) fn touch(odd: &mut Odd, pages: &[AddrRange]) {
    let scratch = AddrRange::new(BASE - (1 << 30), BASE - (1 << 30) + 64 * PAGE);
    for word in ["anon", "fill", "unmap"] {
        odd.tell(word, scratch, "");
    }
    pages.iter().for_each(|range| odd.tell("touch", *range, ""));
}
