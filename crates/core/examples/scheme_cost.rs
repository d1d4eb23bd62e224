//! Measures what a pass of a scheme over all regions costs the core, by region: a quota for the
//! coldest memory, for which all regions are scored, in windows of one pass; a tenth of the memory
//! is hot.
//!
//! `cargo run --release -p isotherm-core --example scheme_cost` prints, per number of regions, the
//! median and the 99th percentile of what lies between a snapshot and the next sample: without a
//! scheme, which is the end of the window, the rest being the pass; with one that only counts all,
//! one whose quota is a hundredth of the memory, and one without a limit. What the pass asks for is
//! answered at once.
#![expect(clippy::print_stdout, reason = "a measurement for people to read")]

use std::time::Instant;

use isotherm_core::scheme::{Action, Age, Bounds, Frequency, Pattern, Quota, Weights};
use isotherm_core::{
    AddrRange, Applied, Attrs, Context, Method, PageState, Scheme, TargetId, Time, Wish,
};

/// Size of a region, in bytes.
const AREA: u64 = 1 << 20;
const WARM_UP: usize = 100;
const MEASURED: usize = 500;

/// What is cold, and has been for a while.
fn scheme(action: Action, sz: u64) -> Scheme {
    let pattern = Pattern {
        nr_accesses: Frequency::Samples(Bounds::new(0, 2)),
        age: Age::Windows(Bounds::new(0, u32::MAX)),
        ..Pattern::ALL
    };
    let weights = Weights { sz: 1, nr_accesses: 3, age: 7 };
    let quota = Quota { sz, weights, ..Quota::default() };
    Scheme { pattern, action, quota, ..Scheme::default() }
}

/// Costs from snapshots to the samples that follow, in ns per region.
fn measure(nr_regions: u64, scheme: Option<Scheme>) -> Vec<f64> {
    let attrs = Attrs {
        method: Method::Resample,
        aggr_us: 5_000,
        max_nr_regions: nr_regions,
        ..Attrs::default()
    };
    let mut context = Context::new(attrs, 1).expect("valid attributes");
    context.add_target(TargetId(0));
    context.commit_schemes(scheme.into_iter().collect::<Vec<_>>());
    let start = |i| (1 << 40) + i * 2 * AREA;
    let areas: Vec<_> =
        (0..nr_regions).map(|i| AddrRange::new(start(i), start(i) + AREA)).collect();
    let (mut now, mut costs, mut since) = (Time(0), Vec::new(), None);
    while costs.len() < WARM_UP + MEASURED {
        let wish = context.poll(now);
        if wish == Wish::Apply {
            let request = context.request().0;
            let done = request.range.len().min(request.max_bytes);
            context.applied(Applied { covered: done, asked: done, ..Applied::default() });
            continue;
        }
        if let Some((since, nr)) = since.take() {
            let since: Instant = since;
            costs.push(since.elapsed().as_secs_f64() * 1e9 / nr);
        }
        match wish {
            Wish::Prepare | Wish::Check => answer(&mut context),
            Wish::Update => context.set_ranges(TargetId(0), &areas).expect("sorted ranges"),
            Wish::Sleep(until) => now = until,
            Wish::Snapshot => {
                #[expect(clippy::cast_precision_loss, reason = "a few thousand regions")]
                let nr = context.snapshot().nr_regions() as f64;
                since = Some((Instant::now(), nr));
            }
            _ => unreachable!("no goal, and the target stays"),
        }
    }
    costs.split_off(WARM_UP)
}

/// Each tenth area is hot.
fn answer(context: &mut Context) {
    for check in context.batch_mut() {
        let hot = (check.addr / (2 * AREA)).is_multiple_of(10);
        check.state = if hot { PageState::Young } else { PageState::Old };
    }
}

fn main() {
    println!("ns per region           p50     p99");
    for nr in [1000, 10_000] {
        for (name, scheme) in [
            ("none", None),
            ("count", Some(scheme(Action::Stat, 0))),
            ("1 % of it", Some(scheme(Action::Pageout, nr * AREA / 100))),
            ("all of it", Some(scheme(Action::Pageout, 0))),
        ] {
            let mut costs = measure(nr, scheme);
            costs.sort_unstable_by(f64::total_cmp);
            let (p50, p99) = (costs[MEASURED / 2], costs[MEASURED * 99 / 100]);
            println!("{nr:>6} {name:<12} {p50:>8.1} {p99:>7.1}");
        }
    }
}
