//! Properties of schemes at work. [`crate::ledger`] has what must hold for each single request.

use isotherm_core::scheme::{Action, Installed, Pattern, Quota, Scheme, WatermarkMetric};
use isotherm_core::{
    AddrRange, Applied, Attrs, Context, Method, PageState, Request, Rng, Snapshot, TargetId, Time,
    Wish,
};
use proptest::prelude::*;

use crate::schemes::scheme;
use crate::world::{Fact, World, attrs, facts};

/// Runs a history; returns what came of it.
fn run(attrs: Attrs, facts: &[Fact], repeat: bool) -> (Vec<Snapshot>, Vec<Installed>, u64) {
    let mut world = World::new(attrs, 7);
    world.repeat_schemes = repeat;
    facts.iter().for_each(|fact| world.happen(fact));
    (world.snapshots, world.ctx.schemes().to_vec(), world.ledger.nr_all)
}

/// Where the regions of a small world are, in units of 16 bytes.
fn targets() -> impl Strategy<Value = Vec<Vec<AddrRange>>> {
    let ranges = prop::collection::vec((0_u64..3, 1_u64..20), 1..6).prop_map(|steps| {
        let mut end = 0;
        let mut next = |(gap, len)| {
            let start = end + gap * 16;
            end = start + len * 16;
            AddrRange::new(start, end)
        };
        steps.into_iter().map(&mut next).collect()
    });
    prop::collection::vec(ranges, 1..4)
}

/// How an applier goes through a range: the share of it, in sixteenths, that it settles at a time.
fn settle(request: &Request, share: u64, strict: bool) -> Applied {
    let len = request.range.len();
    let done = if strict { len } else { (len * share / 16).max(1).min(request.max_bytes) };
    Applied { covered: done, asked: done, applied: done, passed: done, ..Applied::default() }
}

/// How often each unit of 16 bytes had its turn, by target.
struct Turns(Vec<Vec<Option<u32>>>);

impl Turns {
    fn new(targets: &[Vec<AddrRange>]) -> Self {
        let units = |ranges: &Vec<AddrRange>| {
            let end = ranges.last().map_or(0, |r| r.end) / 16;
            (0..end).map(|i| ranges.iter().any(|r| r.contains(i * 16)).then_some(0)).collect()
        };
        Self(targets.iter().map(units).collect())
    }

    fn serve(&mut self, target: TargetId, start: u64, len: u64) -> Result<(), TestCaseError> {
        for unit in start / 16..(start + len).div_ceil(16) {
            let turns = self.0[target.0 as usize][usize::try_from(unit).unwrap()].as_mut();
            *turns.expect("it is mapped") += 1;
        }
        let all = || self.0.iter().flatten().copied().flatten();
        let (least, most) = (all().min().unwrap_or(0), all().max().unwrap_or(0));
        prop_assert!(most <= least + 1, "some had {} turns, others {}", most, least);
        Ok(())
    }

    fn least(&self) -> u32 {
        self.0.iter().flatten().copied().flatten().min().unwrap_or(0)
    }
}

/// A context over regions that stay as they are: its window never ends.
fn still(targets: usize, scheme: Scheme, strict: bool) -> Context {
    let attrs = Attrs {
        sample_us: 1000,
        aggr_us: 1_000_000_000,
        update_us: 1_000_000_000,
        max_nr_regions: 1000,
        min_region_sz: 16,
        method: Method::Resample,
        strict,
        ..Attrs::default()
    };
    let mut ctx = Context::with_rng(attrs, Rng::seeded(1)).unwrap();
    (0..targets).for_each(|i| ctx.add_target(TargetId(u32::try_from(i).unwrap())));
    ctx.commit_schemes([scheme]);
    ctx
}

proptest! {
    #![proptest_config(crate::config(150))]

    /// Committing the schemes that are in force again and again changes nothing, bit for bit. The
    /// kernel switches schemes on that watermarks stopped (R§9.2.13), and so does `strict`.
    #[test]
    fn commit_noop(strict: bool, mut attrs in attrs(), mut facts in facts()) {
        attrs.strict = strict;
        for fact in &mut facts {
            match fact {
                Fact::Commit(attrs) => attrs.strict = strict,
                Fact::Schemes(schemes) if strict => {
                    schemes.iter_mut().for_each(|s| s.watermarks.metric = WatermarkMetric::None);
                }
                _ => {}
            }
        }
        prop_assert_eq!(run(attrs, &facts, true), run(attrs, &facts, false));
    }

    /// Every byte has its turn before any has it again, whatever the quota.
    #[test]
    fn turns_are_fair(
        strict: bool,
        targets in targets(),
        sz in 16_u64..1000,
        share in 1_u64..=16,
        pageout: bool,
    ) {
        let action = if pageout { Action::Pageout } else { Action::Stat };
        let scheme = Scheme {
            pattern: Pattern::ALL,
            action,
            apply_interval_us: 1,
            quota: Quota { sz, ..Quota::default() },
            ..Scheme::default()
        };
        let mut ctx = still(targets.len(), scheme, strict);
        let mut turns = Turns::new(&targets);
        // A window serves a unit at least, but for those that `strict` wastes at the end of a
        // target.
        let enough = 4 * (turns.0.iter().map(Vec::len).sum::<usize>() + targets.len());
        let (mut now, mut sleeps) = (Time(0), 0);
        while sleeps < enough {
            match ctx.poll(now) {
                Wish::Update => {
                    for (i, ranges) in (0..).zip(&targets) {
                        ctx.set_ranges(TargetId(i), ranges).unwrap();
                    }
                }
                Wish::Sleep(until) => (now, sleeps) = (until, sleeps + 1),
                Wish::Apply => {
                    let request = ctx.request().0;
                    let applied = settle(&request, share, strict);
                    let settled = applied.covered.next_multiple_of(16);
                    turns.serve(request.target, request.range.start, settled)?;
                    ctx.applied(applied);
                }
                _ => ctx.batch_mut().iter_mut().for_each(|c| c.state = PageState::Old),
            }
        }
        prop_assert!(turns.least() >= 3, "{} turns in {} windows", turns.least(), enough);
    }

    /// A single scheme runs for long while nothing else happens, and the ledger's rules hold.
    #[test]
    fn one_scheme(scheme in scheme(), attrs in attrs(), late in 0_u64..20_000) {
        let facts = [Fact::Schemes(vec![scheme]), Fact::Pattern(3, 3), Fact::Ticks(200, late)];
        run(attrs, &facts, false);
    }
}
