//! Proof that `isotherm-core` uses no operating system.
//!
//! There is one panic handler in a program, and `std` brings its own. This crate brings another. If
//! the core, or anything that it depends on, linked `std`, the compiler would find two and refuse
//! with "found duplicate lang item `panic_impl`". So `cargo check` here succeeds only while the
//! whole graph under the core is `no_std`; it needs no target without an operating system to be
//! installed.
//!
//! What this cannot see is a `no_std` crate that makes system calls by itself: that the core
//! forbids unsafe code and depends on `libm` alone takes care of it. `check.sh` runs all three.
//!
//! A library and not a program, because a program would need a global allocator, which cannot be
//! written without unsafe code; the compiler looks for the second panic handler all the same.
#![no_std]
#![forbid(unsafe_code)]

#[cfg(feature = "with-std")]
extern crate std;

use core::panic::PanicInfo;

use isotherm_core::scheme::Pattern;
use isotherm_core::{AddrRange, Applied, Attrs, AttrsError, Context, Scheme, TargetId, Time, Wish};

/// Uses the core as a driver would, so that nothing of its outside is missing from the proof.
///
/// # Errors
///
/// If the default attributes were refused.
pub fn drive(now: Time) -> Result<Wish, AttrsError> {
    let mut context = Context::new(Attrs::default(), 1)?;
    context.add_target(TargetId(0));
    while context.poll(now) == Wish::Update {
        context.update_target(TargetId(0), &[AddrRange::new(0x1000, 0x9000)]);
    }
    context.commit_schemes([Scheme { pattern: Pattern::ALL, ..Scheme::default() }]);
    while context.poll(now) == Wish::Apply {
        let covered = context.request().0.range.len();
        context.applied(Applied { covered, ..Applied::default() });
    }
    context.verify();
    Ok(context.poll(now))
}

/// The second panic handler.
#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    loop {
        core::hint::spin_loop();
    }
}
