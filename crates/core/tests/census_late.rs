//! Census when arming begins late in a sample, as after a window's end that took long.

use std::collections::BTreeMap;

use isotherm_core::unit::{PageBits, UNIT};
use isotherm_core::{AddrRange, Attrs, Context, Method, TargetId, Time, Wish};

const START: u64 = 0x7f00_0000_0000;
const MS: u64 = 1_000_000;

/// All of the memory is touched all the time. Each answer about arming comes 2 ms into its sample.
/// The looks at the ends of the spans must come when the spans are over, and not 2 ms before: then
/// nothing would be known until it is the units' turn again.
#[test]
fn what_is_armed_late_in_a_sample_is_looked_at_when_its_spans_are_over() {
    let units = 32;
    let attrs = Attrs { method: Method::Census, ..Attrs::default() };
    let mut context = Context::new(attrs, 1).unwrap();
    context.add_target(TargetId(0));
    let mut now = Time(0);
    let mut known = BTreeMap::new();
    while now < Time(1500 * MS) {
        match context.poll(now) {
            Wish::Update => {
                let area = AddrRange::new(START, START + units * UNIT);
                context.set_ranges(TargetId(0), &[area]).unwrap();
            }
            wish @ (Wish::PrepareUnits | Wish::CheckUnits) => {
                if wish == Wish::PrepareUnits {
                    now = Time(now.0 + 2 * MS);
                }
                for unit in context.units_mut() {
                    unit.answered = true;
                    (unit.present, unit.young) = (PageBits::ALL, PageBits::ALL);
                }
                context.set_units_cpu(Some((0, 0)));
            }
            Wish::Sleep(until) => now = until.max(now),
            Wish::Snapshot => {
                let told = context.snapshot().targets.iter().flat_map(|target| &target.units);
                known.extend(told.map(|unit| (unit.start, unit.touched[1])));
            }
            _ => {}
        }
    }
    let nr = known.values().filter(|pages| **pages == Some(PageBits::ALL)).count();
    assert_eq!(nr as u64, units, "{known:x?}");
}
