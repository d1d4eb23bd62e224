//! The one place that makes memory of a target old, and tells all others who watch the same pages.
//!
//! A page that loses its accessed bit looks idle to everybody who looks at it next. Those who would
//! be misled are the monitor, whose check of the page may be due, and the evidence of the other
//! schemes. So nothing here clears before both have been told which pages were young.
//!
//! The clears that the monitor makes itself come the other way:
//! [`Actor::note_touched`](crate::apply::Actor::note_touched) tells the evidence of all schemes.

use std::io;

use isotherm_core::AddrRange;

use crate::apply::evidence::look::{Look, Seen};
use crate::apply::pages::Bits;
use crate::apply::target::TargetState;
use crate::{Advice, Outcome};

impl TargetState {
    /// Makes `ranges` old by advice for a scheme. `seen` is what a look found there just before,
    /// granule by granule: the pages that are young in it are told to the others.
    pub(in crate::apply) fn make_old(
        &mut self,
        look: &mut dyn Look,
        scheme: usize,
        seen: &[(u64, Seen)],
        ranges: &[AddrRange],
        stop: &mut dyn FnMut() -> bool,
    ) -> Outcome {
        let mut young = Vec::new();
        for (start, seen) in seen {
            seen.young.append_to(*start, 0, &mut young);
        }
        let mut leaves = seen.iter().flat_map(|(start, seen)| leaves(*start, *seen));
        look.made_old(self.id, &mut leaves);
        self.tell_other_schemes(scheme, &young);
        let batch = Advice::Cold.default_batch_bytes();
        self.process.advise(Advice::Cold, ranges, batch, stop)
    }

    /// Makes all pages of `range` old by marks for a scheme; see [`Look::mark`]. Marking also says
    /// which pages had been touched, so the other schemes are told afterwards. The monitor is not
    /// told: a page that it watches, and that was touched since its last look, reads idle once. The
    /// error is one sample per page and confirm time.
    pub(in crate::apply) fn mark_old(
        &mut self,
        look: &mut dyn Look,
        scheme: usize,
        range: AddrRange,
        f: &mut dyn FnMut(u64, Seen),
    ) -> Option<io::Result<()>> {
        let mut young = Vec::new();
        let marked = look.mark(self.id, range, &mut |start, found, before: Bits| {
            before.append_to(start, 0, &mut young);
            f(start, found);
        })?;
        self.tell_other_schemes(scheme, &young);
        Some(marked)
    }

    /// Tells the evidence of all other schemes, and what is noted of the monitor's looks, what was
    /// young.
    fn tell_other_schemes(&mut self, scheme: usize, young: &[AddrRange]) {
        young.iter().for_each(|range| self.monitored.touched(*range));
        let others = self.evidence.iter_mut().enumerate().filter(|(nr, _)| *nr != scheme);
        for (_, evidence) in others {
            young.iter().for_each(|range| evidence.touched(range.start, range.len()));
        }
    }
}

/// Where the young leaves of a granule begin.
fn leaves(start: u64, seen: Seen) -> Vec<u64> {
    if seen.huge {
        return if seen.young.is_empty() { Vec::new() } else { vec![start] };
    }
    let mut leaves = Vec::new();
    seen.young.runs(|first, behind| leaves.extend((first..behind).map(|nr| start + (nr << 12))));
    leaves
}

#[cfg(test)]
mod tests {
    use isotherm_core::{TargetId, Time};

    use super::*;
    use crate::Process;
    use crate::apply::evidence::armed::Rules;
    use crate::apply::pages::GRANULE;

    const S: u64 = 1_000_000_000;
    const WHOLE: AddrRange = AddrRange::new(0, GRANULE);

    /// The monitor's side: remembers which leaves it was told of.
    #[derive(Default)]
    struct Told(Vec<u64>);

    impl Look for Told {
        fn look(
            &mut self,
            _: TargetId,
            _: AddrRange,
            _: &mut dyn FnMut(u64, Seen),
        ) -> io::Result<()> {
            Ok(())
        }

        fn made_old(&mut self, _: TargetId, leaves: &mut dyn Iterator<Item = u64>) {
            self.0.extend(leaves);
        }
    }

    #[test]
    fn who_watches_the_same_pages_is_told_before_they_are_made_old() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let mut state = TargetState::new(TargetId(1), Process::open(child.id()).unwrap());
        let old = Seen { present: Bits::ALL, ..Seen::default() };
        for scheme in 0..2 {
            state.evidence(scheme).arm(0, WHOLE, old, Time(0));
        }
        let young = Bits::of(0, AddrRange::new(3 << 12, 5 << 12));
        let mut told = Told::default();
        let seen = [(0, Seen { young, ..old })];
        state.make_old(&mut told, 0, &seen, &[], &mut || false);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(told.0, [3 << 12, 4 << 12], "the monitor");
        let rules = Rules { confirm_ns: 10 * S, window_ns: 0, max_mistakes_bp: 10_000 };
        for (scheme, idle) in [(0, 512), (1, 510)] {
            let evidence = state.evidence(scheme);
            evidence.confirm(0, WHOLE, old, rules, Time(5 * S));
            let found = evidence.confirm(0, WHOLE, old, rules, Time(10 * S));
            assert_eq!(found.map(Bits::count), Some(idle), "scheme {scheme}");
        }
    }
}
