//! Trials of simulated programs, under a virtual clock, with printed seeds.

use super::*;

const STEP_NS: u64 = 100_000_000;
const UNIT: u64 = 2 << 20;

/// A program with so many units, for which huge pages on all of them are worth `gain` of its CPU
/// time. Noise is a share.
struct World {
    units: u64,
    gain: f64,
    noise: f64,
    counts: bool,
    sees: bool,
    busy_permille: u64,
    huge: BTreeSet<u64>,
    most_huge: usize,
    rng: Rng,
}

impl World {
    fn new(seed: u64, gain: f64) -> Self {
        Self {
            units: 200,
            gain,
            noise: 0.003,
            counts: false,
            sees: true,
            busy_permille: 1000,
            huge: BTreeSet::new(),
            most_huge: 0,
            rng: Rng::seeded(seed ^ 0xabcd),
        }
    }

    /// From -1 to 1.
    fn chance(&mut self) -> f64 {
        f64::from(self.rng.next_u32()) / f64::from(u32::MAX) * 2.0 - 1.0
    }

    /// Runs a trial for so many seconds, and returns its verdicts.
    fn run(&mut self, seed: u64, seconds: u64) -> (Trial, Vec<Verdict>) {
        let (mut trial, mut verdicts) = (Trial::new(seed), Vec::new());
        let (mut now, mut cpu_ns, mut work) = (Time(1), 0_u64, 0.0);
        let busy = count(usize::try_from(self.busy_permille).unwrap()) / 1000.0;
        for _ in 0..seconds * 10 {
            let share = count(self.huge.len()) / self.units as f64;
            let pace = (self.gain * share).exp() * (1.0 + self.noise * self.chance());
            now = now + STEP_NS;
            cpu_ns += STEP_NS * self.busy_permille / 1000;
            work += pace * STEP_NS as f64 * busy;
            for start in (0..self.units).map(|nr| nr * UNIT) {
                if !self.huge.contains(&start) && trial.offer(start, now) {
                    self.huge.insert(start);
                    trial.made(start, 500_000, now);
                }
            }
            self.most_huge = self.most_huge.max(self.huge.len());
            let each = self.gain * busy / self.units as f64;
            // Looks are at units that differ.
            let picks = if self.sees { trial.picks(8) } else { BTreeSet::new() };
            let look = |start: &u64| Cost {
                share: each * (0.5 + (start / UNIT % 3) as f64 / 2.0),
                swept_per_s: 0.0,
                share_if_random: 1.0,
            };
            let looks: Vec<Cost> = picks.iter().map(look).collect();
            let work = self.counts.then_some(work);
            let step = trial.step(&Facts { now, cpu_ns, age_s: 1.0, work, looks: &looks });
            let undo = match step {
                Step::None => Vec::new(),
                Step::Undo(undo) => undo,
                Step::Over(verdict, undo) => {
                    verdicts.push(verdict);
                    undo
                }
            };
            undo.iter().for_each(|start| assert!(self.huge.remove(start), "was not made"));
        }
        (trial, verdicts)
    }
}

fn seeds() -> impl Iterator<Item = u64> {
    let first = u64::from(std::process::id());
    eprintln!("seeds {first} to {}", first + 19);
    first..first + 20
}

#[test]
fn what_pays_is_collapsed_at_large_after_a_sample() {
    for seed in seeds() {
        let mut world = World::new(seed, 0.1);
        let (trial, verdicts) = world.run(seed, 10);
        assert_eq!(verdicts.len(), 1, "seed {seed}: {trial:?}");
        assert_eq!(verdicts[0].pays, Some(true), "seed {seed}: {verdicts:?}");
        assert_eq!(world.huge.len(), 200, "seed {seed}");
    }
}

#[test]
fn what_looks_show_not_to_pay_is_never_collapsed() {
    for seed in seeds() {
        let mut world = World::new(seed, 0.002);
        let (_, verdicts) = world.run(seed, 20);
        assert_eq!(verdicts[0].pays, Some(false), "seed {seed}: {verdicts:?}");
        assert_eq!(world.most_huge, 0, "seed {seed}");
    }
}

#[test]
fn work_decides_and_its_sample_is_undone() {
    let [mut paid, mut undone] = [0, 0];
    for seed in seeds() {
        for (gain, pays) in [(0.1, true), (-0.1, false), (0.0, false)] {
            let mut world = World::new(seed, gain);
            (world.counts, world.sees) = (true, false);
            let (trial, verdicts) = world.run(seed, 60);
            let first = verdicts.first();
            assert!(world.most_huge >= 20, "seed {seed}: no sample: {trial:?}");
            let first = first.unwrap_or_else(|| panic!("seed {seed}, gain {gain}: {trial:?}"));
            assert!(first.by_work, "seed {seed}");
            match (first.pays, pays) {
                (Some(true), true) => paid += 1,
                (Some(false), false) => undone += 1,
                _ => {}
            }
            let left = if first.pays == Some(true) { 200 } else { 0 };
            assert_eq!(world.huge.len(), left, "seed {seed}, gain {gain}: {verdicts:?}");
        }
    }
    // Decisions are to be right with 90 %: 18 of 20, and 36 of 40, less chance.
    assert!(paid >= 15 && undone >= 30, "{paid} of 20 and {undone} of 40 are right");
}

#[test]
fn without_any_evidence_only_the_sample_stays_and_rests_grow() {
    let mut world = World::new(1, 0.3);
    world.sees = false;
    let (trial, verdicts) = world.run(1, 400);
    assert!(verdicts.iter().all(|v| v.pays.is_none() && v.gain.is_none()), "{verdicts:?}");
    assert_eq!((world.huge.len(), world.most_huge), (20, 20), "{trial:?}");
    // 30, 60, 120 s of rest between them.
    assert!((3..=5).contains(&verdicts.len()), "{}", verdicts.len());
}

#[test]
fn a_gain_that_does_not_earn_its_price_does_not_pay() {
    let mut world = World::new(1, 0.1);
    // Collapsing takes 200 times 0.5 ms; 0.1 of 0.002 CPUs earn 12 ms in a minute.
    world.busy_permille = 2;
    let (_, verdicts) = world.run(1, 20);
    assert_eq!((verdicts[0].pays, verdicts[0].too_dear), (Some(false), true), "{verdicts:?}");
    assert_eq!(world.huge.len(), 0);
}

#[test]
fn the_same_seed_draws_the_same_sample() {
    let sample = |seed| {
        let mut world = World::new(1, 0.3);
        world.sees = false;
        world.run(seed, 10);
        world.huge
    };
    assert_eq!(sample(5), sample(5));
    assert_ne!(sample(5), sample(6));
}

/// The first unit in use comes at once, the others as the monitor looks at them.
#[test]
fn a_few_units_that_come_first_do_not_decide_for_all() {
    let mut trial = Trial::new(1);
    let look = Cost { share: 0.0, swept_per_s: 0.0, share_if_random: 0.0 };
    let (mut now, mut verdict) = (Time(1), None);
    let mut began = now;
    for nr in 0..150_u64 {
        now = now + STEP_NS;
        let there = if nr < 40 { 1 } else { 100 };
        for unit in 0..there {
            trial.offer(unit * UNIT, now);
        }
        let facts = Facts { now, cpu_ns: nr * STEP_NS, age_s: 1.0, work: None, looks: &[look; 8] };
        if let Step::Over(over, _) = trial.step(&facts) {
            verdict = Some(over);
            break;
        }
        if nr == 0 {
            began = now;
        }
    }
    let verdict = verdict.unwrap();
    assert!(now.since(began) < LAST_NS + GATHER_NS, "{verdict:?}");
    assert_eq!((verdict.pays, verdict.units), (Some(false), 100), "{verdict:?}");
}
