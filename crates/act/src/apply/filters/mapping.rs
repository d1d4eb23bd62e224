//! What mappings say: whether they are shared, and their names.

use isotherm_core::AddrRange;
use isotherm_core::addr::round_down;
use isotherm_host::glob::glob;
use isotherm_host::proc::{Proc, parse_maps};

use crate::Process;
use crate::apply::pages::{Bits, GRANULE};

/// A mapping, as filters see it.
#[derive(Debug)]
pub(super) struct Mapped {
    range: AddrRange,
    shared: bool,
    /// The patterns that its name matches, by number.
    matches: Vec<u32>,
}

/// The mappings of a range, in order.
#[derive(Debug, Default)]
pub(super) struct Mappings {
    list: Vec<Mapped>,
}

impl Mappings {
    /// Reads those of `range`; a process that has gone has none.
    pub(super) fn read(process: &Process, range: AddrRange, patterns: &[String]) -> Self {
        let mut text = Vec::new();
        if Proc::default().read(process.pid(), "maps", &mut text).is_err() {
            return Self::default();
        }
        // A huge page can reach beyond.
        let range = AddrRange::new(
            round_down(range.start, GRANULE),
            range.end.checked_next_multiple_of(GRANULE).unwrap_or(range.end),
        );
        let inside = parse_maps(&text).filter(|m| m.range.intersects(&range));
        let mapped = inside.map(|m| {
            let matches = (0_u32..).zip(patterns).filter(|(_, p)| glob(p.as_bytes(), m.name));
            Mapped {
                range: m.range,
                shared: m.perms.shared,
                matches: matches.map(|(nr, _)| nr).collect(),
            }
        });
        Self { list: mapped.collect() }
    }

    /// The pages of the granule at `start` in any mapping.
    pub(super) fn all(&self, start: u64) -> Bits {
        self.pages(start, |_| true)
    }

    /// Those in shared mappings.
    pub(super) fn shared(&self, start: u64) -> Bits {
        self.pages(start, |m| m.shared)
    }

    /// Those in mappings whose name matches pattern number `nr`.
    pub(super) fn named(&self, start: u64, nr: u32) -> Bits {
        self.pages(start, |m| m.matches.contains(&nr))
    }

    fn pages(&self, start: u64, is: impl Fn(&Mapped) -> bool) -> Bits {
        let first = self.list.partition_point(|m| m.range.end <= start);
        let here = self.list[first..].iter().take_while(|m| m.range.start < start + GRANULE);
        here.filter(|m| is(m)).fold(Bits::default(), |bits, m| bits.or(Bits::of(start, m.range)))
    }
}
