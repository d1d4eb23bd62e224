//! Measures what `census` costs the core, and how soon it has seen everything, over made-up memory.
//!
//! `cargo run --release -p isotherm-core --example census_cost [GiB..]` prints for scattered hot
//! blocks of several sizes: when 95 % and all of the memory was armed once, precision and recall of
//! the regions after 5 and 15 s (virtual time; a unit is charged as measured on real memory), and
//! the real CPU time of the core per second, by step. Answers cost next to nothing.
#![expect(clippy::print_stdout, reason = "a measurement for people to read")]

use std::time::Instant;

use isotherm_core::unit::{PageBits, UNIT};
use isotherm_core::{AddrRange, Attrs, Context, Method, TargetId, Time, UnitCheck, Wish};

const START: u64 = 0x7f00_0000_0000;
/// What a unit costs on real memory, in ns: to arm in chunks of 16 MiB, and to look at.
const ARM_NS: u64 = 30_000;
const LOOK_NS: u64 = 1_500;
const SECOND: u64 = 1_000_000_000;

/// Memory of which blocks of one size are touched all the time.
struct World {
    units: u64,
    /// Bytes of a block, and one in how many is hot.
    block: u64,
    one_in: u64,
    /// Units that were armed once: their cold pages are old.
    armed: Vec<bool>,
}

impl World {
    const fn is_hot(&self, addr: u64) -> bool {
        let nr = (addr - START) / self.block;
        let mixed = (nr ^ 0x5bd1_e995).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed ^ (mixed >> 29)).is_multiple_of(self.one_in)
    }

    fn hot_pages(&self, start: u64) -> PageBits {
        let mut bits = PageBits::default();
        for (word, nr) in bits.0.iter_mut().zip(0_u64..) {
            for bit in 0..64 {
                *word |= u64::from(self.is_hot(start + (nr * 64 + bit) * 4096)) << bit;
            }
        }
        bits
    }

    fn answer(&mut self, unit: &mut UnitCheck, arms: bool) {
        let nr = usize::try_from((unit.start - START) / UNIT).unwrap_or(0);
        unit.answered = true;
        unit.present = PageBits::ALL;
        unit.young = if self.armed[nr] { self.hot_pages(unit.start) } else { PageBits::ALL };
        self.armed[nr] |= arms && unit.pages.count() > 1;
    }

    fn seen(&self) -> f64 {
        share(self.armed.iter().filter(|armed| **armed).count() as u64, self.units)
    }
}

fn share(part: u64, whole: u64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "for people")]
    let share = part as f64 / whole.max(1) as f64;
    share
}

/// Precision and recall of the bytes in regions of at least half of the largest count.
fn score(context: &Context, world: &World) -> (f64, f64) {
    let snapshot = context.snapshot();
    let (mut found, mut right, mut hot) = (0, 0, 0);
    for region in snapshot.targets.iter().flat_map(|t| &t.regions) {
        let called = region.resolved && region.nr_accesses * 2 >= snapshot.max_nr_accesses;
        let mut at = region.range.start;
        while at < region.range.end {
            let is_hot = u64::from(world.is_hot(at));
            hot += is_hot;
            found += u64::from(called);
            right += u64::from(called) & is_hot;
            at += 4096;
        }
    }
    (share(right, found), share(right, hot))
}

fn main() {
    let sizes: Vec<u64> = std::env::args().skip(1).filter_map(|arg| arg.parse().ok()).collect();
    let sizes = if sizes.is_empty() { vec![1, 16] } else { sizes };
    println!(
        "   GiB  block KiB   95 % s   all s   after 5 s: p, r    15 s: p, r   core us/s: arm   \
         look   window's end (median us)   set: % of a CPU"
    );
    for gib in sizes {
        for block in [2048, 256, 64, 4] {
            measure(gib, block << 10);
        }
    }
}

fn measure(gib: u64, block: u64) {
    let units = (gib << 30) / UNIT;
    let armed = vec![false; usize::try_from(units).unwrap_or(0)];
    let mut world = World { units, block, one_in: 13, armed };
    let attrs = Attrs { method: Method::Census, ..Attrs::default() };
    let mut context = Context::new(attrs, 1).expect("valid attributes");
    context.add_target(TargetId(0));
    let (mut now, mut cpu, mut set_ns) = (Time(0), 0, 0);
    let (mut most, mut all) = (None, None);
    let mut scores = Vec::new();
    // By step: arming, looking, ending a window; the first 20 s are not counted.
    let (mut steps, mut ends) = ([0_u64; 2], Vec::new());
    while now.0 < 40 * SECOND {
        let begun = Instant::now();
        let wish = context.poll(now);
        let ns = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(0);
        cpu += ns;
        let is_late = now.0 > 20 * SECOND;
        match wish {
            Wish::Update => {
                let area = AddrRange::new(START, START + units * UNIT);
                context.set_ranges(TargetId(0), &[area]).expect("a sorted range");
            }
            Wish::PrepareUnits | Wish::CheckUnits => {
                let arms = wish == Wish::PrepareUnits;
                let checks = context.units_mut();
                checks.iter_mut().for_each(|unit| world.answer(unit, arms));
                let cost = checks.len() as u64 * if arms { ARM_NS } else { LOOK_NS };
                context.set_units_cpu(Some((cpu, cpu + cost)));
                cpu += cost;
                set_ns += if is_late { cost } else { 0 };
                steps[usize::from(!arms)] += if is_late { ns } else { 0 };
                // Late for the next sample if that took long.
                now = Time(now.0 + cost);
                if arms {
                    let s = share(now.0, SECOND);
                    most = most.or_else(|| (world.seen() >= 0.95).then_some(s));
                    all = all.or_else(|| (world.seen() >= 1.0).then_some(s));
                }
            }
            Wish::Sleep(until) => now = until.max(now),
            Wish::Snapshot => {
                if is_late {
                    ends.push(ns / 1000);
                }
                if [5, 15].get(scores.len()).is_some_and(|s| now.0 >= s * SECOND) {
                    scores.push(score(&context, &world));
                }
            }
            _ => {}
        }
    }
    ends.sort_unstable();
    let end = ends.get(ends.len() / 2).copied().unwrap_or(0);
    let s = |s: Option<f64>| s.map_or("never".into(), |s: f64| format!("{s:.2}"));
    let p = |nr: usize| scores.get(nr).map_or(String::new(), |(p, r)| format!("{p:.2} {r:.2}"));
    println!(
        "{gib:>6}  {:>9}  {:>7} {:>7}   {:>15}   {:>11}   {:>14} {:>6}   {end:>24}   {:>15.2}",
        block >> 10,
        s(most),
        s(all),
        p(0),
        p(1),
        steps[0] / 20_000,
        steps[1] / 20_000,
        share(set_ns, 20 * SECOND / 100),
    );
}
