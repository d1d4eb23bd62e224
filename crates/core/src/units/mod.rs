//! Numbers with units, as people write and read them: sizes, times, shares. Pure text, no I/O.
//!
//! One grammar holds wherever Isotherm reads such a number:
//!
//! ```text
//! quantity := number [space] [unit]      number := digits [ "." digits ]      no sign, no exponent
//! size     := quantity in  B K M G T P   powers of 1024; also KB, KiB, k, kb; without a unit bytes
//! time     := quantity in  ns us (µs) ms s m (min) h d
//! share    := quantity in  % permil (‰) bp
//! address  := 0x HEX | size in whole bytes
//! bounds   := digits ".." digits
//! ```
//!
//! A time without a unit is refused, since people mean seconds in one place and microseconds in
//! another; only 0 needs none. DAMON's own files are the exception: there a bare number is
//! microseconds ([`interval_us`]).
//!
//! Reading is exact. A decimal fraction is scaled in integers and rounded to the nearest unit, or
//! refused where rounding would lose something that matters.
//!
//! There are two ways to write a number. [`show_size`], [`show_interval`] and [`show_share`] are
//! exact and short, for texts that are read again. [`bytes`], [`mib`], [`span`] and [`percent`]
//! round, for people. The grammar reads both. It reads an exact text as the same number, and a
//! rounded one as a number within the digits shown.
//!
//! ```
//! use isotherm_core::units::{bytes, show_size, size};
//!
//! assert_eq!(size("1.5 GiB"), Ok(3 << 29));
//! assert_eq!(show_size(3 << 29), "1536M");
//! assert_eq!(bytes(3 << 29), "1.50 GiB");
//! ```

mod error;
mod parse;
mod show;

pub use error::UnitError;
pub use parse::{
    Decimal, SHARE, SIZE, TIME, address, bounds, duration, interval_us, interval_us_with_unit,
    millis, share_bp, share_unit, size, size_unit, span_ns, split, time_unit_ns,
};
pub use show::{
    MIB, bytes, counted, mib, percent, show_interval, show_share, show_size, span, three_digits,
};
