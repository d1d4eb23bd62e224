//! Snapshot tests of the screen. `UPDATE_EXPECT=1 cargo test` rewrites the expected screens.

use std::sync::Arc;

use expect_test::{Expect, expect};
use isotherm::raw::core::{AddrRange, RegionInfo, TouchedBytes};
use isotherm::raw::record::once::Sharing;
use isotherm::raw::record::{Mapping, Object};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::draw;
use crate::app::{App, Start};
use crate::look::Look;
use crate::model::detail::{Cell, Detail, Heat, MappingHeat};
use crate::model::tally::Ages;
use crate::model::{Head, Member, Position, Row, Sharers, Tiers, Watch, World};

const MIB: u64 = 1 << 20;

fn row(pid: u32, ppid: u32, name: &str, mib: u64) -> Row {
    let touched = |share: u64| {
        let bytes = mib * MIB * share / 10;
        Some(TouchedBytes { bytes, lo: bytes, hi: bytes, measured: mib * MIB })
    };
    Row {
        pid,
        ppid,
        name: name.into(),
        cgroup: format!("/system.slice/{name}.service"),
        uid: None,
        rss: Some(mib * MIB),
        within: [touched(2), touched(3), touched(4)],
        watched: mib * MIB,
        tiers: Tiers {
            hot: mib * MIB / 5,
            warm: mib * MIB / 5,
            cold: mib * MIB / 2,
            unresolved: mib * MIB / 10,
        },
        age_ns: Some(u64::from(pid % 50) * 1_000_000_000),
        trend: (0..12).map(|n| n * MIB).collect(),
        watch: Watch::Watched,
    }
}

fn world() -> World {
    let mut rows = vec![
        row(1, 0, "systemd", 12),
        row(812, 1, "postgres", 640),
        row(813, 812, "postgres", 96),
        row(814, 812, "postgres", 48),
        row(2210, 1, "redis-server", 1800),
        row(40_000, 1, "a-name-that-is-too-long", 3),
    ];
    let refused = "another Isotherm watches it\u{1b}[31m".to_owned();
    rows.push(Row { watch: Watch::Refused(refused), within: [None; 3], ..row(77, 1, "sshd", 8) });
    rows.push(Row { pid: 78, ppid: 1, name: "new".into(), rss: Some(MIB), ..Row::default() });
    let head = Head {
        set: "pagewalk, census".into(),
        used_bp: Some(83),
        mean_bp: Some(91),
        budget_bp: 100,
        own_rss: 18 * MIB,
        swap_free: Some(10 * MIB),
        note: String::new(),
    };
    World { rows, head, ..World::default() }
}

fn detail() -> Detail {
    let mut heat = Heat::every(1_000_000_000);
    for second in 0..90_u64 {
        let part = |at: u64, level| Cell {
            range: AddrRange::new(at * 64 * MIB, (at + 1) * 64 * MIB),
            bytes: 64 * MIB,
            level,
        };
        let moving = if second / 30 == 0 { Some(255) } else { Some(0) };
        let late = if second < 60 { None } else { Some(60) };
        heat.push(vec![part(1, moving), part(2, Some(0)), part(9, late)]);
    }
    let mapping = |label: &str, kind, hot, cold| MappingHeat {
        label: label.into(),
        kind,
        tiers: Tiers { hot: hot * MIB, cold: cold * MIB, ..Tiers::default() },
    };
    Detail {
        pid: 812,
        heat,
        mappings: vec![
            mapping("[heap]", "heap", 100, 20),
            mapping("[anon]", "anonymous", 28, 400),
            mapping("postgres", "file", 4, 8),
            mapping("libc.so.6", "library", 1, 1),
        ],
        ages: Ages {
            touched: [128 * MIB, 32 * MIB, 16 * MIB],
            minute: 400 * MIB,
            idle: 24 * MIB,
            unresolved: 40 * MIB,
        },
        idle: [380 * MIB, 20 * MIB],
    }
}

/// The screen after some keys.
fn screen(mut app: App, keys: &str, (width, height): (u16, u16)) -> String {
    let code = |c| match c {
        '\n' => KeyCode::Enter,
        c => KeyCode::Char(c),
    };
    for c in keys.chars() {
        app.key(KeyEvent::new(code(c), KeyModifiers::NONE));
    }
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(&mut app, frame.area(), frame.buffer_mut())).unwrap();
    terminal.backend().to_string()
}

fn app(world: World) -> App {
    let mut app = App::new(Start::default());
    app.take(world);
    app
}

fn check(keys: &str, size: (u16, u16), want: &Expect) {
    want.assert_eq(&screen(app(world()), keys, size));
}

#[test]
fn the_table_at_80_by_24() {
    check(
        "",
        (80, 24),
        &expect![[r#"
        "isotherm top  8 processes, 1 not watched, 1 waiting                             "
        "working set 1s 520M  10s 780M  1m 1.02G  of 2.55G, unresolved 261M              "
        "own CPU 0.83 %, mean 0.91 %, budget 1.00 %, 18.0M  pagewalk, census             "
        "    PID NAME                  RSS     1s   *10s     1m #hot .cold ?   TREND  AGE"
        "   2210 redis-server        1.76G   360M   540M   720M ###++.....?? --==**#  10s"
        "    812 postgres             640M   128M   192M   256M ###++.....?? --==**#  12s"
        "    813 postgres            96.0M  19.2M  28.8M  38.4M ###++.....?? --==**#  13s"
        "    814 postgres            48.0M  9.60M  14.4M  19.2M ###++.....?? --==**#  14s"
        "      1 systemd             12.0M  2.40M  3.60M  4.80M ###++.....?? --==**#   1s"
        "  40000 a-name-that-is-too~ 3.00M   614K   922K  1.20M ###++.....?? --==**#   0s"
        "     77 sshd                8.00M      -      -      - not watched: anothe~     "
        "     78 new                 1.00M      -      -      - waiting                 -"
        "                                                                                "
        "                                                                                "
        "                                                                                "
        "                                                                                "
        "                                                                                "
        "                                                                                "
        "                                                                                "
        "                                                                                "
        "                                                                                "
        "                                                                                "
        "                                                                                "
        "q quit  ? help  s sort  / filter  v tree  c cgroups  u units  Enter open        "
    "#]],
    );
}

#[test]
fn the_tree_sorted_by_name_and_frozen() {
    check(
        "vss ",
        (100, 14),
        &expect![[r#"
        "isotherm top  FROZEN (space)  8 processes, 1 not watched, 1 waiting                                 "
        "working set 1s 520M  10s 780M  1m 1.02G  of 2.55G, unresolved 261M                                  "
        "own CPU 0.83 %, mean 0.91 %, budget 1.00 %, 18.0M  pagewalk, census                                 "
        "    PID NAME                       RSS     1s    10s     1m *.COLD                    TREND  AGE    "
        "      1 systemd                  12.0M  2.40M  3.60M  4.80M ####++++.........?? __..--==**#   1s    "
        "   2210   redis-server           1.76G   360M   540M   720M ####++++.........?? __..--==**#  10s    "
        "    812   postgres                640M   128M   192M   256M ####++++.........?? __..--==**#  12s    "
        "    813     postgres             96.0M  19.2M  28.8M  38.4M ####++++.........?? __..--==**#  13s    "
        "    814     postgres             48.0M  9.60M  14.4M  19.2M ####++++.........?? __..--==**#  14s    "
        "     77   sshd                   8.00M      -      -      - not watched: another Isotherm ~         "
        "  40000   a-name-that-is-too-lo~ 3.00M   614K   922K  1.20M ####++++.........?? __..--==**#   0s    "
        "     78   new                    1.00M      -      -      - waiting                            -    "
        "                                                                                                    "
        "q quit  ? help  s sort  / filter  v tree  c cgroups  u units  Enter open                            "
    "#]],
    );
}

#[test]
fn cgroups_in_a_wide_terminal() {
    check(
        "c",
        (132, 12),
        &expect![[r#"
            "isotherm top  8 processes, 1 not watched, 1 waiting                                                                                 "
            "working set 1s 520M  10s 780M  1m 1.02G  of 2.55G, unresolved 261M                                                                  "
            "own CPU 0.83 %, mean 0.91 %, budget 1.00 %, 18.0M  pagewalk, census                                                                 "
            "  PROCS CGROUP                                     RSS   SUM     1s   *10s     1m #hot +warm .cold ?unresolved            TREND  AGE"
            "      1 /system.slice/redis-server.service       1.76G 1.76G   360M   540M   720M ######++++++.............???     ___..--==**#  10s"
            "      3 /system.slice/postgres.service            784M  784M   157M   235M   314M ######++++++.............???     ___..--==**#  14s"
            "      1 /system.slice/systemd.service            12.0M 12.0M  2.40M  3.60M  4.80M ######++++++.............???     ___..--==**#   1s"
            "      1 ~m.slice/a-name-that-is-too-long.service 3.00M 3.00M   614K   922K  1.20M ######++++++.............???     ___..--==**#   0s"
            "      1 /system.slice/sshd.service               8.00M 8.00M      -      -      - not watched: another Isotherm watches it?[31m     "
            "      1 -                                        1.00M 1.00M      -      -      - waiting                                          -"
            "                                                                                                                                    "
            "q quit  ? help  s sort  / filter  v tree  c cgroups  u units  Enter open                                                            "
        "#]],
    );
}

/// The world, in which the three processes named postgres map the same 40 MiB.
fn sharing_world() -> World {
    let range = AddrRange::new(0, 40 * MIB);
    let region = RegionInfo { range, nr_accesses: 1, resolved: true, ..RegionInfo::default() };
    let object = Object { device: 1, inode: 2, offset: 0 };
    let buffers = [Mapping::new(0, 40 * MIB, "rw-s", "/dev/zero").of_object(object)];
    let mut sharing = Sharing::default();
    (812..815).for_each(|id| sharing.learn(id, 1, &buffers));
    let member = |pid| (pid, Arc::new(Member::of(&sharing, pid, None, &[region])));
    let members = (812..815).map(member).collect();
    let sharers = Sharers::new(Arc::new(sharing), members, 1_000_000, true);
    World { sharers: Arc::new(sharers), ..world() }
}

#[test]
fn groups_that_share_memory_tell_the_sum_over_processes() {
    let want = expect![[r#"
        "isotherm top  8 processes, 1 not watched, 1 waiting  (sum over processes: 10s 780M of 2.55G)                                        "
        "working set 1s 520M  10s 780M  1m 1.02G  of 2.47G, unresolved 261M                                                                  "
        "own CPU 0.83 %, mean 0.91 %, budget 1.00 %, 18.0M  pagewalk, census                                                                 "
        "  PROCS CGROUP                                     RSS   SUM     1s   *10s     1m #hot +warm .cold ?unresolved            TREND  AGE"
        "      1 /system.slice/redis-server.service       1.76G 1.76G   360M   540M   720M ######++++++.............???     ___..--==**#  10s"
        "      3 /system.slice/postgres.service            704M  784M   157M   235M   314M ####++++++..............????     ___..--==**#  14s"
        "      1 /system.slice/systemd.service            12.0M 12.0M  2.40M  3.60M  4.80M ######++++++.............???     ___..--==**#   1s"
        "q quit  ? help  s sort  / filter  v tree  c cgroups  u units  Enter open                                                            "
    "#]];
    want.assert_eq(&screen(app(sharing_world()), "c", (132, 8)));
}

#[test]
fn the_total_of_processes_that_share_memory_at_80_by_24() {
    let want = expect![[r#"
        "isotherm top  3 processes  (sum over processes: 10s 235M of 784M)               "
        "working set 1s 157M  10s 235M  1m 314M  of 704M, unresolved 78.4M               "
        "own CPU 0.83 %, mean 0.91 %, budget 1.00 %, 18.0M  pagewalk, census             "
        "    PID NAME                  RSS     1s   *10s     1m #hot .cold ?   TREND  AGE"
        "    812 postgres             640M   128M   192M   256M ###++.....?? --==**#  12s"
        "q quit  ? help  s sort  / filter  v tree  c cgroups  u units  Enter open        "
    "#]];
    want.assert_eq(&screen(app(sharing_world()), "/post\n", (80, 6)));
}

#[test]
fn typing_a_filter() {
    check(
        "/post",
        (80, 9),
        &expect![[r#"
        "isotherm top  3 processes                                                       "
        "working set 1s 157M  10s 235M  1m 314M  of 784M, unresolved 78.4M               "
        "own CPU 0.83 %, mean 0.91 %, budget 1.00 %, 18.0M  pagewalk, census             "
        "    PID NAME                  RSS     1s   *10s     1m #hot .cold ?   TREND  AGE"
        "    812 postgres             640M   128M   192M   256M ###++.....?? --==**#  12s"
        "    813 postgres            96.0M  19.2M  28.8M  38.4M ###++.....?? --==**#  13s"
        "    814 postgres            48.0M  9.60M  14.4M  19.2M ###++.....?? --==**#  14s"
        "                                                                                "
        "filter: post_   (Enter keeps it, Esc shows all)                                 "
    "#]],
    );
}

#[test]
fn an_open_target_at_80_by_24() {
    let mut world = world();
    world.detail = Some(Arc::new(detail()));
    let keys = "/812\n\n";
    expect![[r#"
        "812 postgres  /system.slice/postgres.service                                    "
        "RSS 640M  working set 1s 128M  10s 192M  1m 256M  looked at 12s ago             "
        "HEAT, 64s to now, by address: 0% . : - = + * # % @ 100% touched, ? unknown      "
        "        4000000 @@@@............................................................"
        "        5555000 @@@@............................................................"
        "        6aaa000 @@@@............................................................"
        "        8000000 ................................................................"
        "        9555000 ................................................................"
        "        aaaa000 ................................................................"
        "       24000000 ??????????????????????????????????------------------------------"
        "       25555000 ??????????????????????????????????------------------------------"
        "       26aaa000 ??????????????????????????????????------------------------------"
        "MAPPINGS, the hottest first                                                     "
        "[heap]                 heap       120M #################################....... "
        "[anon]                 anonymous  428M ###..................................... "
        "postgres               file      12.0M ##############.......................... "
        "libc.so.6              library   2.00M ####################.................... "
        "AGES  touched within 1s 128M  10s 32.0M  1m 16.0M  longer ago 400M              "
        "      idle, but not watched for a minute yet 24.0M  unresolved 40.0M            "
        "RECLAIM  idle for a minute: 380M anonymous (swap has 10.0M free), 20.0M of files"
        "         isotherm reclaim -p 812 --age 1m --dry-run   (needs top to end first)  "
        "                                                                                "
        "                                                                                "
        "q quit  Esc back  space freeze  ? help                                          "
    "#]]
    .assert_eq(&screen(app(world), keys, (80, 24)));
}

#[test]
fn a_record_says_where_it_is_and_how_to_travel() {
    let position =
        Position { at_ns: 62_000_000_000, length_ns: 3_600_000_000_000, is_playing: false };
    let head = Head { set: "record of host by pagewalk, census".into(), ..Head::default() };
    let world = World { position: Some(position), head, ..world() };
    expect![[r#"
        "isotherm top  at 1:02.0 of 1:00:00.0  stopped  8 processes, 1 not watched, 1 wai"
        "working set 1s 520M  10s 780M  1m 1.02G  of 2.55G, unresolved 261M              "
        "record of host by pagewalk, census                                              "
        "    PID NAME                  RSS     1s   *10s     1m #hot .cold ?   TREND  AGE"
        "   2210 redis-server        1.76G   360M   540M   720M ###++.....?? --==**#  10s"
        "    812 postgres             640M   128M   192M   256M ###++.....?? --==**#  12s"
        "    813 postgres            96.0M  19.2M  28.8M  38.4M ###++.....?? --==**#  13s"
        "go to, from the record's beginning: 1m_   (90s, 5m; Esc: stay)                  "
    "#]]
    .assert_eq(&screen(app(world), "t1m", (80, 8)));
}

#[test]
fn the_help_fits_80_by_24() {
    check(
        "?",
        (80, 24),
        &expect![[r#"
            "isotherm top: help                                                              "
            "                                                                                "
            "up down j k     select; PgUp PgDn g G         Enter  open; q  quit              "
            "s S             next, previous sort key       r      reverse the order          "
            "/               filter by name, pid, cgroup   Esc    show all, or go back       "
            "v               tree of children              space  freeze, and go on          "
            "p c u           processes, cgroups, units     P C U  pods, containers, users    "
            "                                                                                "
            "RSS      resident memory, up to 8 s old; of a process with all that it shares   "
            "sums     of groups and of all count shared memory once (what is still the same  "
            "         after a fork in each process); the sum over processes stands beside it "
            "1s 10s 1m  what was touched within such a time (the working set); ~ the error   "
            "         bar is wide; - not measured yet                                        "
            "bar      # hot: touched within 1 s       + warm: within a minute                "
            "         . cold: not touched for as long as it was watched, up to a minute      "
            "         ? unresolved: not looked at yet, or it cannot be made old              "
            "TREND    the working set over 1 s, a sign for 3 s; the highest is its maximum   "
            "AGE      how long ago its memory was looked at, on average                      "
            "own CPU  of top, lately. Processes share one budget: many are looked at rarely. "
            "         While top watches a process, no other Isotherm can.                    "
            "                                                                                "
            "                                                                                "
            "                                                                                "
            "any key: back   q quit                                                          "
        "#]],
    );
}

#[test]
fn without_colours_no_cell_has_one_and_with_colours_some_have() {
    for color in [false, true] {
        let look = Look { color, unicode: true };
        let mut app = App::new(Start { look, ..Start::default() });
        app.take(world());
        let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
        terminal.draw(|frame| draw(&mut app, frame.area(), frame.buffer_mut())).unwrap();
        let reset = ratatui::style::Color::Reset;
        let cells = terminal.backend().buffer().content.iter();
        let coloured = cells.filter(|cell| cell.fg != reset || cell.bg != reset).count();
        assert_eq!(coloured > 0, color);
    }
}

#[test]
fn no_size_is_too_small_and_the_selected_row_always_shows() {
    let mut world = world();
    world.detail = Some(Arc::new(detail()));
    world.rows.extend((100..400).map(|pid| row(pid, 1, "many", 1)));
    let nothing = ratatui::layout::Rect::default();
    draw(&mut app(world.clone()), nothing, &mut ratatui::buffer::Buffer::empty(nothing));
    for width in [1, 5, 20, 39, 79, 300] {
        for height in [1, 2, 3, 5, 9, 60] {
            for keys in ["", "?", "G", "v", "c", "u", "/812\n\n"] {
                let _drawn = screen(app(world.clone()), keys, (width, height));
            }
        }
    }
    // Downwards past the edge of the screen: the last of all is selected and shows.
    let shown = screen(app(world), "sssssG", (80, 12));
    assert!(shown.contains("  40000 a-na"), "{shown}");
}
