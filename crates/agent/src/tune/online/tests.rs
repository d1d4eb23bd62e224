//! Online tuning of programs that are made up, with noise. What fails prints its seed.

use super::*;
use crate::policy::Range;
use crate::tune::noise::Noise;

const EVERY: Duration = Duration::from_secs(300);
const PHASE: Duration = Duration::from_secs(30);

/// What the values are worth: the share that is out of RAM in the long run, and the slowdown.
type Truth<'a> = &'a dyn Fn(&[u64]) -> (f64, f64);

/// A program under online tuning, and what has happened.
struct Sim {
    online: Online,
    random: Noise,
    noise: f64,
    now: Duration,
    out: f64,
    steps: Vec<Step>,
    quiet: usize,
    moved: usize,
    phases: usize,
}

impl Sim {
    fn new(seed: u64, noise: f64, ranges: &[&str], start: &[u64]) -> Self {
        let ranges = ranges.iter().map(|text| Range::parse(text).unwrap()).collect();
        let source = Source::Latency(String::new());
        let rules = Rules { max_slowdown: 0.02, weight: 2.0, every: EVERY, source };
        let online = Online::new(Space::new(ranges), start.to_vec(), rules, 0.0, Duration::ZERO);
        Self {
            online,
            random: Noise(seed),
            noise,
            now: Duration::ZERO,
            out: f64::NAN,
            steps: Vec::new(),
            quiet: 0,
            moved: 0,
            phases: 0,
        }
    }

    /// Lets time pass until then.
    fn run(&mut self, until: Duration, truth: Truth<'_>) {
        while self.now < until {
            let ask = self.online.ask(self.now);
            let point = match ask {
                Ask::Rest(rest) => {
                    assert!(rest > self.now, "a rest that is over");
                    self.now = rest;
                    continue;
                }
                Ask::Look | Ask::Current => self.online.point().to_vec(),
                Ask::Step => self.online.step_point(),
            };
            for (range, value) in self.online.space().ranges().iter().zip(&point) {
                assert!((range.low..=range.high).contains(value), "{range}: {value}");
            }
            let (out, slowdown) = truth(&point);
            let before = if self.out.is_nan() { out } else { self.out };
            self.out = out + 0.2 * self.noise * self.random.normal();
            let shown = 1.0 + slowdown + self.noise * self.random.normal();
            let phase = Phase { shown, resident: 1.0, ..Phase::default() };
            let seen = Seen { phase, out: self.out, gain: self.out - before };
            let present = 1.0 + truth(self.online.point()).1;
            let breaks = ask == Ask::Step
                && self.online.brake().stops((1.0 + slowdown) / present - 1.0, 1.0);
            let told = if breaks { Told::Broken(seen) } else { Told::Seen(seen) };
            self.now += PHASE;
            self.phases += 1;
            for news in self.online.tell(self.now, told) {
                match news {
                    News::Step(step) => self.steps.push(step),
                    News::Quiet { .. } => self.quiet += 1,
                    News::Moved(_) => self.moved += 1,
                }
            }
        }
    }

    fn kept(&self) -> usize {
        self.steps.iter().filter(|step| step.outcome == Outcome::Kept).count()
    }

    fn score(&self, truth: Truth<'_>) -> f64 {
        let (out, slowdown) = truth(self.online.point());
        out - 2.0 * slowdown
    }
}

const fn hours(hours: u64) -> Duration {
    Duration::from_secs(3600 * hours)
}

/// Less is cold the longer memory has to be idle, and what comes back is paid for: `most` at an age
/// of 0, and the less the farther the age is above `at` seconds.
fn program(most: f64, at: f64) -> impl Fn(&[u64]) -> (f64, f64) {
    move |point| {
        let age_s = point[0] as f64 / 1e6;
        (0.7 * (-age_s / 25.0).exp(), most * (-age_s / at).exp())
    }
}

fn best_of_grid(truth: Truth<'_>) -> f64 {
    let ages = (0..100).map(|k| 1e6 * 60_f64.powf(f64::from(k) / 99.0));
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "µs")]
    let all = ages.map(|us| truth(&[us as u64])).map(|(out, slowdown)| out - 2.0 * slowdown);
    all.fold(f64::MIN, f64::max)
}

const AGE: [&str; 1] = ["cold.age=1s..60s"];

#[test]
fn it_comes_within_a_tenth_of_the_best_from_a_bad_start() {
    let truth = program(0.12, 1.5);
    let best = best_of_grid(&truth);
    for (noise, least) in [(0.0, 100), (0.005, 95), (0.01, 85)] {
        let mut good = 0;
        for seed in 0..100 {
            let mut sim = Sim::new(seed, noise, &AGE, &[60_000_000]);
            sim.run(hours(24), &truth);
            good += usize::from(sim.score(&truth) >= 0.9 * best);
        }
        assert!(good >= least, "noise {noise}: seeds 0..100, {good} good");
    }
}

#[test]
fn it_follows_an_optimum_that_moves() {
    let (early, late) = (program(0.12, 1.5), program(0.5, 9.0));
    let (mut good, mut moved) = (0, 0);
    for seed in 0..50 {
        let mut sim = Sim::new(seed, 0.003, &AGE, &[60_000_000]);
        // A limit would keep it from the way back.
        sim.online.rules.max_slowdown = 0.1;
        sim.run(hours(48), &early);
        assert!(sim.quiet > 0, "seed {seed}: the search has no end");
        let before = sim.score(&late);
        sim.run(hours(120), &late);
        good += usize::from(sim.score(&late) >= 0.9 * best_of_grid(&late));
        moved += usize::from(sim.moved > 0);
        assert!(before < 0.9 * best_of_grid(&late), "seed {seed}: it was good by chance");
    }
    assert!(good >= 45 && moved >= 25, "seeds 0..50: {good} good, {moved} saw it move");
}

#[test]
fn noise_alone_leads_nowhere_and_costs_nothing_in_the_long_run() {
    let nothing = |_: &[u64]| (0.3, 0.0);
    let (mut kept, mut far, mut all) = (0, 0, 0.0);
    for seed in 0..50 {
        let mut sim = Sim::new(seed, 0.02, &AGE, &[8_000_000]);
        sim.run(hours(24 * 30), &nothing);
        assert!(sim.quiet > 0, "seed {seed}: it does not say that nothing shows");
        kept += sim.kept();
        let factor = sim.online.point()[0] as f64 / 8e6;
        far += usize::from(!(0.2..5.0).contains(&factor));
        // The second month costs hardly anything.
        let before = sim.phases;
        sim.run(hours(24 * 60), &nothing);
        let busy =
            PHASE.as_secs_f64() * (sim.phases - before) as f64 / hours(24 * 30).as_secs_f64();
        all += busy / 50.0;
    }
    assert!(all < 0.01, "seeds 0..50: busy for {all} of the time");
    assert!(kept <= 25 && far <= 3, "seeds 0..50: kept {kept} steps, far off {far} times");
}

#[test]
fn a_quota_that_is_far_too_small_grows() {
    // What leaves per phase is the quota, until all that is cold has left.
    let mut out: f64 = 0.0;
    let mut online = Sim::new(1, 0.0, &["cold.quota.size=64K..256M"], &[64 << 10]).online;
    let mut now = Duration::ZERO;
    let mut news = Vec::new();
    while now < hours(12) {
        let point = match online.ask(now) {
            Ask::Rest(until) => {
                now = until;
                continue;
            }
            Ask::Step => online.step_point(),
            Ask::Look | Ask::Current => online.point().to_vec(),
        };
        let before = out;
        // 64 MiB, three quarters of it cold; a phase is 10 intervals of the quota.
        out = (out + 10.0 * point[0] as f64 / f64::from(64 << 20)).min(0.75);
        // Some of it is used again.
        out *= 0.9;
        now += PHASE;
        let phase = Phase { shown: 1.0, resident: 1.0, ..Phase::default() };
        news.extend(online.tell(now, Told::Seen(Seen { phase, out, gain: out - before })));
    }
    assert!(online.point()[0] >= 1 << 20, "{news:#?}");
}

#[test]
fn limits_hold_and_ways_that_hurt_are_not_gone_further() {
    // Below 10 s everything breaks; above, the score says nothing.
    let slow = |point: &[u64]| if point[0] < 10_000_000 { (0.6, 0.5) } else { (0.5, 0.0) };
    let mut sim = Sim::new(1, 0.001, &AGE, &[10_000_000]);
    sim.run(hours(24), &slow);
    assert_eq!((sim.online.point()[0], sim.kept()), (10_000_000, 0), "{:#?}", sim.steps);
    let broken = sim.steps.iter().filter(|step| step.outcome == Outcome::Broken);
    for step in broken {
        assert_eq!(step.to, 7_100_000, "only one notch: {:#?}", sim.steps);
    }
    // Every notch down saves 10 % and costs 0.9 %: two of them are within 2 %.
    let notches = |point: &[u64]| 2.0 * (60e6 / point[0] as f64).log2();
    let creeping = |point: &[u64]| (0.1 * notches(point), 0.009 * notches(point));
    let mut sim = Sim::new(1, 0.0005, &AGE, &[60_000_000]);
    sim.run(hours(24), &creeping);
    let (_, slowdown) = creeping(sim.online.point());
    assert!(slowdown < 0.022 && sim.kept() >= 1, "{slowdown}: {:#?}", sim.steps);
    assert!(sim.steps.iter().any(|step| step.outcome == Outcome::Spent), "{:#?}", sim.steps);
}

#[test]
fn at_the_end_of_a_range_it_stays_there() {
    let more = |point: &[u64]| (0.7 * (-(point[0] as f64) / 25e6).exp(), 0.0);
    let mut sim = Sim::new(1, 0.001, &["cold.age=4s..20s"], &[20_000_000]);
    sim.run(hours(24), &more);
    assert_eq!(sim.online.point(), [4_000_000]);
    assert!(sim.quiet > 0);
}

#[test]
fn a_step_that_is_refused_or_interrupted_changes_nothing() {
    let mut online = Sim::new(1, 0.0, &AGE, &[8_000_000]).online;
    assert_eq!(online.ask(Duration::ZERO), Ask::Rest(EVERY));
    assert_eq!(online.ask(EVERY), Ask::Current);
    assert!(online.tell(EVERY, Told::Seen(Seen::default())).is_empty());
    assert_eq!(online.ask(EVERY), Ask::Step);
    let step = online.step_point();
    assert_eq!(step, [11_000_000]);
    online.interrupt(EVERY);
    assert_eq!((online.step_point(), online.ask(EVERY)), (vec![8_000_000], Ask::Rest(2 * EVERY)));
    assert_eq!((online.ask(2 * EVERY), online.step_point()), (Ask::Current, step));
    online.tell(2 * EVERY, Told::Seen(Seen::default()));
    let news = online.tell(2 * EVERY, Told::Refused("no".to_owned()));
    let [News::Step(Step { outcome: Outcome::Refused(why), pairs: 0, saved: None, .. })] =
        &news[..]
    else {
        panic!("{news:?}")
    };
    assert_eq!((why.as_str(), online.point()), ("no", &[8_000_000][..]));
}
