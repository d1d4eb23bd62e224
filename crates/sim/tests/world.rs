//! The simulated world answers looks as real accesses would.
#![expect(clippy::unwrap_used, reason = "helper functions of tests")]

use isotherm_core::ops::UpdateError;
use isotherm_core::{
    AddrRange, Check, Clock, Operations, PageBits, PageState, TargetId, Time, UnitCheck,
};
use isotherm_sim::config::Config;
use isotherm_sim::pattern::{Batch, LINE, Plan, Source, plans};
use isotherm_sim::world::{Costs, Faults, Options, VirtualClock, World};

const BASE: u64 = 0x2000_0000_0000;
const MB: u64 = 1 << 20;
const HUGE: u64 = 2 * MB;
const MS: u64 = 1_000_000;
const ROOT: TargetId = TargetId(0);

fn world_with(config: &str, options: &Options) -> (World, VirtualClock) {
    let world = World::new(&Config::parse(config).unwrap(), options);
    let clock = world.clock();
    (world, clock)
}

fn world(config: &str) -> (World, VirtualClock) {
    world_with(config, &Options::default())
}

fn checks(id: TargetId, pages: impl Iterator<Item = u64>) -> Vec<Check> {
    pages.map(|page| Check::new(id, BASE + page * 4096, 0)).collect()
}

fn look(world: &mut World, addr: u64) -> (PageState, u8) {
    let mut batch = [Check::new(ROOT, addr, 0)];
    world.check(&mut batch);
    (batch[0].state, batch[0].leaf_shift)
}

fn make_old(world: &mut World, addr: u64) -> PageState {
    let mut batch = [Check::new(ROOT, addr, 0)];
    world.prepare(&mut batch);
    batch[0].state
}

/// The pages that a real process running `plan` touches from one of `times` to the next.
fn executed(plan: &Plan, nr_pages: u64, times: &[Time], seed: u64) -> Vec<Vec<bool>> {
    let mut source = Source::new(plan, seed, 0.0);
    let rate = plan.rate.unwrap();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a number of accesses"
    )]
    let done_by = |t: Time| (rate * t.0 as f64 / 1e9) as u64;
    let mut all = Vec::new();
    for pair in times.windows(2) {
        let mut touched = vec![false; usize::try_from(nr_pages).unwrap()];
        let mut touch = |byte: u64| touched[usize::try_from(byte / 4096).unwrap()] = true;
        // In small steps, for the hot part may move within an interval.
        for step in 0..10 {
            let at = |i: u64| Time(pair[0].0 + (pair[1].0 - pair[0].0) * i / 10);
            let n = u32::try_from(done_by(at(step + 1)) - done_by(at(step))).unwrap();
            match source.batch(plan, at(step).0, n) {
                Batch::Lines(lines) => lines.iter().for_each(|l| touch(u64::from(*l) * LINE)),
                Batch::Sweep { start, touches, stride, first, n } => {
                    (0..n).for_each(|k| touch(start + (first + k) % touches * stride));
                }
            }
        }
        all.push(touched);
    }
    all
}

/// The pages that are seen young at each of `times` after they were made old at the one before.
fn simulated(config: &str, nr_pages: u64, times: &[Time], seed: u64) -> Vec<Vec<bool>> {
    let (mut world, mut clock) = world_with(config, &Options { seed, ..Options::default() });
    let mut all = Vec::new();
    for (i, time) in times.iter().enumerate() {
        clock.sleep_until(*time);
        let mut batch = checks(ROOT, 0..nr_pages);
        world.check(&mut batch);
        if i > 0 {
            all.push(batch.iter().map(|c| c.state == PageState::Young).collect());
        }
        world.prepare(&mut batch);
        assert!(batch.iter().all(|c| matches!(c.state, PageState::Old | PageState::Cleared)));
    }
    all
}

#[test]
fn sweeps_are_exact() {
    let patterns = [
        "m, 0, 4096, 1, rw, rate=1000",
        "m, 0, 4096, 1, rw, hz=3.7",
        "m, 0, 64, 1, rw, rate=2000, offset=256K, length=128K",
        "m, 0, 12288, 1, rw, rate=333",
        "m, 0, 5000, 1, rw, rate=777, offset=4K",
    ];
    let times: Vec<Time> =
        [0, 1, 3, 4, 40, 45, 145, 1000, 1005, 1999].iter().map(|ms| Time(ms * MS + ms)).collect();
    for pattern in patterns {
        let config = format!("m, 1M\n\np\n2000\n{pattern}\n");
        let plan = plans(&Config::parse(&config).unwrap()).remove(0).remove(0);
        assert_eq!(
            simulated(&config, 256, &times, 1),
            executed(&plan, 256, &times, 1),
            "{pattern}"
        );
    }
}

/// For every stretch of pages, the number of positive looks agrees with executed accesses, within
/// the statistical error.
#[test]
fn random_patterns_are_as_executed() {
    let small = [
        "m, 1, 64, 1, rw, hz=50",
        "m, 1, 64, 1, rw, hz=300, offset=1M, length=1M",
        "m, 1, 64, 1, rw, zipf=1.0, block=256K, rate=40000",
        "m, 1, 64, 1, rw, zipf=1.0, block=256K, scatter=yes, rate=40000",
        "m, 1, 64, 1, rw, sparse=32K, hz=200",
        "m, 1, 64, 1, rw, offset=512K, length=1M, step=512K, every=90, hz=200",
        "m, 1, 64, 1, rw, offset=3M, length=1M, step=256K, every=70, hz=200",
        "m, 1, 64, 1, rw, pieces=16K, share=10, hz=200",
        "m, 1, 64, 1, rw, pieces=4K, share=30, offset=1M, hz=200",
        "m, 1, 64, 1, rw, pieces=128K, share=25, every=90, hz=200",
    ];
    // More than 4096 blocks.
    let large = ["m, 1, 64, 1, rw, zipf=1.0, block=4K, scatter=yes, rate=400000"];
    let cases = small.map(|p| (4, p)).into_iter().chain(large.map(|p| (20, p)));
    let per_stretch = 32;
    for (mb, pattern) in cases {
        let nr_pages = mb * 256;
        let times: Vec<Time> = (0..=800 / mb).map(|i| Time(i * 5 * MS)).collect();
        let config = format!("m, {mb}M\n\np\n2000\n{pattern}\n");
        let plan = plans(&Config::parse(&config).unwrap()).remove(0).remove(0);
        let count = |runs: &[Vec<bool>], stretch: usize, page: usize| -> f64 {
            let pages = |i: &usize| (i % 8).is_multiple_of(page);
            let range = stretch * per_stretch..(stretch + 1) * per_stretch;
            let hits = |run: &Vec<bool>| range.clone().filter(pages).filter(|i| run[*i]).count();
            runs.iter().map(|run| hits(run) as f64).sum()
        };
        let world = simulated(&config, nr_pages, &times, 3);
        let real = executed(&plan, nr_pages, &times, 3);
        let stretches = usize::try_from(nr_pages).unwrap() / per_stretch;
        for stretch in 0..stretches {
            // All pages, and every eighth, which is where the sparse pattern is.
            for page in [1, 8] {
                let (a, b) = (count(&world, stretch, page), count(&real, stretch, page));
                let sigma = (a + b).sqrt().max(1.0);
                assert!((a - b).abs() < 5.0 * sigma, "{pattern}, stretch {stretch}: {a} {b}");
            }
        }
    }
}

/// Five looks in an interval find as many touched pages as one look.
#[test]
fn looking_often_changes_nothing() {
    let config = "m, 16M\n\np\n1000\nm, 1, 64, 1, rw, hz=100\n";
    let share = |looks: u64| {
        let (mut world, mut clock) = world(config);
        world.prepare(&mut checks(ROOT, 0..4096));
        let mut was_young = vec![false; 4096];
        let mut batch = checks(ROOT, 0..4096);
        for i in 1..=looks {
            clock.sleep_until(Time(5 * MS * i / looks));
            world.check(&mut batch);
            for (was, check) in was_young.iter_mut().zip(&batch) {
                assert!(!*was || check.state == PageState::Young, "a young page stays young");
                *was = check.state == PageState::Young;
            }
        }
        was_young.iter().filter(|y| **y).count() as f64 / 4096.0
    };
    let expected = 1.0 - (-0.5_f64).exp();
    for looks in [1, 5, 50] {
        let share = share(looks);
        assert!((share - expected).abs() < 0.035, "{looks} looks: {share}, expected {expected}");
    }
}

/// The truth of a leaf agrees with the truth file.
#[test]
fn truth_agrees_with_the_truth_file() {
    let configs = [
        "m, 64M\n\np\n4000\nm, 1, 64, 1, rw, hz=20\nm, 1, 64, 1, rw, length=8M, hz=100\n",
        "m, 64M\n\np\n4000\nm, 1, 64, 1, rw, zipf=1.0, block=4M, rate=500000\n",
        "m, 64M\n\np\n4000\nm, 0, 4096, 1, rw, hz=37\n",
        "m, 64M, none, thp=on\n\np\n4000\nm, 1, 64, 1, rw, offset=16M, length=16M, sparse=2M, hz=50\n",
        "m, 64M\n\np\n2000\nm, 1, 64, 1, rw, length=8M, hz=70\n\nq\n2000, resize=m:32M\nm, 1, 64, 1, rw\n",
        "@threads=2\nm, 64M\n\np\n4000\nm, 0, 4096, 1, rw, hz=11\n",
        "m, 64M\n\np\n4000\nm, 1, 64, 1, rw, pieces=256K, share=10, hz=50\n",
        "m, 64M, none, thp=on\n\np\n4000\nm, 1, 64, 1, rw, pieces=64K, share=1, hz=20\n",
        "m, 64M\n\np\n4000\nm, 1, 64, 1, rw, pieces=1M, share=20, every=2000, hz=50\n",
        "m, 32M\n\np\n4000\nm, 1, 64, 1, rw, zipf=1.0, block=4K, scatter=yes, rate=500000\n",
    ];
    for config in configs {
        let (world, _) = world(config);
        let truth = world.read_truth("test").unwrap();
        let process = truth.process(1000).unwrap();
        for (from, until) in [(0, 1000), (500, 1500), (2200, 3900)] {
            let (from, until) = (Time(from * MS), Time(until * MS));
            let tiles = truth.tiles(process, from, until, 5000);
            assert!(!tiles.is_empty(), "{config}");
            // Of thousands of tiles, some hundred.
            let every = tiles.len() / 256 + 1;
            for tile in tiles.into_iter().step_by(every) {
                let addr = (tile.range.start + tile.range.len() / 3) & !4095;
                let p = world.truth(ROOT, addr, from, until, 5000).unwrap();
                let allowed = 0.03 * tile.p + 0.002;
                assert!((p - tile.p).abs() < allowed, "{config}: {addr:#x} {p} {tile:?}");
            }
        }
    }
}

#[test]
fn memory_comes_and_goes() {
    let config = "m, 8M, none, mapped=4M\n\none\n100\nm, 1, 64, 1, rw, hz=1000\n\n\
                  two\n100, resize=m:8M\n\nthree\n100, resize=m:0\n\nfour\n100, resize=m:4M\n";
    let (mut world, mut clock) = world(config);
    let maps = |world: &mut World| {
        let mut maps = Vec::new();
        world.update(ROOT, &mut maps).map(|()| maps)
    };
    let (low, high) = (BASE + MB, BASE + 5 * MB);
    assert_eq!(maps(&mut world), Ok(vec![AddrRange::new(BASE, BASE + 4 * MB)]));
    assert_eq!(look(&mut world, high), (PageState::Absent, 12));
    assert_eq!(make_old(&mut world, low), PageState::Cleared);
    assert_eq!(make_old(&mut world, low), PageState::Old);
    clock.sleep_until(Time(50 * MS));
    assert_eq!(look(&mut world, low).0, PageState::Young);
    clock.sleep_until(Time(150 * MS));
    assert_eq!(maps(&mut world), Ok(vec![AddrRange::new(BASE, BASE + 8 * MB)]));
    assert_eq!(look(&mut world, high).0, PageState::Young, "new pages were just written");
    assert_eq!(make_old(&mut world, low), PageState::Cleared);
    clock.sleep_until(Time(190 * MS));
    assert_eq!(look(&mut world, low).0, PageState::Old, "nothing is touched in this phase");
    clock.sleep_until(Time(250 * MS));
    assert_eq!(maps(&mut world), Err(UpdateError::NotNow));
    assert_eq!(look(&mut world, low).0, PageState::Absent);
    clock.sleep_until(Time(350 * MS));
    assert_eq!(look(&mut world, low).0, PageState::Young, "a new page at the old address");
    clock.sleep_until(Time(400 * MS));
    assert_eq!(maps(&mut world), Err(UpdateError::Gone));
    assert!(!world.target_valid(ROOT));
}

#[test]
fn a_huge_leaf_has_one_bit() {
    let config = "m, 5M, none, thp=on\n\np\n1000\nm, 1, 64, 1, rw, length=2M, sparse=2M, hz=1000\n";
    let (mut world, mut clock) = world(config);
    assert_eq!(look(&mut world, BASE + 77 * 4096), (PageState::Young, 21));
    assert_eq!(make_old(&mut world, BASE), PageState::Cleared);
    assert_eq!(look(&mut world, BASE + HUGE - 1), (PageState::Old, 21));
    assert_eq!(make_old(&mut world, BASE + HUGE), PageState::Cleared);
    assert_eq!(
        look(&mut world, BASE + 2 * HUGE),
        (PageState::Young, 12),
        "the tail is small pages"
    );
    clock.sleep_until(Time(100 * MS));
    // Only the first page of the first 2 MiB is touched, but the whole leaf turns young.
    assert_eq!(look(&mut world, BASE + HUGE - 1).0, PageState::Young);
    assert_eq!(look(&mut world, BASE + HUGE).0, PageState::Old);
}

#[test]
fn untouched_memory_is_absent_until_it_is_touched() {
    let config = "m, 4M, none, populate=no\n\np\n1000\nm, 1, 64, 1, rw, length=1M, hz=100\n";
    let (mut world, mut clock) = world(config);
    assert_eq!(look(&mut world, BASE).0, PageState::Absent);
    clock.sleep_until(Time(900 * MS));
    assert_eq!(look(&mut world, BASE).0, PageState::Young);
    assert_eq!(look(&mut world, BASE + 2 * MB).0, PageState::Absent);
}

#[test]
fn fork_tree() {
    let config = "@processes=4\n@fork_ms=100\nc, 1M\np, 4M\n\none\n500\n\
                  c, 1, 64, 1, ro, hz=200\np, 1, 64, 1, rw, offset=3M, hz=200, process=3\n";
    let (mut world, mut clock) = world(config);
    let tree: Vec<_> = world.processes().map(|p| (p.id.0, p.parent_pid, p.start.0 / MS)).collect();
    assert_eq!(
        tree,
        [(0, None, 0), (1, Some(1000), 100), (2, Some(1000), 200), (3, Some(1001), 300)]
    );
    let child = TargetId(3);
    assert!(!world.target_valid(child));
    assert_eq!(world.update(child, &mut Vec::new()), Err(UpdateError::Gone));
    clock.sleep_until(Time(300 * MS));
    assert!(world.target_valid(child));
    let part = 64 * MB / 4096 + 2 * MB / 4096;
    let at_fork = |world: &mut World, id| {
        let mut batch = checks(id, [part, part + 3 * 256].into_iter());
        world.check(&mut batch);
        [batch[0].state, batch[1].state]
    };
    assert_eq!(at_fork(&mut world, child), [PageState::Old; 2], "a fork copies cleared bits");
    clock.sleep_until(Time(400 * MS));
    assert_eq!(at_fork(&mut world, child), [PageState::Old, PageState::Young]);
    assert_eq!(at_fork(&mut world, ROOT), [PageState::Young; 2], "as populated at the start");
}

/// Hot parts move by the phase's clock, also in a process that was forked in the middle of it.
#[test]
fn a_forked_process_moves_with_its_parent() {
    let keys = ["pieces=1M, share=25, every=100", "length=1M, step=1M, every=100"];
    for keys in keys {
        let config = format!(
            "@processes=2\n@fork_ms=150\nm, 16M\n\np\n1000\nm, 1, 64, 1, rw, {keys}, hz=1000\n"
        );
        let (world, _) = world(&config);
        let truth = world.read_truth("test").unwrap();
        for (p, process) in &truth.processes {
            for (k, counts) in process.slots.iter().filter(|(k, _)| **k >= 2) {
                let cells: Vec<u64> = counts.iter().map(|c| u64::from(c.1)).collect();
                assert_eq!(cells, [*k], "{keys}: process {p}, slot {k}");
            }
        }
    }
}

#[test]
fn faults_happen_as_often_as_asked() {
    let config = "m, 16M\n\np\n100000\n";
    let faults: Faults = "fail=0.2, blind=0.3, notnow=0.5, late=0.25:4ms".parse().unwrap();
    let (mut world, mut clock) = world_with(config, &Options { faults, ..Options::default() });
    let end = world.processes().next().unwrap().end;
    let close = |share: f64, wanted: f64| (share - wanted).abs() < 0.05;
    let mut batch = checks(ROOT, 0..4096);
    let blind: Vec<Vec<bool>> = (0..2)
        .map(|_| {
            world.prepare(&mut batch);
            let share = |s| batch.iter().filter(|c| c.state == s).count() as f64 / 4096.0;
            assert!(close(share(PageState::Unknown), 0.2));
            assert!(close(share(PageState::Unresolved), 0.8 * 0.3));
            clock.sleep_until(Time(1));
            batch.iter().map(|c| c.state == PageState::Unresolved).collect()
        })
        .collect();
    let both = blind[0].iter().zip(&blind[1]).filter(|(a, b)| **a && **b).count() as f64 / 4096.0;
    assert!(close(both, 0.3 * 0.8 * 0.8), "the same pages are blind each time: {both}");
    let (mut late, mut late_ns, mut not_now) = (0.0, 0.0, 0.0);
    for i in 1..=2000 {
        let due = world.now().plus_us(100);
        clock.sleep_until(due);
        late += f64::from(u8::from(world.now() > due));
        late_ns += world.now().since(due) as f64;
        if world.now() < end {
            let answer = world.update(ROOT, &mut Vec::new());
            not_now += f64::from(u8::from(answer == Err(UpdateError::NotNow)));
            assert_ne!(answer, Err(UpdateError::Gone), "turn {i}");
        }
    }
    assert!(close(late / 2000.0, 0.25) && close(late_ns / late / 4e6, 1.0), "{late} {late_ns}");
    assert!(close(not_now / 2000.0, 0.5), "{not_now}");
    clock.sleep_until(end);
    assert_eq!(world.update(ROOT, &mut Vec::new()), Err(UpdateError::Gone));
}

#[test]
fn processes_die_early() {
    let faults = Faults { vanish: 0.05, ..Faults::default() };
    let ends = (0..400).map(|seed| {
        let options = Options { seed, faults, ..Options::default() };
        let (world, _) = world_with("m, 16M\n\np\n100000\n", &options);
        world.processes().next().unwrap().end.0 as f64 / 1e9
    });
    let mean = ends.sum::<f64>() / 400.0;
    assert!((mean - 20.0).abs() < 4.0, "{mean} s");
}

/// Operations are counted, and virtual time passes by their cost.
#[test]
fn operations_cost_time() {
    let costs = Costs { check_ns: 10, clear_ns: 1000 };
    let options = Options { costs, ..Options::default() };
    let (mut world, _) = world_with("m, 16M\n\np\n1000\n", &options);
    let mut batch = checks(ROOT, 0..100);
    world.check(&mut batch);
    assert_eq!(world.now(), Time(100 * 10));
    world.prepare(&mut batch);
    assert_eq!(world.now(), Time(200 * 10 + 100 * 1000));
    world.prepare(&mut batch);
    let counts = world.counts();
    assert_eq!((counts.checks, counts.clears, counts.spent_ns), (300, 100, world.now().0));
}

#[test]
fn faults_are_read() {
    let good =
        ["late=0.1:2ms", "fail=0", "blind=1", "notnow=0.5", "vanish=3", "slow=150us", "busy=1ms"];
    for text in good {
        text.parse::<Faults>().unwrap();
    }
    for text in [
        "",
        "late=0.1",
        "late=0.1:2",
        "fail=1.1",
        "blind=x",
        "notnow=-1",
        "slow=9",
        "busy",
        "rain=1",
    ] {
        assert!(text.parse::<Faults>().is_err(), "{text}");
    }
}

/// A unit whose pages are alike is answered at once. The answers are those of the pages one by one,
/// in whatever order the memory is touched, mapped and made old.
#[test]
fn units_are_answered_as_their_pages_one_by_one() {
    let config = "m, 16M\nabsent, 4M, populate=no\ngrown, 8M, mapped=5M\n\n\
                  random\n300, resize=grown:5M\n\
                  m, 1, 64, 1, rw, pieces=2M, share=25, hz=300\n\
                  absent, 1, 64, 1, rw, offset=2M, length=4K, hz=50\n\n\
                  sweep\n300, resize=grown:8M\nm, 0, 4096, 1, rw, rate=3000\n\
                  grown, 1, 64, 1, rw, offset=6M, length=64K, hz=100\n";
    let options = Options { duration_ms: Some(1500), ..Options::default() };
    let (mut by_page, mut page_clock) = world_with(config, &options);
    let (mut by_unit, mut unit_clock) = world_with(config, &options);
    let (mut alike, mut mixed) = (0, 0);
    for (nr, ms) in [0, 5, 20, 100, 290, 310, 400, 610, 700, 905, 1400].into_iter().enumerate() {
        page_clock.sleep_until(Time(ms * MS));
        unit_clock.sleep_until(Time(ms * MS));
        let maps: Vec<AddrRange> = by_unit.mappings(ROOT).map(|(range, _)| range).collect();
        for start in maps.iter().flat_map(|map| (map.start..map.end).step_by(2 << 20)) {
            let clear = !(start / HUGE + nr as u64).is_multiple_of(3);
            let mut unit = [UnitCheck::new(ROOT, start, PageBits::ALL)];
            let mut pages: Vec<_> =
                (0..512).map(|page| Check::new(ROOT, start + page * 4096, 0)).collect();
            if clear {
                by_unit.prepare_units(&mut unit);
                by_page.prepare(&mut pages);
            } else {
                by_unit.check_units(&mut unit);
                by_page.check(&mut pages);
            }
            let [unit] = unit;
            for (page, check) in (0..512).zip(&pages) {
                let is = |bits: PageBits| !bits.and(PageBits::page(page)).is_empty();
                let expected = match check.state {
                    PageState::Absent => (false, false),
                    PageState::Old => (true, false),
                    _ => (true, true),
                };
                assert_eq!((is(unit.present), is(unit.young)), expected, "{start:x} {page} {ms}");
            }
            let all_or_none = |bits: PageBits| bits.is_empty() || bits == PageBits::ALL;
            if all_or_none(unit.present) && all_or_none(unit.young) {
                alike += 1;
            } else {
                mixed += 1;
            }
        }
    }
    assert_eq!(by_unit.counts().clears, by_page.counts().clears);
    assert!(alike > 50 && mixed > 10, "{alike} alike, {mixed} mixed");
}

/// A terabyte of which little is touched takes little memory: nothing is kept by page.
#[test]
fn a_terabyte_takes_no_memory_by_page() {
    let config = "m, 1T\n\np\n10000\nm, 1, 64, 1, rw, pieces=64M, share=0.1, hz=200\n";
    let (mut world, mut clock) = world_with(config, &Options::default());
    let before = resident();
    for at_ms in [10, 20] {
        clock.sleep_until(Time(at_ms * MS));
        let mut young = 0;
        for start in (BASE..BASE + (1 << 40)).step_by(2 << 20) {
            let mut unit = [UnitCheck::new(ROOT, start, PageBits::ALL)];
            world.prepare_units(&mut unit);
            young += u64::from(!unit[0].young.is_empty());
        }
        // Of 16384 pieces 16 are touched, of 32 units each.
        assert_eq!(young, if at_ms == 10 { 1 << 19 } else { 512 });
    }
    let grown = resident() - before;
    assert!(grown < 64 << 20, "{grown} bytes");
}

/// Bytes of this process that are in memory.
fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}
