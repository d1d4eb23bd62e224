//! What cannot be is refused, with the reason: traces of real kernels, damaged in one place.
#![expect(clippy::ptr_arg, reason = "one type for all ways to damage")]

use isotherm_core::Region;

use super::committed::TRACES;
use super::explain::{Rules, explain};
use super::trace_file::TraceFile;

const PAGE: u64 = 4096;

/// A way to damage region `i` of a window; none if it cannot be done there.
type Damage = fn(&mut Vec<Region>, usize) -> Option<()>;

fn older(regions: &mut Vec<Region>, i: usize) -> Option<()> {
    regions[i].age += 1;
    Some(())
}

fn younger(regions: &mut Vec<Region>, i: usize) -> Option<()> {
    regions[i].age = regions[i].age.checked_sub(1)?;
    Some(())
}

fn hotter(regions: &mut Vec<Region>, i: usize) -> Option<()> {
    regions[i].nr_accesses = (regions[i].nr_accesses + 5).min(20);
    Some(())
}

/// The boundary to the next region, one page further.
fn shifted(regions: &mut Vec<Region>, i: usize) -> Option<()> {
    let right = regions.get(i + 1)?;
    let fits = regions[i].range.end == right.range.start && right.len() > PAGE;
    fits.then(|| {
        regions[i].range.end += PAGE;
        regions[i + 1].range.start += PAGE;
    })
}

/// Merged with the next region, although that is unlike.
fn merged(regions: &mut Vec<Region>, i: usize) -> Option<()> {
    let right = *regions.get(i + 1)?;
    let unlike = regions[i].nr_accesses.abs_diff(right.nr_accesses) > 4;
    (unlike && regions[i].range.end == right.range.start).then(|| {
        regions[i].merge(&right);
        regions.remove(i + 1);
    })
}

/// Cut in two equal pieces that are alike: they would have been merged, unless too large.
fn unmerged(regions: &mut Vec<Region>, i: usize) -> Option<()> {
    let pages = regions[i].len() / PAGE;
    (pages > 3).then(|| {
        let right = regions[i].split_off(pages / 2 * PAGE);
        regions.insert(i + 1, right);
    })
}

fn gone(regions: &mut Vec<Region>, i: usize) -> Option<()> {
    regions.remove(i);
    Some(())
}

/// Damages some regions of every tenth window, one at a time; returns how many of the damaged
/// traces were refused, of how many, and the first refusal.
fn refused(trace: &TraceFile, damage: Damage, every: usize) -> (usize, usize, String) {
    let (mut refused, mut of, mut first) = (0, 0, String::new());
    for w in (1..trace.windows.len() - 1).step_by(10) {
        for i in (w % every..trace.windows[w].len()).step_by(every) {
            let mut part = trace.clone();
            part.windows = trace.windows[w - 1..=w + 1].to_vec();
            if damage(&mut part.windows[1], i).is_none() {
                continue;
            }
            of += 1;
            if let Err(why) = explain(&part, Rules::of(trace.version())) {
                refused += 1;
                if first.is_empty() {
                    first = why;
                }
            }
        }
    }
    (refused, of, first)
}

#[test]
fn damage_is_refused() {
    // Every how many regions; how many of 100 damaged traces are refused at least: hidden cuts and
    // counts can explain some.
    let damages: [(&str, Damage, usize, usize); 7] = [
        ("age + 1", older, 5, 90),
        ("age - 1", younger, 5, 90),
        ("nr_accesses + 5", hotter, 5, 60),
        ("boundary + 1 page", shifted, 5, 95),
        ("unlike neighbours merged", merged, 1, 80),
        ("like neighbours not merged", unmerged, 5, 90),
        ("region gone", gone, 5, 100),
    ];
    let mut bad = Vec::new();
    for (name, damage, every, least) in damages {
        let (mut n, mut all) = (0, 0);
        for (file, text) in TRACES {
            let trace = TraceFile::parse(text).unwrap();
            let (refused, of, why) = refused(&trace, damage, every);
            eprintln!("{name}, {file}: {refused} of {of} refused; {}", &why[..why.len().min(300)]);
            n += refused;
            all += of;
        }
        if all < 8 || n * 100 < least * all {
            bad.push(format!("{name}: {n} of {all}"));
        }
    }
    assert_eq!(bad, Vec::<String>::new());
}

/// What a refusal says.
#[test]
fn reasons_are_told() {
    let head = "# kernel=7.2 sample_us=5000 aggr_us=100000 min=3 max=12\n";
    let start = "0x0 20:0/5 20:20/3 20:0/5";
    for (before, after, expected) in [
        (start, "0x0 20:0/7 20:20/4 20:0/6", "{ start: 0, end: 14000 } has 0 accesses and age 7"),
        (start, "0x0 19:0/6 1:0/6 20:20/4 20:0/6", "{ start: 0, end: 14000 } was cut at [13000]"),
        (start, "0x0 20:0/6 20:20/4 19:0/6", "other memory is covered"),
        ("0x0 10:0/5 10:0/5 21:20/3 19:0/5", "0x0 60:0/6", "a region is larger than the limit"),
        (start, "0x0 40:10/0 20:0/6", "would not have merged"),
    ] {
        let trace = TraceFile::parse(&format!("{head}{before}\n{after}\n")).unwrap();
        let why = explain(&trace, Rules::of((7, 2))).unwrap_err();
        assert!(why.contains(expected), "{after}: {why}");
    }
}
