//! What census allocates for what it watches.
#![expect(clippy::unwrap_used, reason = "in a test")]

use isotherm_core::unit::{PageBits, UNIT};
use isotherm_core::{AddrRange, Attrs, Context, Method, TargetId, Time, Wish};

const START: u64 = 0x7f00_0000_0000;
/// What does not grow with the target: the regions, their runs while they are drawn, the lists of
/// looks to come.
const FIXED: u64 = 4 << 20;

/// Pages that are touched all the time: in every second cell of 64 KiB, or nowhere.
fn touched(start: u64, scattered: bool) -> PageBits {
    let odd = (start / UNIT) % 2;
    if scattered { PageBits([0xffff_0000_ffff_0000 >> (odd * 16); 8]) } else { PageBits::default() }
}

/// Runs census for some seconds, with costs as on real memory.
fn run(bytes: u64, scattered: bool) {
    let attrs = Attrs { method: Method::Census, ..Attrs::default() };
    let mut context = Context::new(attrs, 1).unwrap();
    context.add_target(TargetId(0));
    let (mut now, mut cpu) = (Time(0), 0);
    while now < Time(12_000_000_000) {
        match context.poll(now) {
            Wish::Update => {
                // The target grows, so that units are sorted in anew.
                let len = if now.0 < 2_000_000_000 { bytes / 2 } else { bytes };
                let area = AddrRange::new(START, START + len);
                context.set_ranges(TargetId(0), &[area]).unwrap();
            }
            wish @ (Wish::PrepareUnits | Wish::CheckUnits) => {
                for unit in context.units_mut() {
                    unit.answered = true;
                    unit.present = PageBits::ALL;
                    unit.young = touched(unit.start, scattered);
                }
                let each = if wish == Wish::PrepareUnits { 30_000 } else { 1_500 };
                let before = cpu;
                cpu += context.units_mut().len() as u64 * each;
                context.set_units_cpu(Some((before, cpu)));
            }
            Wish::Sleep(until) => now = until.max(now),
            _ => {}
        }
    }
    context.verify();
}

#[test]
fn the_state_is_below_half_a_thousandth_of_what_is_watched() {
    for (gib, scattered) in [(8, true), (16, false), (32, true)] {
        let bytes = gib << 30;
        let info = allocation_counter::measure(|| run(bytes, scattered));
        let allowed = bytes / 2000 + FIXED;
        // While units are sorted in, there are two lists of them: the old one of half the size.
        let sorting = bytes / 4000;
        let peak = info.bytes_max;
        assert!(peak <= allowed + sorting, "{gib} GiB, {scattered}: {peak} of {allowed} bytes");
    }
}
