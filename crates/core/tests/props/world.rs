//! A random world: any answer that an operations set may give and any change that a user may ask
//! for, at any time. One seed determines all of it.

use isotherm_core::attrs::IntervalsGoal;
use isotherm_core::scheme::{FailCharge, NodeLevel};
use isotherm_core::{
    AddrRange, Attrs, Context, Method, Observation, Observed, PageBits, PageState, Rng, Scheme,
    Snapshot, TargetId, Time, Wish,
};
use proptest::prelude::*;

use crate::ledger::Ledger;
use crate::schemes::{any_answer, scheme};

/// Number of targets that come and go.
const NR_TARGETS: u32 = 3;

/// Something that happens.
#[derive(Debug, Clone)]
pub(crate) enum Fact {
    /// Time passes for so many sleeps, each of which ends so many microseconds late.
    Ticks(u32, u64),
    /// From the next update on this is mapped in a target.
    Maps(u32, Vec<AddrRange>),
    Add(u32),
    Remove(u32),
    Commit(Attrs),
    Pause(bool),
    /// How pages answer from now on: weights of the six states, and log2 of the leaves' size.
    Answers([u8; 6], u8),
    /// From now on blocks of so many pages (log2) are hot or cold, one in so many hot.
    Pattern(u8, u64),
    Schemes(Vec<Scheme>),
    Walk,
    /// From the next update on a target's last mapping has so many pages.
    Resize(u32, u64),
}

/// The states, in the order of the weights.
const STATES: [PageState; 6] = [
    PageState::Old,
    PageState::Young,
    PageState::Cleared,
    PageState::Absent,
    PageState::Unresolved,
    PageState::Unknown,
];

/// Sorted mappings near zero, where the kernel puts programs, or near the top.
fn maps() -> impl Strategy<Value = Vec<AddrRange>> {
    let base = prop::sample::select(vec![0, 0x1000, 0x40_0000, 0x7f00_0000_0000, (1 << 56) - 4096]);
    let steps = prop::collection::vec((0_u64..40, 1_u64..3000), 0..10);
    (base, steps).prop_map(|(base, steps)| {
        let mut end = base;
        steps
            .into_iter()
            .map(|(gap, pages)| {
                let start = end + gap * gap * 4096;
                end = start + pages * 4096;
                AddrRange::new(start, end)
            })
            .collect()
    })
}

/// One to three mappings near the same place each time, each with other bounds.
pub(crate) fn jittered() -> impl Strategy<Value = Vec<AddrRange>> {
    let steps = prop::collection::vec((0_u64..2000, 8_u64..20_000), 1..4);
    steps.prop_map(|steps| {
        let mut end = 0x7f00_0000_0000;
        let mut next = |(gap, pages)| {
            let start = end + gap * 4096;
            end = start + pages * 4096 + (1 << 20);
            AddrRange::new(start, start + pages * 4096)
        };
        steps.into_iter().map(&mut next).collect()
    })
}

/// Attributes that are valid, sensible or not.
pub(crate) fn attrs() -> impl Strategy<Value = Attrs> {
    let intervals =
        (prop::sample::select(vec![0, 1, 7, 1000, 5000, 1_000_000]), 1_u64..40, 0_u64..7);
    let regions = (3_u64..30, prop::sample::select(vec![0_u64, 1, 5, 50, 300]));
    let goal = (prop::sample::select(vec![0_u64, 1, 400, 10_000]), 0_u64..4);
    let rest = (
        prop::sample::select(vec![1_u64, 16, 4096, 65536, 2 << 20]),
        prop::sample::select(vec![
            Method::Resample,
            Method::FirstTouch,
            Method::Census,
            Method::Observed,
        ]),
        any::<bool>(),
        prop::sample::select(vec![0, 1, 20, 200, 5000, u32::MAX]),
        prop::sample::select(vec![0_u64, 10_000, 100_000, 1_000_000]),
    );
    (intervals, regions, goal, rest).prop_map(|(intervals, regions, goal, rest)| {
        let (sample_us, samples, more) = intervals;
        let (min_region_sz, method, strict, clears_per_sec, update_us) = rest;
        Attrs {
            sample_us,
            aggr_us: sample_us * samples + more,
            update_us,
            min_nr_regions: regions.0,
            max_nr_regions: regions.0 + regions.1,
            intervals_goal: IntervalsGoal {
                access_bp: goal.0,
                aggrs: goal.1,
                min_sample_us: sample_us / 2,
                max_sample_us: sample_us * 4 + 10,
            },
            aggr_samples: 0,
            min_region_sz,
            method,
            strict,
            clears_per_sec,
            budget_bp: clears_per_sec,
        }
    })
}

/// A history.
pub(crate) fn facts() -> impl Strategy<Value = Vec<Fact>> {
    let weights = prop_oneof![
        // Hot and cold.
        3 => Just([4, 1, 0, 0, 0, 0]),
        1 => Just([0, 1, 1, 0, 0, 0]),
        1 => Just([1, 0, 0, 0, 0, 0]),
        1 => Just([0, 0, 0, 0, 1, 0]),
        1 => Just([0, 0, 0, 0, 0, 1]),
        3 => prop::array::uniform6(0_u8..5),
    ];
    let leaf = prop::sample::select(vec![12, 12, 12, 21, 30]);
    let late = prop_oneof![4 => Just(0), 1 => 0_u64..20_000, 1 => Just(3_000_000_u64)];
    let fact = prop_oneof![
        8 => (1_u32..60, late).prop_map(|(n, late)| Fact::Ticks(n, late)),
        3 => (0..NR_TARGETS, maps()).prop_map(|(id, maps)| Fact::Maps(id, maps)),
        1 => (0..NR_TARGETS).prop_map(Fact::Add),
        1 => (0..NR_TARGETS).prop_map(Fact::Remove),
        2 => attrs().prop_map(Fact::Commit),
        3 => prop::collection::vec(scheme(), 0..4).prop_map(Fact::Schemes),
        1 => Just(Fact::Walk),
        1 => any::<bool>().prop_map(Fact::Pause),
        4 => (weights, leaf).prop_map(|(weights, leaf)| Fact::Answers(weights, leaf)),
        4 => (0_u8..12, 1_u64..6).prop_map(|(shift, n)| Fact::Pattern(shift, n)),
        3 => (0..NR_TARGETS, 1_u64..20_000).prop_map(|(id, pages)| Fact::Resize(id, pages)),
    ];
    prop::collection::vec(fact, 1..30)
}

/// The kernel, and so `strict`, cuts for the quota before it asks the filters, and charges nothing
/// for what is refused, or for failures if the user says so: it cuts a target into pieces of what
/// is left of the quota, of a byte if that is the smallest region.
fn spare_strict(scheme: &mut Scheme) {
    scheme.quota.fail_charge = FailCharge::default();
    if scheme.quota.is_set() || scheme.quota.brake.is_some() {
        scheme.filters.core.clear();
    }
}

/// A context in that world.
pub(crate) struct World {
    pub(crate) ctx: Context,
    pub(crate) snapshots: Vec<Snapshot>,
    pub(crate) ledger: Ledger,
    /// The schemes that were committed last, and whether they are again after every fact.
    schemes: Vec<Scheme>,
    pub(crate) repeat_schemes: bool,
    strict: bool,
    now: Time,
    rng: Rng,
    maps: [Vec<AddrRange>; NR_TARGETS as usize],
    weights: [u8; 6],
    leaf_shift: u8,
    /// Hot blocks instead of the weights.
    pattern: Option<(u8, u64)>,
}

impl World {
    /// With one target of 16 MiB.
    pub(crate) fn new(attrs: Attrs, seed: u64) -> Self {
        let mut ctx = Context::new(attrs, seed).unwrap();
        ctx.add_target(TargetId(0));
        let start = 0x7f00_0000_0000;
        let maps = vec![AddrRange::new(start, start + (16 << 20))];
        Self {
            ctx,
            snapshots: Vec::new(),
            ledger: Ledger::default(),
            schemes: Vec::new(),
            repeat_schemes: false,
            strict: attrs.strict,
            now: Time(1_000_000_000),
            rng: Rng::seeded(!seed),
            maps: [maps, Vec::new(), Vec::new()],
            weights: [4, 1, 0, 0, 0, 0],
            leaf_shift: 12,
            pattern: None,
        }
    }

    /// Applies an event to the world.
    pub(crate) fn happen(&mut self, fact: &Fact) {
        if self.repeat_schemes {
            self.ctx.commit_schemes(self.schemes.clone());
        }
        match fact {
            Fact::Ticks(n, late_us) => (0..*n).for_each(|_| self.tick(*late_us)),
            Fact::Maps(id, maps) => self.maps[*id as usize].clone_from(maps),
            Fact::Add(id) => self.ctx.add_target(TargetId(*id)),
            Fact::Remove(id) => self.ctx.remove_target(TargetId(*id)),
            Fact::Commit(attrs) => self.ctx.commit(*attrs).unwrap(),
            Fact::Pause(pause) => self.ctx.pause(*pause),
            Fact::Schemes(schemes) => {
                self.schemes.clone_from(schemes);
                if self.strict {
                    self.schemes.iter_mut().for_each(spare_strict);
                }
                self.ctx.commit_schemes(self.schemes.clone());
            }
            // One may be under way.
            Fact::Walk => drop(self.ctx.begin_walk()),
            Fact::Answers(weights, leaf_shift) => {
                (self.weights, self.leaf_shift, self.pattern) = (*weights, *leaf_shift, None);
            }
            Fact::Pattern(shift, n) => self.pattern = Some((*shift, *n)),
            Fact::Resize(id, pages) => {
                if let Some(last) = self.maps[*id as usize].last_mut() {
                    last.end = last.start + pages * 4096;
                }
            }
        }
    }

    /// From one sleep to the next.
    fn tick(&mut self, late_us: u64) {
        let mut others = 0;
        while others < 100 {
            let wish = self.ctx.poll(self.now);
            if wish == Wish::Apply {
                self.act();
                continue;
            }
            others += 1;
            self.ledger.pass_over(&self.ctx);
            self.ctx.verify();
            match wish {
                Wish::Update => self.update(),
                Wish::Prepare => self.answer(PageState::Cleared),
                Wish::Check => self.answer(PageState::Young),
                Wish::PrepareUnits | Wish::CheckUnits => self.answer_units(),
                Wish::Observe => self.observe(),
                Wish::Snapshot => self.snapshots.push(self.ctx.snapshot().clone()),
                Wish::Sleep(until) => {
                    assert!(until >= self.now || late_us > 0, "sleep that ends before it begins");
                    self.now = self.now.max(until).plus_us(late_us);
                    return;
                }
                Wish::Eligible => self.eligible(),
                Wish::Measure => self.measure(),
                Wish::Apply => unreachable!("it was done"),
                Wish::Stop => {
                    assert!(self.ctx.targets().is_empty());
                    return;
                }
            }
        }
        panic!("the context never sleeps");
    }

    /// Any answer: none, no page, some pages, pages that nobody asked about.
    fn answer_units(&mut self) {
        let bits = |rng: &mut Rng| {
            let mut word = || match rng.range(0, 4) {
                0 => 0,
                1 => u64::MAX,
                _ => rng.range(0, u64::MAX),
            };
            PageBits([0; 8].map(|_: u64| word()))
        };
        for unit in self.ctx.units_mut() {
            unit.answered = self.rng.range(0, 8) > 0;
            (unit.present, unit.young) = (bits(&mut self.rng), bits(&mut self.rng));
            unit.stuck = if self.rng.range(0, 4) == 0 { bits(&mut self.rng) } else { unit.stuck };
        }
        let cpu_ns = (self.rng.range(0, 2) == 0)
            .then(|| (self.rng.range(0, u64::MAX), self.rng.range(0, u64::MAX)));
        self.ctx.set_units_cpu(cpu_ns);
    }

    fn act(&mut self) {
        self.ledger.asked(&self.ctx);
        let (request, _) = self.ctx.request();
        let applied = any_answer(&request, self.ctx.attrs().strict, &mut self.rng);
        self.ctx.applied(applied);
        self.ledger.answered(&self.ctx, &request, &applied);
    }

    /// The result of a request: nothing, a part, or more than the range holds.
    fn eligible(&mut self) {
        for region in self.ctx.eligible_mut() {
            region.bytes = match self.rng.range(0, 3) {
                0 => 0,
                1 => self.rng.range(0, region.range.len() + 1),
                _ => u64::MAX,
            };
        }
    }

    fn measure(&mut self) {
        for measure in self.ctx.measures_mut() {
            measure.value = match self.rng.range(0, 4) {
                0 => None,
                1 => Some(self.rng.range(0, 1000)),
                2 => Some(self.rng.range(0, 20_000)),
                _ => Some(self.rng.range(0, u64::MAX)),
            };
            measure.level = (self.rng.range(0, 3) > 0).then(|| NodeLevel {
                free: self.rng.range(0, u64::MAX),
                total: self.rng.range(0, u64::MAX),
                high: self.rng.range(0, 1 << 40),
                coming: self.rng.range(0, 1 << 40),
            });
        }
    }

    /// A window, or none. Some of its regions are empty, overlap, or have counts above the maximum.
    fn observe(&mut self) {
        if self.rng.range(0, 3) == 0 {
            return;
        }
        let attrs = *self.ctx.attrs();
        let factor = [1, 1, 1, 2][usize::try_from(self.rng.range(0, 4)).unwrap()];
        self.ctx.begin_observed(Observation {
            start: Time(self.rng.range(0, self.now.0 + 1_000_000)),
            end: Time(self.rng.range(0, self.now.0 + 1_000_000)),
            lost: self.rng.range(0, 3),
            more: self.rng.range(0, 2) == 0,
            sample_us: (attrs.sample_us * factor).min(1 << 30),
            aggr_us: (attrs.aggr_us * factor).min(1 << 40),
        });
        let ids: Vec<_> = self.ctx.targets().iter().map(|t| t.id).collect();
        for id in ids {
            let mut at = 0x7f00_0000_0000;
            let regions: Vec<_> = (0..self.rng.range(0, 40))
                .map(|_| {
                    let start = at + self.rng.range(0, 4) * 4096;
                    at = start + self.rng.range(0, 300) * 4096;
                    let back = if self.rng.range(0, 10) == 0 { 8192 } else { 0 };
                    Observed {
                        range: AddrRange::new(start - back, at),
                        nr_accesses: u32::try_from(self.rng.range(0, 30)).unwrap(),
                        age: u32::try_from(self.rng.range(0, 100)).unwrap(),
                        in_use: self.rng.range(0, 4) == 0,
                    }
                })
                .filter(|o| o.range.start <= o.range.end)
                .collect();
            self.ctx.observed(id, &regions);
        }
    }

    fn update(&mut self) {
        let ids: Vec<_> = self.ctx.targets().iter().map(|t| t.id).collect();
        for id in ids {
            self.ctx.update_target(id, &self.maps[id.0 as usize]);
        }
    }

    fn answer(&mut self, hot: PageState) {
        if let Some((shift, n)) = self.pattern {
            for check in self.ctx.batch_mut() {
                let block = check.addr >> 12 >> shift;
                // Fibonacci hashing: neighbours are unlike each other.
                let is_hot = block.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32 < (1 << 32) / n;
                check.state = if is_hot { hot } else { PageState::Old };
                check.leaf_shift = self.leaf_shift;
            }
            return;
        }
        let total: u64 = self.weights.iter().copied().map(u64::from).sum();
        for check in self.ctx.batch_mut() {
            let mut x = self.rng.range(0, total);
            let picked = STATES.iter().zip(self.weights).find(|(_, w)| {
                let hit = x < u64::from(*w);
                x = x.saturating_sub(u64::from(*w));
                hit
            });
            // With no weight at all nothing is answered.
            if let Some((state, _)) = picked {
                check.state = *state;
                check.leaf_shift = self.leaf_shift;
            }
        }
    }
}
