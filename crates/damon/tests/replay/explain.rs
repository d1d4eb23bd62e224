//! Explains a trace, transition by transition: which cuts were possible, and then `search`.

use isotherm_core::monitor::{enforce_min_regions, split_all};
use isotherm_core::target::region_size_limit;
use isotherm_core::{AddrRange, Attrs, Region, Rng, Target, TargetId};

use super::search::{self, Parent};
use super::trace_file::TraceFile;

/// What a kernel does differently from the one that the core follows (7.2).
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rules {
    /// Ages start again when a count comes from zero or goes there, also within the threshold.
    pub(crate) zero_resets_age: bool,
    /// The limit of a region's size is rounded up to pages, and enforced after each window.
    pub(crate) enforces_min_regions: bool,
    /// With more regions than half of what is allowed some are split, instead of none; the fewer,
    /// the less room is left (`damon_split_some_regions()`). Which come first turns round with each
    /// call, by a counter of all contexts.
    pub(crate) splits_some: bool,
}

/// How the regions were split after a window.
#[derive(Debug, Clone, Copy)]
enum Split {
    /// Each into up to so many pieces.
    All(u32),
    /// One of every `step` in two, the first of them at `offset`.
    Some { step: usize, offset: usize },
}

impl Rules {
    /// Those of a kernel, by its version; see `traces/README.md` for the evidence.
    pub(crate) fn of(version: (u32, u32)) -> Self {
        Self {
            zero_resets_age: version >= (6, 16),
            enforces_min_regions: version >= (7, 1),
            splits_some: version >= (7, 3),
        }
    }
}

/// What a trace had in it, so that a test can say that it had something in it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Story {
    pub(crate) transitions: usize,
    /// Boundaries that were not there in the window before.
    pub(crate) new_boundaries: usize,
    /// Boundaries that are gone.
    pub(crate) merged_boundaries: usize,
    /// Regions that start their age again, and that grow older.
    pub(crate) young: usize,
    pub(crate) older: usize,
    /// Transitions in which nothing may be split, with three pieces allowed, and in which only some
    /// may be split.
    pub(crate) unsplit: usize,
    pub(crate) in_three: usize,
    pub(crate) some: usize,
}

impl Story {
    pub(crate) fn add(&mut self, o: &Self) {
        self.transitions += o.transitions;
        self.new_boundaries += o.new_boundaries;
        self.merged_boundaries += o.merged_boundaries;
        self.young += o.young;
        self.older += o.older;
        self.unsplit += o.unsplit;
        self.in_three += o.in_three;
        self.some += o.some;
    }
}

/// Explains all transitions of a trace.
///
/// # Errors
///
/// The first one that cannot be, with the reason.
pub(crate) fn explain(trace: &TraceFile, rules: Rules) -> Result<Story, String> {
    let mut story = Story::default();
    // Number of regions at the last split; not known at first.
    let mut last = None;
    for (i, pair) in trace.windows.windows(2).enumerate() {
        let (prev, next) = (&pair[0], &pair[1]);
        let step = transition(prev, next, &trace.attrs, rules, &mut last);
        let step = step.map_err(|why| format!("window {i} to {}: {why}", i + 1))?;
        story.add(&step);
    }
    Ok(story)
}

/// Explains one transition; `last` is the number of regions at the last split, if it is known.
pub(crate) fn transition(
    prev: &[Region],
    next: &[Region],
    attrs: &Attrs,
    rules: Rules,
    last: &mut Option<u64>,
) -> Result<Story, String> {
    if areas(prev) != areas(next) {
        return Err(format!(
            "other memory is covered: {:x?}, then {:x?}",
            areas(prev),
            areas(next)
        ));
    }
    if next.len() as u64 > attrs.max_nr_regions {
        return Err(format!("{} regions, {} are allowed", next.len(), attrs.max_nr_regions));
    }
    let mut targets = [target(prev.to_vec())];
    let limit = if rules.enforces_min_regions {
        enforce_min_regions(&mut targets, attrs)
    } else {
        region_size_limit(&targets, attrs)
    };
    if targets[0].regions.len() != prev.len() {
        return Err(format!("a region is larger than the limit of {limit} bytes"));
    }
    for region in &mut targets[0].regions {
        region.reset_aggregated();
    }
    let reset = targets[0].regions.clone();
    let mut why = String::new();
    for (split, memory) in splits(&reset, attrs, rules, *last) {
        let told = explain_split(&reset, next, attrs, rules, limit, split);
        match told {
            Ok(()) => {
                *last = Some(memory);
                return Ok(told_story(prev, next, split));
            }
            Err(reason) => why = reason,
        }
    }
    Err(why)
}

/// The ways in which the kernel may have gone about splitting, each with the number of regions that
/// it remembers.
fn splits(reset: &[Region], attrs: &Attrs, rules: Rules, last: Option<u64>) -> Vec<(Split, u64)> {
    let (n, max) = (reset.len() as u64, attrs.max_nr_regions);
    if rules.splits_some && n > max / 2 {
        let step = usize::try_from(max.checked_div(max.saturating_sub(n)).unwrap_or(0)).unwrap();
        if step == 0 {
            return vec![(Split::All(1), n)];
        }
        return (0..step).map(|offset| (Split::Some { step, offset }, n)).collect();
    }
    let known = last.map_or_else(|| vec![0, n], |last| vec![last]);
    let all = known.into_iter().map(|mut memory| {
        let pieces = nr_pieces(reset, attrs, &mut memory);
        (Split::All(pieces), memory)
    });
    all.collect()
}

fn explain_split(
    prev: &[Region],
    next: &[Region],
    attrs: &Attrs,
    rules: Rules,
    limit: u64,
    split: Split,
) -> Result<(), String> {
    let parents: Vec<Parent> = prev
        .iter()
        .enumerate()
        .map(|(nr, region)| {
            let cuts = boundaries_inside(next, region.range);
            let mut ways = match split {
                Split::All(pieces) => ways_to_cut(region, pieces, attrs.min_region_sz),
                Split::Some { step, offset } if nr % step == offset => {
                    ways_in_two(region, attrs.min_region_sz)
                }
                Split::Some { .. } => vec![vec![*region]],
            };
            let all = ways.clone();
            ways.retain(|way| cuts.iter().all(|cut| way[1..].iter().any(|p| p.range.start == *cut)));
            if ways.is_empty() {
                let mut legal: Vec<u64> =
                    all.iter().flat_map(|way| &way[1..]).map(|p| p.range.start).collect();
                legal.sort_unstable();
                legal.dedup();
                return Err(format!(
                    "region {nr} {:x?} was cut at {cuts:x?}; by {split:?} it can be cut at {legal:x?}",
                    region.range
                ));
            }
            Ok(Parent { region: *region, ways })
        })
        .collect::<Result<_, _>>()?;
    search::search(&parents, next, attrs.max_nr_accesses(), limit, rules)
}

/// Into how many pieces `split_all` cuts each region now, at most. It is asked with the cut that
/// leaves most room for a second one.
fn nr_pieces(reset: &[Region], attrs: &Attrs, last: &mut u64) -> u32 {
    let mut targets = [target(reset.to_vec())];
    split_all(&mut targets, attrs, last, &mut draw(9));
    let pieces = reset.iter().map(|parent| {
        let inside =
            |r: &&Region| parent.range.start <= r.range.start && r.range.end <= parent.range.end;
        targets[0].regions.iter().filter(inside).count()
    });
    u32::try_from(pieces.max().unwrap_or(1)).unwrap()
}

/// All that the core's random split can make of one region.
fn ways_to_cut(region: &Region, pieces: u32, min_region_sz: u64) -> Vec<Vec<Region>> {
    let mut draws: Vec<Rng> = match pieces {
        1 => return vec![vec![*region]],
        2 => (1..10).map(draw).collect(),
        _ => pairs(),
    };
    let mut ways: Vec<Vec<Region>> = Vec::new();
    for rng in &mut draws {
        let mut one = target(vec![*region]);
        one.split_randomly(pieces, min_region_sz, rng);
        if !ways.contains(&one.regions) {
            ways.push(one.regions);
        }
    }
    ways
}

/// The same where only some are split: memory of just two regions' least size is cut there, too.
fn ways_in_two(region: &Region, min_region_sz: u64) -> Vec<Vec<Region>> {
    if region.range.len() != 2 * min_region_sz {
        return ways_to_cut(region, 2, min_region_sz);
    }
    let mut left = *region;
    let right = left.split_off(min_region_sz);
    vec![vec![*region], vec![left, right]]
}

/// A source that makes every draw of 1 to 9 give `k`.
fn draw(k: u32) -> Rng {
    Rng::constant(u32::try_from((u64::from(k - 1) << 32) / 9 + 1).unwrap())
}

/// Sources whose first two draws of 1 to 9 give all 81 pairs.
fn pairs() -> Vec<Rng> {
    let mut seen = [[false; 10]; 10];
    let mut out = Vec::new();
    for seed in 0.. {
        if out.len() == 81 {
            break;
        }
        let mut rng = Rng::seeded(seed);
        let [a, b] = [(); 2].map(|()| usize::try_from(rng.range(1, 10)).unwrap());
        if !std::mem::replace(&mut seen[a][b], true) {
            out.push(Rng::seeded(seed));
        }
    }
    out
}

pub(crate) fn target(regions: Vec<Region>) -> Target {
    let mut target = Target::new(TargetId(0));
    target.regions = regions;
    target
}

/// The memory that regions cover, without their inner boundaries.
fn areas(regions: &[Region]) -> Vec<AddrRange> {
    let mut areas: Vec<AddrRange> = Vec::new();
    for r in regions {
        match areas.last_mut().filter(|a| a.end == r.range.start) {
            Some(area) => area.end = r.range.end,
            None => areas.push(r.range),
        }
    }
    areas
}

fn boundaries_inside(regions: &[Region], range: AddrRange) -> Vec<u64> {
    let starts = regions.iter().map(|r| r.range.start);
    starts.filter(|at| range.start < *at && *at < range.end).collect()
}

fn told_story(prev: &[Region], next: &[Region], split: Split) -> Story {
    let starts =
        |regions: &[Region]| -> Vec<u64> { regions.iter().map(|r| r.range.start).collect() };
    let (old, new) = (starts(prev), starts(next));
    let young = next.iter().filter(|r| r.age == 0).count();
    Story {
        transitions: 1,
        new_boundaries: new.iter().filter(|at| !old.contains(at)).count(),
        merged_boundaries: old.iter().filter(|at| !new.contains(at)).count(),
        young,
        older: next.len() - young,
        unsplit: usize::from(matches!(split, Split::All(1))),
        in_three: usize::from(matches!(split, Split::All(3))),
        some: usize::from(matches!(split, Split::Some { .. })),
    }
}
