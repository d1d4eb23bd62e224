//! DAMON's historic text formats (R§6.6).

use expect_test::{Expect, expect};
use isotherm_act::apply::Evidence;
use isotherm_agent::damos::{parse_damos, with_settings};
use isotherm_agent::ready::Confirm;
use isotherm_core::scheme::{
    Action, Age, Bounds, Brake, Frequency, Pattern, WatermarkMetric, Watermarks, Weights,
};
use isotherm_core::{Attrs, Scheme};

const ANY: u32 = u32::MAX;

fn read(text: &str, attrs: &Attrs) -> Vec<Scheme> {
    parse_damos(text, "file.damos", attrs).unwrap_or_else(|e| panic!("{e}"))
}

fn pattern(sz: (u64, u64), nr: (u32, u32), age: (u32, u32)) -> Pattern {
    Pattern {
        sz: Bounds::new(sz.0, sz.1),
        nr_accesses: Frequency::Samples(Bounds::new(nr.0, nr.1)),
        age: Age::Windows(Bounds::new(age.0, age.1)),
    }
}

fn patterns(text: &str, attrs: &Attrs) -> Vec<(Pattern, Action)> {
    read(text, attrs).into_iter().map(|scheme| (scheme.pattern, scheme.action)).collect()
}

/// The schemes of the RFC's letter, as they stand there.
const RFC: &str = "\
# format: <min/max size> <min/max frequency (0-100)> <min/max age> <action>

# ethp: Use huge pages if a region >2MB shows >5% access rate, use regular
# pages if a region >2MB shows <5% access rate for >1 second
2M\tnull\t5\tnull\tnull\tnull\thugepage
2M null null 5 1s null nohugepage

# prcl: If a region >4KB shows <5% access rate for >5 seconds, page out.
4K null null 5 500ms null pageout
";

/// Those of the evaluation page.
const EVALUATION: &str = "
    # ethp: Use huge pages if a region shows >=5% access rate, use regular
    # pages if a region >=2MB shows 0 access rate for >=7 seconds
    min     max     5       max     min     max     hugepage
    2M      max     min     min     7s      max     nohugepage

    # prcl: If a region >=4KB shows 0 access rate for >=10 seconds, page out.
    4K      max     0       0       10s     max     pageout
";

#[test]
fn schemes_of_the_rfc() {
    let m2 = 2_097_152;
    let want = [
        (pattern((m2, u64::MAX), (1, ANY), (0, ANY)), Action::Hugepage),
        (pattern((m2, u64::MAX), (0, 1), (10, ANY)), Action::Nohugepage),
        (pattern((4096, u64::MAX), (0, 1), (5, ANY)), Action::Pageout),
    ];
    for attrs in [Attrs::default(), Attrs::reference()] {
        assert_eq!(patterns(RFC, &attrs), want);
    }
}

#[test]
fn schemes_of_the_evaluation_page() {
    let want = |forever| {
        [
            (pattern((0, u64::MAX), (1, 20), (0, forever)), Action::Hugepage),
            (pattern((2_097_152, u64::MAX), (0, 0), (70, forever)), Action::Nohugepage),
            (pattern((4096, u64::MAX), (0, 0), (100, forever)), Action::Pageout),
        ]
    };
    assert_eq!(patterns(EVALUATION, &Attrs::default()), want(ANY));
    // The tool's `max` was a number of microseconds: 71.6 minutes.
    assert_eq!(patterns(EVALUATION, &Attrs::reference()), want(42_949));
}

#[test]
fn lines_of_debugfs() {
    let plain = Attrs::default();
    // What the RFC's tool made of its own example: 0 is no bound.
    let ethp = patterns("2097152 0 1 0 0 0 3\n", &plain);
    assert_eq!(ethp, [(pattern((2_097_152, u64::MAX), (1, ANY), (0, ANY)), Action::Hugepage)]);
    let text = "4096 8192 0 5 10 20 5  10 1048576 1000  0 3 7  1 5000000 500 400 200";
    let whole = read(text, &plain);
    let with_stats = read(&format!("{text}  1 2 3 4 5"), &plain);
    assert_eq!(whole, with_stats);
    let [scheme] = whole.as_slice() else { panic!("one scheme") };
    assert_eq!(scheme.pattern, pattern((4096, 8192), (0, 5), (10, 20)));
    assert_eq!(scheme.action, Action::Stat);
    let quota = &scheme.quota;
    assert_eq!((quota.ms, quota.sz, quota.reset_interval_ms), (10, 1 << 20, 1000));
    assert_eq!(quota.weights, Weights { sz: 0, nr_accesses: 3, age: 7 });
    let metric = WatermarkMetric::FreeMemRate;
    let marks = Watermarks { metric, interval_us: 5_000_000, high: 500, mid: 400, low: 200 };
    assert_eq!(scheme.watermarks, marks);
    // Here a maximum of 0 is one.
    let none = "4096 8192 0 0 0 0 2  0 0 0  0 0 0  0 0 0 0 0";
    assert_eq!(patterns(none, &plain)[0].0, pattern((4096, 8192), (0, 0), (0, 0)));
}

#[test]
fn more_fields() {
    let attrs = Attrs::default();
    let one = |text: &str| read(text, &attrs).remove(0);
    let base = "4K max min min 10s max pageout";
    assert!(!one(base).quota.is_set());
    let nine = one(&format!("{base} 100M 1s"));
    assert_eq!((nine.quota.sz, nine.quota.reset_interval_ms, nine.quota.ms), (100 << 20, 1000, 0));
    let twelve = one(&format!("{base} 100M 1s 0 3 7 # trailing words"));
    assert_eq!(twelve.quota.weights, Weights { sz: 0, nr_accesses: 3, age: 7 });
    let seventeen = one(&format!("{base} 100M 1s 0 3 7 free_mem_rate 5s 500 400 200"));
    let metric = WatermarkMetric::FreeMemRate;
    let marks = Watermarks { metric, interval_us: 5_000_000, high: 500, mid: 400, low: 200 };
    assert_eq!((seventeen.quota.ms, seventeen.watermarks), (0, marks));
    let eighteen = one(&format!("{base} 10ms 100M 1s 0 3 7 none 5s 500 400 200"));
    assert_eq!((eighteen.quota.ms, eighteen.quota.sz), (10, 100 << 20));
    assert_eq!(eighteen.watermarks.metric, WatermarkMetric::None);
    // A window without an end is as long as nanoseconds can say.
    let endless = one(&format!("{base} 100M max")).quota;
    assert!(endless.reset_interval_ms.checked_mul(1_000_000).is_some());
}

#[test]
fn units_and_decimals() {
    let attrs = Attrs::default();
    let cases = [
        ("2.5M max min max min max stat", pattern((2_621_440, u64::MAX), (0, 20), (0, ANY))),
        ("1G 1T 12.5 50% 1m 1h stat", pattern((1 << 30, 1 << 40), (2, 10), (600, 36_000))),
        ("4096B max 4.9 max 150ms 1d stat", pattern((4096, u64::MAX), (0, 20), (1, 864_000))),
    ];
    for (text, want) in cases {
        assert_eq!(read(text, &attrs)[0].pattern, want, "{text}");
    }
    // The same words mean other numbers with other intervals.
    let slow = Attrs { sample_us: 10_000, aggr_us: 1_000_000, ..attrs };
    let want = pattern((0, u64::MAX), (5, 100), (7, ANY));
    assert_eq!(read("min max 5 max 7s max stat", &slow)[0].pattern, want);
}

#[test]
fn a_bound_that_rounds_to_nothing() {
    let text = "4K null null 4 null 50ms pageout";
    let kept = pattern((4096, u64::MAX), (0, 0), (0, 0));
    assert_eq!(read(text, &Attrs::default())[0].pattern, kept);
    let lost = pattern((4096, u64::MAX), (0, ANY), (0, ANY));
    assert_eq!(read(text, &Attrs::reference())[0].pattern, lost);
    // In a file of that format, zero is no bound without `null` too.
    let mixed = read("4K null null 5 1s null pageout\n4K 0 0 0 1s 0 pageout", &Attrs::default());
    assert_eq!(mixed[1].pattern, pattern((4096, u64::MAX), (0, ANY), (10, ANY)));
}

#[test]
fn ready_to_be_carried_out() {
    let attrs = Attrs::default();
    let schemes = read("4K max 0 0 10s max pageout\n4K max 0 0 20s max pageout\n", &attrs);
    let careful = with_settings(schemes.clone(), &attrs, Confirm::ByAge, false);
    let names: Vec<_> = careful.iter().map(|scheme| scheme.settings.name.as_str()).collect();
    assert_eq!(names, ["pageout", "pageout2"]);
    assert_eq!(careful[1].settings.evidence, Evidence::Confirm(20_000_000));
    assert_eq!(careful[0].scheme.quota.brake, Some(Brake::default()));
    let plain = with_settings(schemes, &attrs, Confirm::Off, false);
    assert_eq!((plain[0].settings.evidence, plain[0].scheme.quota.brake), (Evidence::Off, None));
}

fn refused(text: &str, want: &Expect) {
    let error = parse_damos(text, "file.damos", &Attrs::default()).expect_err(text);
    want.assert_eq(&error.to_string());
}

#[test]
fn wrong_lines() {
    refused(
        "# two formats\n2M null 5 null null null hugepage\n2M max min min 7s max nohugepage\n",
        &expect![[r#"
            error: `max` in a file of the other format
             --> file.damos:3:4
              |
            3 | 2M max min min 7s max nohugepage
              |    ^^^
              |
              = why: `null` is of the first format (RFC v6), `min` and `max` of the later one (damo)
              = hint: say all bounds in one of the two ways"#]],
    );
    refused(
        "4K max 0 0 10s max page_out\n4K 2K 50 5 10q max stat\nmin max min max min max lru_prio\n",
        &expect![[r#"
            error: unknown action `page_out`
             --> file.damos:1:20
              |
            1 | 4K max 0 0 10s max page_out
              |                    ^^^^^^^^
              |
              = hint: did you mean `pageout`?

            error: size: the range is upside down
             --> file.damos:2:4
              |
            2 | 4K 2K 50 5 10q max stat
              |    ^^
              |
              = why: `4K` is more than `2K`: no region could match

            error: frequency: the range is upside down
             --> file.damos:2:10
              |
            2 | 4K 2K 50 5 10q max stat
              |          ^
              |
              = why: `50` is more than `5`: no region could match

            error: unknown unit `q`: us, ms, s, m, h or d
             --> file.damos:2:12
              |
            2 | 4K 2K 50 5 10q max stat
              |            ^^^

            error: action `lru_prio` is not available
             --> file.damos:3:25
              |
            3 | min max min max min max lru_prio
              |                         ^^^^^^^^
              |
              = why: the kernel has no call to move the pages of a process to the head or tail of an LRU list
              = hint: `cold` on what is idle leaves the hot pages ahead of it; or let the kernel's DAMON do it, on physical memory: ops = "kdamond", targets = [{ paddr = "all" }]"#]],
    );
    refused(
        "min max 5 max\n4K null\n",
        &expect![[r#"
        error: `null` in a file of the other format
         --> file.damos:2:4
          |
        2 | 4K null
          |    ^^^^
          |
          = why: `null` is of the first format (RFC v6), `min` and `max` of the later one (damo)
          = hint: say all bounds in one of the two ways"#]],
    );
    refused(
        "min max 5 max\nmin max 101 max min max stat 1 2 3\n",
        &expect![[r#"
        error: a scheme of 4 fields
         --> file.damos:1:1
          |
        1 | min max 5 max
          | ^^^^^^^^^^^^^
          |
          = hint: min_size max_size min_freq max_freq min_age max_age action; with `min` and `max`, then [quota_time] quota_size reset_interval, w_size w_freq w_age, wmark_metric interval high mid low

        error: a scheme of 10 fields
         --> file.damos:2:1
          |
        2 | min max 101 max min max stat 1 2 3
          | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
          |
          = hint: min_size max_size min_freq max_freq min_age max_age action; with `min` and `max`, then [quota_time] quota_size reset_interval, w_size w_freq w_age, wmark_metric interval high mid low"#]],
    );
    refused(
        "1 2 3 4 5 6 9\n1 2 x 4 5 6 2 7\n5 4 0 0 0 0 2",
        &expect![[r#"
        error: no action has this number
         --> file.damos:1:13
          |
        1 | 1 2 3 4 5 6 9
          |             ^

        error: a scheme of 8 numbers
         --> file.damos:2:1
          |
        2 | 1 2 x 4 5 6 2 7
          | ^^^^^^^^^^^^^^^
          |
          = hint: 7 as in RFC v6, or 18 as in debugfs

        error: a range is upside down
         --> file.damos:3:1
          |
        3 | 5 4 0 0 0 0 2
          | ^^^^^^^^^^^
          |
          = why: no region could match"#]],
    );
    refused(
        "# nothing\n\n",
        &expect![[r#"
            error: no scheme in it
             --> file.damos:1:1
              |
            1 | # nothing
              | ^"#]],
    );
    refused(
        "min max 5 max min max stat 1M 1s a b c some 5s 1 2 3",
        &expect![[r#"
            error: expected a whole number
             --> file.damos:1:34
              |
            1 | min max 5 max min max stat 1M 1s a b c some 5s 1 2 3
              |                                  ^

            error: expected a whole number
             --> file.damos:1:36
              |
            1 | min max 5 max min max stat 1M 1s a b c some 5s 1 2 3
              |                                    ^

            error: expected a whole number
             --> file.damos:1:38
              |
            1 | min max 5 max min max stat 1M 1s a b c some 5s 1 2 3
              |                                      ^

            error: expected `none` or `free_mem_rate`
             --> file.damos:1:40
              |
            1 | min max 5 max min max stat 1M 1s a b c some 5s 1 2 3
              |                                        ^^^^"#]],
    );
    refused(
        "min max -5 max 1e9s max stät",
        &expect![[r#"
        error: `-5` is not a number with a unit
         --> file.damos:1:9
          |
        1 | min max -5 max 1e9s max stät
          |         ^^

        error: unknown unit `e9s`: us, ms, s, m, h or d
         --> file.damos:1:16
          |
        1 | min max -5 max 1e9s max stät
          |                ^^^^

        error: unknown action `stät`
         --> file.damos:1:25
          |
        1 | min max -5 max 1e9s max stät
          |                         ^^^^
          |
          = hint: did you mean `stat`?"#]],
    );
}
