//! Measures what many targets cost the core with the method `census`, without any real memory.
//!
//! `cargo run --release -p isotherm-core --example targets_cost [TARGETS..]` prints the CPU time of
//! the core per second of virtual time, by step, after the first minute: at the default intervals
//! and at those of job `cgroups`. Most targets are like a process that sleeps; one in a hundred
//! holds 64 MiB, half of which is hot. Answers are not counted, and are charged to the budget as
//! measured on real memory.
#![expect(clippy::print_stdout, reason = "a measurement for people to read")]

use std::time::Instant;

use isotherm_core::unit::{PageBits, UNIT};
use isotherm_core::{AddrRange, Attrs, Context, Method, TargetId, Time, UnitCheck, Wish};

/// What a unit costs on real memory, in ns: to arm and to look at; and a wake-up.
const ARM_NS: u64 = 60_000;
const LOOK_NS: u64 = 2_000;
const WAKE_NS: u64 = 50_000;
const SECOND: u64 = 1_000_000_000;
/// What is not counted, and what is.
const START_S: u64 = 60;
const COUNTED_S: u64 = 30;
/// Areas of a target, of so many pages, each far from the next.
const AREAS: u64 = 10;
const PAGES: u64 = 40;
/// One in so many targets holds memory, of so many units.
const HOLDERS: u32 = 100;
const HELD: u64 = 32;

fn start_of(target: TargetId, area: u64) -> u64 {
    0x5500_0000_0000 + (u64::from(target.0 % 7) << 24) + area * (1 << 34)
}

fn areas(target: TargetId) -> Vec<AddrRange> {
    let holds = target.0.is_multiple_of(HOLDERS);
    let pages = |nr| if holds && nr == 0 { HELD * 512 } else { PAGES };
    let area = |nr| {
        let start = start_of(target, nr);
        AddrRange::new(start, start + pages(nr) * 4096)
    };
    (0..AREAS).map(area).collect()
}

fn answer(unit: &mut UnitCheck) {
    let start = start_of(unit.target, 0);
    let holds = unit.target.0.is_multiple_of(HOLDERS);
    let is_held = holds && (start..start + HELD * UNIT).contains(&unit.start);
    let is_hot = is_held && unit.start < start + HELD / 2 * UNIT;
    unit.answered = true;
    unit.present = if is_held { PageBits::ALL } else { unit.pages };
    unit.young = if is_hot { PageBits::ALL } else { PageBits::default() };
}

fn main() {
    let numbers: Vec<u32> = std::env::args().skip(1).filter_map(|arg| arg.parse().ok()).collect();
    let numbers = if numbers.is_empty() { vec![50, 500, 2000] } else { numbers };
    println!(
        "targets   sample   core: % of a CPU   to arm   to look   window's end   the rest   wake-ups/s"
    );
    let slow = (100_000, 1_000_000, 10_000_000);
    for nr in numbers {
        for (sample_us, aggr_us, update_us) in [(5_000, 100_000, 1_000_000), slow] {
            let method = Method::Census;
            measure(nr, Attrs { method, sample_us, aggr_us, update_us, ..Attrs::default() });
        }
    }
}

fn measure(nr: u32, attrs: Attrs) {
    let mut context = Context::new(attrs, 1).expect("valid attributes");
    (0..nr).for_each(|id| context.add_target(TargetId(id)));
    let (mut now, mut cpu, mut nr_wakes) = (Time(0), 0, 0_u64);
    // To arm, to look, to end a window, all else.
    let mut steps = [0_u64; 4];
    while now.0 < (START_S + COUNTED_S) * SECOND {
        let begun = Instant::now();
        let wish = context.poll(now);
        let ns = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(0);
        cpu += ns;
        let is_counted = now.0 > START_S * SECOND;
        let step = match wish {
            Wish::PrepareUnits => 0,
            Wish::CheckUnits => 1,
            Wish::Snapshot => 2,
            _ => 3,
        };
        steps[step] += if is_counted { ns } else { 0 };
        match wish {
            Wish::Update => {
                for id in (0..nr).map(TargetId) {
                    context.update_target(id, &areas(id));
                }
            }
            Wish::PrepareUnits | Wish::CheckUnits => {
                let each = if wish == Wish::PrepareUnits { ARM_NS } else { LOOK_NS };
                let checks = context.units_mut();
                checks.iter_mut().for_each(answer);
                let cost = checks.len() as u64 * each;
                context.set_units_cpu(Some((cpu, cpu + cost)));
                cpu += cost;
                now = Time(now.0 + cost);
            }
            Wish::Sleep(until) => {
                now = until.max(now);
                cpu += WAKE_NS;
                nr_wakes += u64::from(is_counted);
            }
            _ => {}
        }
    }
    #[expect(clippy::cast_precision_loss, reason = "for people")]
    let percent = |ns: u64| ns as f64 * 100.0 / (COUNTED_S * SECOND) as f64;
    let [arm, look, end, rest] = steps.map(percent);
    println!(
        "{nr:>7}  {:>4} ms   {:>16.2}   {arm:>6.2}   {look:>7.2}   {end:>12.2}   {rest:>8.2}   {:>10}",
        attrs.sample_us / 1000,
        percent(steps.iter().sum()),
        nr_wakes / COUNTED_S,
    );
}
