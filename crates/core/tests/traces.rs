//! Golden loop traces of the reference (`DAMON-REFERENCE` §8.5): setups L1 and L2, step by step.
#![expect(clippy::unwrap_used, reason = "in a test it is the assertion")]

use isotherm_core::monitor::{Context, Wish};
use isotherm_core::{AddrRange, Attrs, Method, PageState, Rng, TargetId, Time};

/// Runs `windows` windows over `[0, 1000)`, `[300, 400)` being accessed always; returns for each
/// the regions as `range:nr/age`, and the starts of the regions after the split that followed.
fn trace(
    min_nr_regions: u64,
    max_nr_regions: u64,
    windows: usize,
) -> (String, Vec<(String, String)>) {
    let attrs = Attrs {
        sample_us: 5_000,
        aggr_us: 25_000,
        min_nr_regions,
        max_nr_regions,
        min_region_sz: 1,
        method: Method::Resample,
        strict: true,
        ..Attrs::reference()
    };
    let mut ctx = Context::with_rng(attrs, Rng::constant(0x8000_0000)).unwrap();
    ctx.add_target(TargetId(0));
    let mut now = Time(0);
    let (mut start, mut out) = (None, Vec::new());
    let mut snapshot = None;
    loop {
        match ctx.poll(now) {
            Wish::Update => ctx.set_ranges(TargetId(0), &[AddrRange::new(0, 1000)]).unwrap(),
            Wish::Sleep(until) => now = until,
            Wish::Prepare => {
                if start.is_none() {
                    start = Some(bounds(&ctx));
                }
                if let Some(seen) = snapshot.take() {
                    out.push((seen, bounds(&ctx)));
                }
                if out.len() == windows {
                    return (start.unwrap(), out);
                }
            }
            Wish::Check => {
                for check in ctx.batch_mut() {
                    let hot = (300..400).contains(&check.addr);
                    check.state = if hot { PageState::Young } else { PageState::Old };
                }
            }
            Wish::PrepareUnits | Wish::CheckUnits | Wish::Observe | Wish::Eligible => {
                unreachable!("pages are sampled, of no node")
            }
            Wish::Snapshot => {
                let regions = &ctx.snapshot().targets[0].regions;
                let line: Vec<_> = regions
                    .iter()
                    .map(|r| {
                        format!("{}-{}:{}/{}", r.range.start, r.range.end, r.nr_accesses, r.age)
                    })
                    .collect();
                snapshot = Some(line.join(" "));
            }
            Wish::Measure | Wish::Apply => unreachable!("there is no scheme"),
            Wish::Stop => unreachable!("a target is there"),
        }
        ctx.verify();
    }
}

fn bounds(ctx: &Context) -> String {
    let regions = &ctx.targets()[0].regions;
    let mut s: Vec<_> = regions.iter().map(|r| r.range.start.to_string()).collect();
    s.push(regions.last().unwrap().range.end.to_string());
    s.join("-")
}

#[test]
fn l1() {
    let (start, windows) = trace(4, 30, 5);
    assert_eq!(start, "0-250-500-750-1000");
    let expected = [
        ("0-250:0/1 250-500:5/0 500-750:0/1 750-1000:0/1", "0-125-250-375-500-625-750-875-1000"),
        (
            "0-250:0/2 250-375:5/1 375-625:0/1 625-875:0/2 875-1000:0/2",
            "0-125-250-312-375-500-625-750-875-937-1000",
        ),
        (
            "0-250:0/3 250-312:0/0 312-375:5/2 375-625:0/2 625-875:0/3 875-1000:0/3",
            "0-125-250-281-312-343-375-500-625-750-875-937-1000",
        ),
        (
            "0-250:0/4 250-312:0/1 312-375:5/3 375-625:0/3 625-875:0/4 875-1000:0/4",
            "0-62-125-250-265-281-312-327-343-375-437-500-625-687-750-875-906-937-1000",
        ),
    ];
    for (seen, want) in windows.iter().zip(expected) {
        assert_eq!((seen.0.as_str(), seen.1.as_str()), want);
    }
    assert_eq!(
        windows[4].0,
        "0-250:0/5 250-312:0/2 312-375:5/4 375-625:0/4 625-875:0/5 875-1000:0/5"
    );
}

#[test]
fn l2() {
    let (start, windows) = trace(3, 100, 3);
    assert_eq!(start, "0-333-666-999-1000");
    assert_eq!(windows[2].0, "0-333:0/3 333-416:5/0 416-749:0/3 749-1000:0/3");
    assert_eq!(windows[1].1, "0-83-166-333-416-499-666-749-832-999-1000");
}
