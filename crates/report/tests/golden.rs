//! What the reports look like. `UPDATE_EXPECT=1 cargo test` rewrites the expected texts.
#![expect(clippy::unwrap_used, reason = "a failing test says enough")]

mod common;

use common::{FILE, HEAP, record};
use expect_test::{Expect, expect};
use isotherm_core::AddrRange;
use isotherm_report::heatmap::{Color, Heatmap, Options, Style};
use isotherm_report::{Filter, ages, mappings, regions, wss};

fn of(pid: &str) -> Filter {
    Filter { targets: vec![pid.into()], ..Filter::default() }
}

fn between(from_ms: u64, to_ms: u64) -> Filter {
    Filter { time: Some((from_ms * 1_000_000, to_ms * 1_000_000)), ..Filter::default() }
}

fn check(got: &str, want: &Expect) {
    want.assert_eq(got);
}

fn regions_text(filter: &Filter) -> String {
    let mut out = Vec::new();
    regions::text(&record(), filter, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn regions_json(filter: &Filter) -> String {
    let mut out = Vec::new();
    regions::json(&record(), filter, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn regions_for_people() {
    check(
        &regions_text(&between(1900, 2100)),
        &expect![[r#"
            2.000 s  database (pid 4711)  5 regions, window 100 ms
              0x555550000000-0x555550800000     8.00 MiB   20/20 (18.0..20.0)  age 19
              0x555550800000-0x555552000000     24.0 MiB    0/20 (0.0..1.0)    age 19
              0x7f0000000000-0x7f0001000000     16.0 MiB    0/20 (0.0..1.0)    age 19
              0x7f0001000000-0x7f0004000000     48.0 MiB    0/20 (0.0..1.0)    age 19
              0x7fff00000000-0x7fff00100000     1.00 MiB  unresolved           age 0
            2.000 s  cat<&> (pid 4712)  1 region, window 100 ms
              0x555550000000-0x555550400000     4.00 MiB    5/20 (18.0..20.0)  age 19
            2.100 s  database (pid 4711)  5 regions, window 100 ms
              0x555550000000-0x555550800000     8.00 MiB   20/20 (18.0..20.0)  age 20
              0x555550800000-0x555552000000     24.0 MiB    0/20 (0.0..1.0)    age 20
              0x7f0000000000-0x7f0001000000     16.0 MiB    0/20 (0.0..1.0)    age 20
              0x7f0001000000-0x7f0004000000     48.0 MiB    0/20 (0.0..1.0)    age 20
              0x7fff00000000-0x7fff00100000     1.00 MiB  unresolved           age 0
        "#]],
    );
}

#[test]
fn regions_for_programs() {
    check(
        &regions_json(&Filter { targets: vec!["cat<&>".into()], ..between(0, 200) }),
        &expect![[r#"
            {"t_ns":5100000000,"target":"cat<&>","pid":4712,"regions":[{"start":93824902758400,"end":93824906952704,"nr_accesses":5,"max_nr_accesses":20,"age":0,"lo":17.960785,"hi":20.0,"resolved":true}]}
            {"t_ns":5200000000,"target":"cat<&>","pid":4712,"regions":[{"start":93824902758400,"end":93824906952704,"nr_accesses":5,"max_nr_accesses":20,"age":1,"lo":17.960785,"hi":20.0,"resolved":true}]}
        "#]],
    );
    let cut = Filter { address: Some(AddrRange::new(HEAP + 4096, FILE)), ..between(0, 100) };
    check(
        &regions_json(&Filter { targets: vec!["4711".into()], ..cut }),
        &expect![[r#"
        {"t_ns":5100000000,"target":"database","pid":4711,"regions":[{"start":93824902762496,"end":93824911147008,"nr_accesses":20,"max_nr_accesses":20,"age":0,"lo":17.960785,"hi":20.0,"resolved":true},{"start":93824911147008,"end":93824936312832,"nr_accesses":0,"max_nr_accesses":20,"age":0,"lo":0.0,"hi":1.0196079,"resolved":true}]}
    "#]],
    );
}

#[test]
fn every_json_line_holds_the_promised_keys() {
    let lines = regions_json(&Filter::default());
    assert_eq!(lines.lines().count(), 60 + 20);
    for line in lines.lines() {
        let v: serde_json::Value = serde_json::from_str(line).unwrap();
        let keys: Vec<_> = v.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(keys, ["pid", "regions", "t_ns", "target"]);
        for r in v["regions"].as_array().unwrap() {
            for key in ["start", "end", "nr_accesses", "max_nr_accesses", "age"] {
                assert!(r[key].is_u64(), "{key}");
            }
            assert!(r["lo"].is_f64() && r["hi"].is_f64() && r["resolved"].is_boolean());
        }
    }
}

#[test]
fn working_set() {
    let report = wss::Report::build(&record(), &of("4711")).unwrap();
    check(
        &report.to_text(wss::Order::Size),
        &expect![[r#"
        working set of database (pid 4711): 60 snapshots
         by size        bytes   90 % interval
              p0     8.00 MiB   7.18 MiB .. 9.85 MiB       |################++----                  |
             p25     8.00 MiB   7.18 MiB .. 9.85 MiB       |################++----                  |
             p50     16.0 MiB   14.4 MiB .. 17.9 MiB       |################################++++----|
             p75     16.0 MiB   14.4 MiB .. 17.9 MiB       |################################++++----|
            p100     16.0 MiB   14.4 MiB .. 17.9 MiB       |################################++++----|
            mean     12.0 MiB   10.8 MiB .. 13.9 MiB       |########################+++----         |
        mapped 97.0 MiB on average; unresolved 1.00 MiB
    "#]],
    );
    check(
        &report.to_text(wss::Order::Time),
        &expect![[r#"
        working set of database (pid 4711): 60 snapshots
         by time        bytes   90 % interval
              p0     8.00 MiB   7.18 MiB .. 9.85 MiB       |################++----                  |  at 100 ms
             p25     8.00 MiB   7.18 MiB .. 9.85 MiB       |################++----                  |  at 1.60 s
             p50     16.0 MiB   14.4 MiB .. 17.9 MiB       |################################++++----|  at 3.10 s
             p75     16.0 MiB   14.4 MiB .. 17.9 MiB       |################################++++----|  at 4.50 s
            p100     16.0 MiB   14.4 MiB .. 17.9 MiB       |################################++++----|  at 6.00 s
            mean     12.0 MiB   10.8 MiB .. 13.9 MiB       |########################+++----         |
        mapped 97.0 MiB on average; unresolved 1.00 MiB
    "#]],
    );
    let v: serde_json::Value = serde_json::from_str(&report.to_json(wss::Order::Size)).unwrap();
    assert_eq!(v["series"].as_array().unwrap().len(), 60);
    assert_eq!(v["percentiles"][0]["bytes"], 8 << 20);
    assert_eq!(v["percentiles"][4]["bytes"], 16 << 20);
    assert_eq!(v["percentiles"][4]["unresolved"], 1 << 20);
}

#[test]
fn by_mapping() {
    let report = mappings::Report::build(&record(), &Filter::default()).unwrap();
    check(
        &report.to_text(),
        &expect![[r#"
        mappings of database (pid 4711) and 1 more: means over time
                 hot         warm         cold   unresolved     rate  mapping
            8.00 MiB        0 MiB     56.0 MiB        0 MiB   12.5 %  file /var/lib/data.mdb of database (4711)
            4.00 MiB        0 MiB     28.0 MiB        0 MiB   12.5 %  heap [heap] of database (4711)
               0 MiB     4.00 MiB        0 MiB        0 MiB   25.0 %  unknown (no mapping known) of cat<&> (4712)
               0 MiB        0 MiB        0 MiB     1.00 MiB    0.0 %  stack [stack] of database (4711)
        by kind:
               0 MiB     4.00 MiB        0 MiB        0 MiB   25.0 %  unknown
            4.00 MiB        0 MiB     28.0 MiB        0 MiB   12.5 %  heap
               0 MiB        0 MiB        0 MiB     1.00 MiB    0.0 %  stack
            8.00 MiB        0 MiB     56.0 MiB        0 MiB   12.5 %  file
    "#]],
    );
    let report = mappings::Report::build(&record(), &of("4712")).unwrap();
    check(
        &report.to_json(),
        &expect![[
            r#"{"schema_version":1,"target":"cat<&> (pid 4712)","mappings":[{"target":"cat<&>","pid":4712,"kind":"unknown","name":"(no mapping known)","hot":0,"warm":4194304,"cold":0,"unresolved":0,"rate":0.25}],"kinds":[{"kind":"unknown","hot":0,"warm":4194304,"cold":0,"unresolved":0,"rate":0.25}]}"#
        ]],
    );
}

#[test]
fn idle_ages() {
    let report = ages::Report::build(&record(), &of("database")).unwrap();
    check(
        &report.to_text(),
        &expect![[r#"
        idle ages of database (pid 4711): bytes by time without access
                    idle for   at the end                  mean
                accessed now     16.0 MiB   16.7 %     12.0 MiB  #########
            less than 500 ms        0 MiB    0.0 %     8.00 MiB
            500 ms .. 1.00 s        0 MiB    0.0 %     8.00 MiB
            1.00 s .. 2.00 s        0 MiB    0.0 %     16.0 MiB
            2.00 s .. 5.00 s     8.00 MiB    8.3 %     40.0 MiB  ####
            5.00 s .. 10.0 s     72.0 MiB   75.0 %     12.0 MiB  ########################################
                  unresolved     1.00 MiB              1.00 MiB
    "#]],
    );
    assert!(report.to_json().starts_with(
        r#"{"schema_version":1,"target":"database (pid 4711)","classes":[{"idle_ms":0,"#
    ));
}

#[test]
fn heatmap_in_plain_text() {
    let options = Options { columns: 60, rows: 12, min_rows: 1, all_targets: true };
    let map = Heatmap::build(&record(), &Filter::default(), &options).unwrap();
    let text = map.to_text(&Style::default());
    assert!(!text.contains('\x1b'));
    check(
        &text,
        &expect![[r#"
            database (pid 4711): 24.0 MiB in 2 areas; at the end 97.0 MiB mapped, 1.00 MiB unresolved
             0x7f0000ccc000|..............................@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@| data.mdb
             0x7f0000999000|..............................@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@|
             0x7f0000666000|..............................@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@|
             0x7f0000333000|..............................@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@|
             0x7f0000000000|..............................@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@|
                           ~ 24.0 MiB hardly accessed
             0x555550555000|@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@..............................| [heap]
             0x5555502aa000|@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@..............................|
             0x555550000000|@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@..............................|
                           ++---------+---------+---------+---------+---------+--------++
                            0 s       1 s       2 s       3 s       4 s       5 s      6 s
            cat<&> (pid 4712): 4.00 MiB in 1 area; at the end 4.00 MiB mapped
             0x555550380000|--------------------                                        |
             0x555550300000|--------------------                                        |
             0x555550280000|--------------------                                        |
             0x555550200000|--------------------                                        |
             0x555550180000|--------------------                                        |
             0x555550100000|--------------------                                        |
             0x555550080000|--------------------                                        |
             0x555550000000|--------------------                                        |
                           ++---------+---------+---------+---------+---------+--------++
                            0 s       1 s       2 s       3 s       4 s       5 s      6 s
            accessed in 0 % . : - = + * # % @ 100 % of samples; blank: not mapped; ?: unresolved
            a row is up to 3.20 MiB, a column 100 ms
        "#]],
    );
}

#[test]
fn heatmap_of_chosen_addresses_is_not_folded() {
    let options = Options { columns: 30, rows: 8, min_rows: 1, all_targets: false };
    let address = Some(AddrRange::new(FILE, FILE + (64 << 20)));
    let map = Heatmap::build(&record(), &Filter { address, ..of("4711") }, &options).unwrap();
    check(
        &map.to_text(&Style::default()),
        &expect![[r#"
            database (pid 4711): 64.0 MiB in 1 area; at the end 64.0 MiB
              mapped
             0x7f0003800000|..............................| data.mdb
             0x7f0003000000|..............................|
             0x7f0002800000|..............................|
             0x7f0002000000|..............................|
             0x7f0001800000|..............................|
             0x7f0001000000|..............................|
             0x7f0000800000|...............@@@@@@@@@@@@@@@|
             0x7f0000000000|...............@@@@@@@@@@@@@@@|
                           ++---------+---------+--------++
                            0 s       2 s       4 s      6 s
            accessed in 0 % . : - = + * # % @ 100 % of samples; blank: not
              mapped; ?: unresolved
            a row is up to 8.00 MiB, a column 200 ms
        "#]],
    );
}

#[test]
fn heatmap_colours_end_where_the_cells_end() {
    let options = Options { columns: 20, rows: 4, min_rows: 1, all_targets: false };
    let map = Heatmap::build(&record(), &Filter::default(), &options).unwrap();
    for (color, start) in
        [(Color::True, "\x1b[48;2;"), (Color::Ansi256, "\x1b[48;5;"), (Color::Ansi16, "\x1b[4")]
    {
        let text = map.to_text(&Style { color });
        for line in text.lines().filter(|l| l.contains("| ") && l.contains('\x1b')) {
            assert!(line.contains(start), "{line:?}");
            let last = line.rfind('\x1b').unwrap();
            assert!(line[last..].starts_with("\x1b[0m|"), "{line:?}");
        }
    }
}

#[test]
fn heatmap_as_svg() {
    let options = Options { columns: 10, rows: 3, min_rows: 1, all_targets: true };
    let svg = Heatmap::build(&record(), &Filter::default(), &options).unwrap().to_svg();
    assert!(svg.contains("cat&lt;&amp;&gt; (pid 4712)") && !svg.contains("cat<"));
    let start = svg.find("<rect x=\"130\"").unwrap();
    check(
        &svg[start..start + 900],
        &expect![[r##"
            <rect x="130" y="62" width="15" height="24" fill="#160b39"><title>0x7f0000000000-0x7f0001000000 data.mdb: 0.0 %</title></rect>
            <rect x="145" y="62" width="15" height="24" fill="#fcf496"><title>0x7f0000000000-0x7f0001000000 data.mdb: 100.0 %</title></rect>
            <text x="145" y="100" text-anchor="middle" font-size="11">24.0 MiB hardly accessed</text>
            <rect x="130" y="106" width="15" height="24" fill="#fcf496"><title>0x555550000000-0x555550800000 [heap]: 100.0 %</title></rect>
            <rect x="145" y="106" width="15" height="24" fill="#160b39"><title>0x555550000000-0x555550800000 [heap]: 0.0 %</title></rect>
            <rect x="130" y="62" width="30" height="24" fill="none" stroke="#444"/>
            <rect x="130" y="106" width="30" height="24" fill="none" stroke="#444"/>
            <text x="122" y="66" text-anchor="end" font-size="12">0x7f0001000000</text>
            <text x="122" y="90" text-anchor="end" font-size="12">0x7f0000000000</text>
            <te"##]],
    );
}

#[test]
fn heatmap_as_png() {
    let map = Heatmap::build(&record(), &Filter::default(), &Options::for_picture()).unwrap();
    let bytes = map.to_png().unwrap();
    let mut reader = png::Decoder::new(std::io::Cursor::new(&bytes)).read_info().unwrap();
    let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
    let info = reader.next_frame(&mut pixels).unwrap();
    assert!(info.width > 1000 && info.height > 500);
    let count = |color: u8| pixels.iter().filter(|p| **p == color).count();
    assert!(count(2) > 2000, "ink for the labels");
    // Cells of rate 0 and 1: the first and the last colour of the heat.
    assert!(count(3) > 100_000 && count(3 + 63) > 100_000, "{} {}", count(3), count(3 + 63));
}

#[test]
fn heatmap_as_json() {
    let options = Options { columns: 6, rows: 2, min_rows: 1, all_targets: false };
    let map = Heatmap::build(&record(), &of("4711"), &options).unwrap();
    check(
        &map.to_json(),
        &expect![[
            r#"{"schema_version":1,"start_ns":5000000000,"end_ns":11000000000,"origin_ns":5000000000,"columns":6,"panels":[{"target":"database","pid":4711,"mapped":101711872,"rows":[{"start":93824902758400,"end":93824911147008,"mapping":"[heap]","area":0,"cells":[1.0,1.0,1.0,0.0,0.0,0.0]},{"start":139637976727552,"end":139637993504768,"mapping":"data.mdb","area":1,"cells":[0.0,0.0,0.0,1.0,1.0,1.0]}]}]}"#
        ]],
    );
}
