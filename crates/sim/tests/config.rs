//! The config parser: masim's files, our keys, and everything that is wrong.

use isotherm_sim::config::{Config, Mode, Pieces, Rate, SHIPPED, Thp};
use isotherm_sim::pattern::plans;
use proptest::prelude::*;

/// The grammar as masim's README gives it, with every spelling that its parser takes.
#[test]
fn masim_files() {
    let text = "#regions\n# name, length, initial data file\na, 256, none\nb,64\nlong name, 128, some/file\n\n\
                # phase 1\n# name of phase\nexample phase 1\n# time in ms\n1000\n# patterns\na, 1, 64, 80, wo\n\n\
                \nexample phase 2\n1500\nlong name, 1, 64, 50, ro\nb, 0, 4096, 50, rw\na, 0, 8, x\n";
    let err = Config::parse(text).unwrap_err();
    assert_eq!((err.line, err.found.as_str()), (20, "x"));
    let config = Config::parse(&text.replace("8, x", "8, 0")).unwrap();
    assert_eq!(config.total_ms(), 2500);
    let names: Vec<_> = config.regions.iter().map(|r| (r.name.as_str(), r.size)).collect();
    assert_eq!(names, [("a", 256), ("b", 64), ("long name", 128)]);
    assert_eq!(config.regions[2].data.as_deref(), Some("some/file"));
    assert!(config.regions.iter().all(|r| r.populate && r.thp == Thp::Off && r.mapped == r.size));
    let p = &config.phases[1].patterns;
    assert_eq!(config.phases[1].name, "example phase 2");
    assert!(p[0].random && !p[1].random);
    assert_eq!((p[0].region, p[1].region, p[1].stride), (2, 1, 4096));
    let modes: Vec<_> = p.iter().map(|p| p.mode).collect();
    assert_eq!(modes, [Mode::ReadOnly, Mode::ReadWrite, Mode::WriteOnly]);
    assert_eq!(p[1].weight, 50);
    assert!(p.iter().all(|p| p.rate.is_none()));
}

#[test]
fn our_keys() {
    let text = "@ seed = 9\n@processes=3\n@gap=8K\nm, 64M, thp=on, populate=no, mapped=32M\nt, 1M\n\n\
                one\n100, resize=m:64M, resize=t:0\n\
                m, 1, 64, 1, rw, zipf=0.99, block=1M, scatter=yes, rate=1000\n\
                m, 1, 64, 1, offset=2M, length=4M, hz=2.5, process=2\n\
                m, 1, 64, 1, ro, sparse=2M\nm, 1, 64, 1, length=4M, step=2M, every=50\n\
                m, 1, 64, 1, offset=2M, length=8M, pieces=64K, share=12.5, hz=2\n\
                m, 1, 64, 1, pieces=1M, share=1, every=30, hz=1\n\
                m, 1, 64, 1, zipf=1, block=4K, hz=1\n\nidle\n100\n";
    let config = Config::parse(text).unwrap();
    let settings = config.settings;
    assert_eq!((settings.seed, settings.processes, settings.gap), (9, 3, 8192));
    assert_eq!((config.regions[0].thp, config.regions[0].mapped), (Thp::On, 32 << 20));
    assert_eq!(config.phases[0].resize, [(0, 64 << 20), (1, 0)]);
    let p = &config.phases[0].patterns;
    let zipf = p[0].zipf.unwrap();
    assert_eq!((zipf.exponent, zipf.block, zipf.scatter), (0.99, 1 << 20, true));
    assert_eq!((p[0].rate, p[1].rate), (Some(Rate::Total(1000.0)), Some(Rate::PerPage(2.5))));
    assert_eq!((p[1].offset, p[1].length, p[1].process), (2 << 20, Some(4 << 20), Some(2)));
    assert_eq!(p[2].sparse, Some(2 << 20));
    assert_eq!(p[3].drift.map(|d| (d.step, d.every_ms)), Some((2 << 20, 50)));
    assert_eq!(p[4].pieces, Some(Pieces { size: 64 << 10, share: 12.5, every_ms: None }));
    assert_eq!(p[5].pieces, Some(Pieces { size: 1 << 20, share: 1.0, every_ms: Some(30) }));
    assert!(p[4].drift.is_none() && p[5].drift.is_none());
    assert!(config.phases[1].patterns.is_empty());
    let plans = plans(&config);
    let cells: Vec<_> = plans[0].iter().map(|p| (p.cells.count(), p.cells.pages())).collect();
    // Four choices of pieces take turns in 100 ms, of one piece each. 16384 blocks are 168 sets.
    let expected =
        [(64, 16384), (1, 1024), (32, 32), (32, 16384), (1, 2048), (4, 16384), (168, 16384)];
    assert_eq!(cells, expected);
    // An eighth of 128 pieces of 16 pages; one piece of 256 pages; every page.
    let rates: Vec<_> = plans[0].iter().map(|p| p.rate).collect();
    assert_eq!(rates[1], Some(2560.0));
    assert_eq!(rates[4..], [Some(512.0), Some(256.0), Some(16384.0)]);
}

#[test]
fn regions_begin_where_they_say_or_behind_the_one_before() {
    let text = "@gap=1M\na, 1M\nb, 3M\nc, 1M, at=0x800000000000\nd, 1M\ne, 1M, at=4G\n\np\n1\n";
    let config = Config::parse(text).unwrap();
    let base = 0x2000_0000_0000;
    let expected =
        [base, base + (4 << 20), 0x8000_0000_0000, 0x8000_0000_0000 + (4 << 20), 4 << 30];
    assert_eq!(config.bases(), expected);
    assert_eq!(Config::parse(&config.to_string()), Ok(config));
}

/// (text, line of the error, part of what was expected, what was found)
const WRONG_FILES: &[(&str, usize, &str, &str)] = &[
    ("", 1, "a region", "the end of the file"),
    ("# nothing\n\n", 2, "a region", "the end of the file"),
    ("a, 1M\n", 1, "a phase", "the end of the file"),
    ("a\n", 1, "a size", "a"),
    ("a, ten\n", 1, "the region's size", "ten"),
    ("a, 33T\n", 1, "to 32 TiB", "33T"),
    ("a, 1X\n", 1, "the region's size", "1X"),
    ("a, 0\n", 1, "from 1 byte", "0"),
    ("a, 99999999999999999999\n", 1, "the region's size", "99999999999999999999"),
    ("a, 1M\na, 2M\n", 2, "a region name that is not taken", "a"),
    ("a, 1M, none, none\n", 1, "thp=", "none"),
    ("a, 1M, none, thp=maybe\n", 1, "`on`", "maybe"),
    ("a, 1M, mapped=2M\n", 1, "not larger", "2M"),
    ("a, 1M, at=1M\n", 1, "from 4G on", "1M"),
    ("a, 1M, at=0x800000001000\n", 1, "a multiple of 2M", "0x800000001000"),
    ("a, 1M, at=0x100000000000000\n", 1, "below 2^56", "0x100000000000000"),
    ("a, 4M, at=0xffffffffe00000\n", 1, "ends below 2^56", "a, 4M, at=0xffffffffe00000"),
    ("a, 4M\nb, 1M, at=0x200000200000\n", 2, "overlaps no", "b, 1M, at=0x200000200000"),
    ("@gap=16E\na, 1M\n", 1, "a gap", "16E"),
    ("@gap=9000P\na, 1M\nb, 1M\n", 3, "ends below 2^56", "b, 1M"),
    ("@speed=1\na, 1M\n", 1, "one of seed", "speed=1"),
    ("@threads=0\na, 1M\n", 1, "from 1 to 64", "0"),
    ("@fork_ms=0\na, 1M\n", 1, "above 0", "0"),
    ("a, 1M\n\np\n", 4, "length in ms", "the paragraph's end"),
    ("a, 1M\n\np\nsoon\n", 4, "length in ms", "soon"),
    ("a, 1M\n\np\n-1\n", 4, "length in ms", "-1"),
    ("a, 1M\n\np\n100, resize=b:1M\n", 4, "the name of a region", "b"),
    ("a, 1M\n\np\n100, resize=a:2M\n", 4, "not larger", "a:2M"),
    ("a, 1M\n\np\n100, resize=a:0\na, 1, 64, 1\n", 5, "inside what is mapped", "a, 1, 64, 1"),
];

/// (pattern of a region `a` of 1 MiB, part of what was expected, what was found)
const WRONG_PATTERNS: &[(&str, &str, &str)] = &[
    ("b, 0, 64, 1", "the name of a region", "b"),
    ("a, 0", "the stride", "a, 0"),
    ("a, 0, 64", "the probability", "a, 0, 64"),
    ("a, x, 64, 1", "randomness", "x"),
    ("a, 0, 0, 1", "a stride above 0", "0"),
    ("a, 0, 64, often", "the probability", "often"),
    ("a, 0, 64, 1, wr", "`ro`", "wr"),
    ("a, 0, 64, 1, ro, 7", "the line's end", "7"),
    ("a, 0, 64, 1, ro, speed=7", "rate=", "speed=7"),
    ("a, 0, 64, 1, ro, rate=0", "above 0", "0"),
    ("a, 0, 64, 1, ro, rate=nan", "above 0", "nan"),
    ("a, 0, 64, 1, ro, offset=1", "a multiple of 4096", "1"),
    ("a, 0, 64, 1, offset=1M", "inside what is mapped", "a, 0, 64, 1, offset=1M"),
    ("a, 1, 64, 1, length=2M", "inside what is mapped", "a, 1, 64, 1, length=2M"),
    ("a, 0, 64, 1, zipf=1", "randomness 1", "a, 0, 64, 1, zipf=1"),
    ("a, 1, 64, 1, block=4K", "zipf= with", "a, 1, 64, 1, block=4K"),
    ("a, 1, 64, 1, zipf=1, sparse=8K", "only one of", "a, 1, 64, 1, zipf=1, sparse=8K"),
    ("a, 1, 64, 1, step=8K", "together", "a, 1, 64, 1, step=8K"),
    ("a, 1, 64, 1, every=5", "together", "a, 1, 64, 1, every=5"),
    ("a, 1, 64, 1, pieces=8K", "share= together", "a, 1, 64, 1, pieces=8K"),
    ("a, 1, 64, 1, share=8", "share= together", "a, 1, 64, 1, share=8"),
    ("a, 1, 64, 1, pieces=8K, share=101", "up to 100", "101"),
    ("a, 1, 64, 1, pieces=8K, share=0", "up to 100", "0"),
    ("a, 1, 64, 1, pieces=5000, share=8", "multiple of 4096", "5000"),
    ("a, 1, 64, 1, pieces=0, share=8", "whole pieces", "a, 1, 64, 1, pieces=0, share=8"),
    ("a, 1, 64, 1, pieces=12K, share=8", "whole pieces", "a, 1, 64, 1, pieces=12K, share=8"),
    ("a, 0, 64, 1, pieces=8K, share=8", "randomness 1", "a, 0, 64, 1, pieces=8K, share=8"),
    ("a, 1, 64, 1, share=8, zipf=1", "only one of", "a, 1, 64, 1, share=8, zipf=1"),
    ("a, 1, 64, 1, step=12K, every=5", "multiples of step", "a, 1, 64, 1, step=12K, every=5"),
    ("a, 1, 64, 1, process=1", "below @processes", "a, 1, 64, 1, process=1"),
];

#[test]
fn errors_name_the_line_and_what_was_expected() {
    let patterns = WRONG_PATTERNS.iter().map(|(pattern, expected, found)| {
        (format!("a, 1M\n\np\n100\n{pattern}\n"), 5, *expected, *found)
    });
    let files = WRONG_FILES.iter().map(|(text, line, e, f)| ((*text).to_owned(), *line, *e, *f));
    for (text, line, expected, found) in files.chain(patterns) {
        let err = Config::parse(&text).unwrap_err();
        assert_eq!(err.line, line, "{text:?}: {err}");
        assert!(err.expected.contains(expected), "{text:?}: {err}");
        assert_eq!(err.found, found, "{text:?}: {err}");
    }
}

#[test]
fn shipped_workloads_take_at_most_a_minute_and_read_back() {
    for (name, text) in SHIPPED {
        let mut config = Config::parse(text).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!((1..=60_000).contains(&config.total_ms()), "{name}");
        assert_eq!(Config::parse(&config.to_string()).as_ref(), Ok(&config), "{name}");
        let ms = config.total_ms();
        config.scale(0.5);
        assert_eq!(config.total_ms(), ms / 2, "{name}");
    }
}

fn key() -> impl Strategy<Value = String> {
    let word = prop::sample::select(vec![
        "seed", "threads", "thp", "mapped", "resize", "rate", "hz", "offset", "length", "zipf",
        "block", "pieces", "share", "sparse", "step", "every", "process", "",
    ]);
    let value =
        prop_oneof!["[0-9]{1,20}[KMG]?", Just("on".to_owned()), "[a-z]:[0-9]{1,6}", ".{0,5}"];
    (word, value).prop_map(|(w, v)| format!("{w}={v}"))
}

/// Whole configs with random numbers, of which many are valid and many have one error.
fn likely() -> impl Strategy<Value = String> {
    let size = || prop_oneof!["[0-9]{1,6}", "[0-9]{1,3}[KM]"];
    let region = (size(), prop::option::of(key()));
    let pattern = ("[ab]", "[01]", "[0-9]{1,5}", "[0-9]", prop::collection::vec(key(), 0..3));
    let regions = prop::collection::vec(region, 1..3);
    let phases = prop::collection::vec(prop::collection::vec(pattern, 0..3), 1..4);
    (regions, phases).prop_map(|(regions, phases)| {
        let mut text = String::new();
        for (name, (size, key)) in ["a", "b"].iter().zip(regions) {
            let key = key.map_or(String::new(), |k| format!(", {k}"));
            text += &format!("{name}, {size}{key}\n");
        }
        for patterns in phases {
            text += "\nphase\n100\n";
            for (region, random, stride, weight, keys) in patterns {
                let keys: String = keys.iter().map(|k| format!(", {k}")).collect();
                text += &format!("{region}, {random}, {stride}, {weight}{keys}\n");
            }
        }
        text
    })
}

proptest! {
    #[test]
    fn any_text_is_a_config_or_an_error(text in prop_oneof![4 => likely(), 1 => ".{0,200}"]) {
        match Config::parse(&text) {
            Ok(config) => {
                // A config that is accepted must also run, and must read back from its printed
                // form.
                for plan in plans(&config).iter().flatten() {
                    prop_assert!(plan.cells.end <= config.regions[plan.region].size);
                    prop_assert!(plan.cells.count() <= 4096);
                    let pieces = plan.cells.nr_pieces();
                    let mut of_sets = plan.cells.sets.iter().flatten();
                    prop_assert!(of_sets.all(|piece| u64::from(*piece) < pieces));
                }
                let again = Config::parse(&config.to_string());
                prop_assert_eq!(again, Ok(config));
            }
            Err(err) => prop_assert!(err.line <= text.lines().count() + 1),
        }
    }
}
