//! Page maps: what snapshots say of single pages is read back, before the snapshots themselves.
#![expect(clippy::unwrap_used, reason = "a failing test says enough")]

mod common;

use std::collections::BTreeMap;

use common::{Owned, event, read, write};
use isotherm_core::{Snapshot, TargetId, UnitInfo};
use isotherm_record::PageWindow;
use proptest::prelude::*;

/// What the record should say of the windows, and of the units at its end.
type Said = (Vec<PageWindow>, BTreeMap<(TargetId, u64), UnitInfo>);

fn said_by(s: &Snapshot, (windows, units): &mut Said) {
    if s.targets.iter().all(|t| t.touched.is_none() && t.units.is_empty()) {
        return;
    }
    let touched = s.targets.iter().filter_map(|t| Some((t.id, t.touched?)));
    windows.push(PageWindow {
        seq: s.seq,
        start: s.start,
        end: s.end,
        sample_us: s.sample_us,
        aggr_us: s.aggr_us,
        touched: touched.collect(),
    });
    let all = s.targets.iter().flat_map(|t| t.units.iter().map(|u| ((t.id, u.start), *u)));
    units.extend(all);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn page_maps_round_trip(events in prop::collection::vec(event(), 0..24)) {
        let (mut want, mut got) = (Said::default(), Said::default());
        for e in &events {
            if let Owned::Snapshot(s) = e {
                said_by(s, &mut want);
            }
        }
        let (read, damage) = read(&write(&events)).unwrap();
        prop_assert!(damage.is_none(), "{damage}");
        let mut to_come = 0;
        for e in &read {
            match e {
                Owned::Pages(pages) => {
                    to_come += pages.windows.len();
                    for u in &pages.units {
                        prop_assert!(usize::try_from(u.window).unwrap() < pages.windows.len());
                        got.1.insert((u.target, u.unit.start), u.unit);
                    }
                    got.0.extend(pages.windows.iter().cloned());
                }
                Owned::Snapshot(s) if got.0.iter().any(|w| (w.seq, w.end) == (s.seq, s.end)) => {
                    to_come -= 1;
                }
                _ => {}
            }
        }
        prop_assert_eq!(to_come, 0, "every window is told before its snapshot");
        prop_assert_eq!(got, want);
    }
}
