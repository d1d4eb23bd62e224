//! Parts as a reader finds them, over made-up contexts and cgroups.

use std::collections::BTreeSet;
use std::fs::File;

use isotherm_agent::groups::{Ages, FileSeen, PagesSeen, Tiers, UnitSeen};
use isotherm_agent::run::{Event, Summary};
use isotherm_core::{PageBits, Rng, SPANS, TargetId, Touched, TouchedBytes, UnitInfo};
use isotherm_ops::targets::Target;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;

use super::*;
use crate::settings::{FileNames, Retention, hashed};

const SPANS_US: [u64; SPANS] = [5_000, 100_000, 1_000_000, 10_000_000, 60_000_000];
/// A made-up cgroup's counters grow by so much at most, in a step.
const STEP: u64 = 100_000;

/// A writer for a test's own directory, over made-up cgroups.
struct World {
    dir: tempfile::TempDir,
    writer: Writer,
    rng: Rng,
    counters: Vec<u64>,
}

fn settings(dir: &Path) -> Settings {
    Settings {
        dir: dir.join("fleet"),
        tables: Table::ALL.into_iter().collect(),
        every: Duration::from_secs(300),
        host: "host-1".to_owned(),
        service: None,
        node_class: Some("m7".to_owned()),
        retention: Retention { most_bytes: 1 << 30, most_age: Duration::from_secs(86_400) },
        texts: false,
        file_names: FileNames::Hashed(Vec::new()),
        budget: 0.05,
        version: "0.1.0".to_owned(),
        commit: "abc".to_owned(),
    }
}

impl World {
    fn new(nr_cgroups: usize) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let gather = Arc::default();
        let shown = Shown { session: session(), ..Shown::default() };
        let mut writer = Writer::new(settings(dir.path()), gather, Arc::new(Mutex::new(shown)));
        writer.cgroups.v2 = Some(dir.path().join("cgroup"));
        Self { dir, writer, rng: Rng::seeded(7), counters: vec![0; nr_cgroups] }
    }

    fn path(nr: usize) -> String {
        format!("/system.slice/service-number-{nr}.service")
    }

    /// Lets five minutes pass: all numbers change.
    fn pass(&mut self) {
        let mut groups = Vec::new();
        for nr in 0..self.counters.len() {
            let rng = &mut self.rng;
            let dir = self.dir.path().join("cgroup").join(&Self::path(nr)[1..]);
            fs::create_dir_all(&dir).unwrap();
            let grown = self.counters[nr] + rng.range(0, STEP);
            self.counters[nr] = grown;
            let size = rng.range(0, 1 << 33);
            let write = |name: &str, text: String| fs::write(dir.join(name), text).unwrap();
            write("memory.current", format!("{size}\n"));
            write("memory.swap.current", format!("{}\n", rng.range(0, 1 << 30)));
            write("memory.max", format!("{}\n", 8_u64 << 30));
            write(
                "memory.stat",
                format!(
                    "anon {}\nfile {}\nworkingset_refault_anon {grown}\n\
                     workingset_refault_file {grown}\npswpin {grown}\npswpout {grown}\n",
                    rng.range(0, size + 1),
                    rng.range(0, size + 1)
                ),
            );
            write("memory.events", format!("oom_kill {grown}\n"));
            write("memory.pressure", format!("some total={grown}\nfull total={grown}\n"));
            let mut some = || rng.range(0, 1 << 33) & !4095;
            let spans = [(); SPANS].map(|()| {
                let bytes = some();
                Some(TouchedBytes { bytes, lo: bytes / 2, hi: bytes * 2, measured: size })
            });
            let ages = Ages {
                proven: [some(), some(), some()],
                likely: [some(), some(), some()],
                returned: [some(), some(), some()],
                looked: [1, 2, 3],
                known: 3,
            };
            groups.push(Group {
                cgroup: Self::path(nr),
                tiers: Tiers { hot: some(), warm: some(), cold: some(), unresolved: some() },
                touched: Some(Touched { spans, watched: size }),
                look_age_ns: some(),
                watched_ns: 7_200_000_000_000,
                ages: Some(ages),
                ..Group::default()
            });
        }
        let summary = Summary { groups, spans_us: SPANS_US, ..Summary::default() };
        self.hear(Event::Summary(Box::new(summary)));
    }

    /// Lets a context tell what the cgroups share, of so many files in each, and of so many units.
    fn look(&mut self, nr_files: u64, nr_units: u64) {
        let mut pages = PagesSeen::default();
        for nr in 0..self.counters.len() {
            let mut some = || self.rng.range(0, 1 << 33) & !4095;
            pages.shared.insert(Self::path(nr), some());
            pages.files.extend((0..nr_files).map(|file| FileSeen {
                cgroup: Self::path(nr),
                path: format!("/srv/secret/lib-number-{file}.so"),
                device: 8 << 32 | 1,
                inode: 1000 + file,
                size: some(),
                mapped: some(),
                mappers: 2,
                resident: Some(some()),
                idle: [Some(some()), Some(some()), None],
            }));
        }
        for nr in 0..nr_units {
            let mut plane = || PageBits([self.rng.range(0, 1 << 30); 8]);
            let touched = [(); SPANS].map(|()| Some(plane()));
            let unit =
                UnitInfo { start: nr << 21, present: plane(), touched, ..UnitInfo::default() };
            let cgroup = Some(Self::path(0));
            pages.units.push(UnitSeen { id: TargetId(7), cgroup, unit, idle: [9, 5, 0] });
        }
        let target = Target {
            id: TargetId(7),
            pid: 77,
            ppid: 1,
            name: "db".to_owned(),
            start_ticks: 0,
            generation: 0,
            memory: None,
        };
        let targets = vec![target];
        let look = PagesLook { context: "c".to_owned(), pages, targets, cost_ns: 0 };
        locked(&self.writer.gather).see_pages("reclaim", look);
    }

    fn hear(&mut self, event: Event) {
        let message = Message { context: "c".to_owned(), at: clock::now(), event };
        locked(&self.writer.gather).hear("reclaim", &message);
    }

    /// The parts of a table, the oldest first.
    fn parts(&self, table: Table) -> Vec<PathBuf> {
        let mut found = self.writer.layout.found().0;
        found.sort_unstable();
        let of_table =
            |path: &PathBuf| path.to_string_lossy().contains(&format!("/{}/", table.name()));
        found.into_iter().map(|part| part.path).filter(of_table).collect()
    }

    fn bytes(&self) -> u64 {
        self.writer.layout.found().0.iter().map(|part| part.bytes).sum()
    }
}

/// The rows of a part, by column.
fn rows(path: &Path) -> Vec<Vec<(String, Field)>> {
    let reader = SerializedFileReader::new(File::open(path).unwrap()).unwrap();
    let rows = reader.get_row_iter(None).unwrap();
    rows.map(|row| row.unwrap().into_columns()).collect()
}

fn cell(row: &[(String, Field)], name: &str) -> Field {
    let found = row.iter().find(|(column, _)| column == name);
    found.unwrap_or_else(|| panic!("there is no column {name}")).1.clone()
}

#[test]
fn an_hour_of_fifty_cgroups_is_less_than_a_megabyte() {
    let mut world = World::new(50);
    for _ in 0..12 {
        world.pass();
        world.look(0, 0);
        let text = "a process cannot be acted on".to_owned();
        for pid in 0..3 {
            world.hear(Event::LeftOut { pid, text: text.clone() });
        }
        world.writer.interval();
    }
    let of = |table| -> u64 {
        world.parts(table).iter().map(|path| fs::metadata(path).unwrap().len()).sum()
    };
    let [sessions, cgroups, events, ..] = Table::ALL.map(of);
    eprintln!(
        "50 cgroups, 1 hour: {} bytes (sessions {sessions}, cgroups {cgroups}, events {events})",
        world.bytes()
    );
    assert!(world.bytes() <= 1 << 20, "{}", world.bytes());
    let rows: usize = world.parts(Table::Cgroups).iter().map(|path| rows(path).len()).sum();
    assert_eq!(rows, 600);
}

/// What the two large tables cost, which are not written unless they are named.
#[test]
fn an_hour_of_files_and_pages_is_as_large_as_the_documentation_says() {
    let mut world = World::new(50);
    world.writer.settings.tables = BTreeSet::from([Table::Pages, Table::Files]);
    for _ in 0..12 {
        world.pass();
        // 30 files in each cgroup, and 4 GiB of memory.
        world.look(30, 2048);
        world.writer.interval();
    }
    let of = |table| -> u64 {
        world.parts(table).iter().map(|path| fs::metadata(path).unwrap().len()).sum()
    };
    let [files, pages] = [Table::Files, Table::Pages].map(of);
    eprintln!("1 hour: files {files} bytes (50 cgroups, 30 each), pages {pages} (4 GiB)");
    assert!(files <= 1 << 20, "{files}");
    assert!(pages <= 16 << 20, "{pages}");
}

#[test]
fn paths_of_files_stay_on_the_host_unless_they_are_allowed() {
    let path = "/srv/secret/lib-number-0.so";
    let key = b"0123456789abcdef";
    for (names, name) in [
        (FileNames::Hashed(Vec::new()), hashed(path, b"")),
        (FileNames::Hashed(key.to_vec()), hashed(path, key)),
        (FileNames::Paths, path.to_owned()),
    ] {
        let is_path = names == FileNames::Paths;
        let mut world = World::new(1);
        world.writer.settings.file_names = names;
        world.pass();
        world.look(1, 1);
        world.writer.interval();
        let row = rows(&world.parts(Table::Files)[0]).remove(0);
        assert_eq!(cell(&row, "file"), Field::Str(name));
        assert_eq!(cell(&row, "dev_ino"), Field::Str("8:1:1000".to_owned()));
        assert_eq!(cell(&row, "cgroup"), Field::Str(World::path(0)));
        assert_eq!(cell(&row, "mappers"), Field::UInt(2));
        assert_eq!(cell(&row, "idle_30m"), Field::Null);
        // In none of the tables.
        let found = Table::ALL
            .iter()
            .flat_map(|table| world.parts(*table))
            .filter(|part| fs::read(part).unwrap().windows(6).any(|word| word == b"secret"));
        assert_eq!(found.count(), usize::from(is_path));
    }
}

#[test]
fn pages_and_shared_memory_are_told_by_the_context_that_sees_most() {
    let mut world = World::new(2);
    world.pass();
    world.look(1, 3);
    let shared = locked(&world.writer.gather).take(clock::now());
    let told = shared.pages.values().next().unwrap().pages.shared[&World::path(1)];
    world.pass();
    for (key, look) in shared.pages {
        locked(&world.writer.gather).see_pages(&key.0, look.clone());
        // Another context sees the same pages, and no more of the cgroup.
        locked(&world.writer.gather).see_pages("other", look);
    }
    world.writer.interval();
    let row = rows(&world.parts(Table::Cgroups)[0]).remove(1);
    assert_eq!(cell(&row, "shared"), Field::ULong(told));
    let pages = rows(&world.parts(Table::Pages)[0]);
    assert_eq!(pages.len(), 3);
    assert_eq!(cell(&pages[2], "target"), Field::Str("db/77".to_owned()));
    assert_eq!(
        (cell(&pages[2], "unit"), cell(&pages[2], "nr_idle_5m")),
        (Field::ULong(4 << 20), Field::UInt(5))
    );
    assert!(matches!(cell(&pages[2], "touched_1min"), Field::Bytes(bytes) if bytes.len() == 64));
    assert_eq!(rows(&world.parts(Table::Files)[0]).len(), 2);
    // Without a look nothing is known.
    world.pass();
    world.writer.interval();
    let row = rows(&world.parts(Table::Cgroups)[1]).remove(0);
    assert_eq!(cell(&row, "shared"), Field::Null);
    assert_eq!(world.parts(Table::Files).len(), 1);
}

#[test]
fn a_part_tells_what_happened_in_its_interval() {
    let mut world = World::new(2);
    world.pass();
    world.writer.interval();
    let before = world.counters.clone();
    world.pass();
    let state = PolicyState { hash: Some("f00".to_owned()), is_acting: true, ..Default::default() };
    locked(&world.writer.gather).policy("reclaim", Some(state));
    world.hear(Event::Unblocked);
    world.writer.interval();
    let parts = world.parts(Table::Cgroups);
    assert_eq!(parts.len(), 2);
    let metadata = SerializedFileReader::new(File::open(&parts[0]).unwrap()).unwrap();
    let pairs = metadata.metadata().file_metadata().key_value_metadata().unwrap().clone();
    let pairs: Vec<_> = pairs.into_iter().map(|pair| (pair.key, pair.value.unwrap())).collect();
    for (key, value) in
        [("isotherm.schema", "1"), ("isotherm.table", "cgroups"), ("isotherm.version", "0.1.0")]
    {
        assert!(pairs.contains(&(key.to_owned(), value.to_owned())), "{pairs:?}");
    }
    let first = &rows(&parts[0])[0];
    assert_eq!(cell(first, "oom"), Field::Null, "nothing to compare with yet");
    assert!(matches!(cell(first, "current"), Field::ULong(_)), "{first:?}");
    let row = &rows(&parts[1])[1];
    let text = |name| match cell(row, name) {
        Field::Str(text) => text,
        other => panic!("{name}: {other}"),
    };
    assert_eq!(text("cgroup"), World::path(1));
    assert_eq!((text("service"), text("class")), ("service-number-1".into(), "service".into()));
    assert_eq!((text("policy"), text("policy_hash")), ("reclaim".into(), "f00".into()));
    let grown = world.counters[1] - before[1];
    assert_eq!(cell(row, "oom"), Field::ULong(grown));
    assert_eq!(cell(row, "refaults"), Field::ULong(2 * grown));
    assert_eq!(cell(row, "paged_out"), Field::ULong(0));
    assert_eq!(cell(row, "limit"), Field::ULong(8 << 30));
    assert!(
        matches!(
            cell(row, "time"),
            Field::TimestampMillis(_) | Field::TimestampMicros(_) | Field::Long(_)
        ),
        "{row:?}"
    );
    // Actions of which not all are known are not guessed.
    world.hear(Event::Lost { events: 1 });
    world.pass();
    world.writer.interval();
    assert_eq!(cell(&rows(&world.parts(Table::Cgroups)[2])[0], "paged_out"), Field::Null);

    let session = rows(world.parts(Table::Sessions).last().unwrap()).remove(0);
    assert_eq!(cell(&session, "acting"), Field::Bool(true));
    assert_eq!(cell(&session, "policy"), Field::Str("reclaim".to_owned()));
    assert_eq!(cell(&session, "node_class"), Field::Str("m7".to_owned()));
    let events = rows(&world.parts(Table::Events)[0]);
    assert_eq!(cell(&events[0], "kind"), Field::Str("unblocked".to_owned()));
}

#[test]
fn texts_are_left_out_unless_they_are_allowed() {
    for texts in [false, true] {
        let mut world = World::new(0);
        world.writer.settings.texts = texts;
        world.hear(Event::LeftOut { pid: 1, text: "/home/me/secret --password=x".to_owned() });
        world.writer.interval();
        let row = rows(&world.parts(Table::Events)[0]).remove(0);
        assert_eq!(cell(&row, "text") != Field::Null, texts, "{row:?}");
        let bytes = fs::read(&world.parts(Table::Events)[0]).unwrap();
        let has = bytes.windows(6).any(|word| word == b"secret");
        assert_eq!(has, texts);
    }
}

#[test]
fn what_a_killed_agent_left_is_removed_and_what_was_whole_stays() {
    let mut world = World::new(1);
    world.pass();
    world.writer.interval();
    let whole = world.parts(Table::Cgroups).remove(0);
    let hidden = whole.with_file_name(".part-0000000000000000005-000001.parquet");
    let others = whole.with_file_name(".notes");
    fs::write(&hidden, "half").unwrap();
    fs::write(&others, "mine").unwrap();
    let settings = settings(world.dir.path());
    let fleet = Fleet::start(settings).unwrap();
    drop(fleet);
    assert!(!hidden.exists() && others.exists() && whole.exists());
    // The start and the end of the agent that has just run are told.
    assert_eq!(world.parts(Table::Sessions).len(), 3);
    assert_eq!(rows(&whole).len(), 1);
}

#[test]
fn a_table_that_is_not_wanted_is_not_written_and_a_bad_directory_is_told() {
    let mut world = World::new(1);
    world.writer.settings.tables = BTreeSet::from([Table::Sessions]);
    world.pass();
    world.writer.interval();
    assert_eq!(world.writer.layout.found().0.len(), 1);

    let file = world.dir.path().join("file");
    fs::write(&file, "").unwrap();
    let err = Fleet::start(Settings { dir: file.join("below"), ..settings(world.dir.path()) });
    let text = err.map(drop).unwrap_err().to_string();
    assert!(text.contains("tried: create") && text.contains("hint:"), "{text}");
}

#[test]
fn what_cannot_be_written_or_read_is_told_until_it_can_be() {
    let mut world = World::new(1);
    world.pass();
    let round = |world: &mut World| {
        world.writer.round(Writer::interval);
        locked(&world.writer.shown).clone()
    };
    assert_eq!((round(&mut world).state, round(&mut world).trouble), (State::Writing, None));
    // The directory goes away while the agent runs.
    let root = world.writer.settings.dir.clone();
    fs::remove_dir_all(&root).unwrap();
    fs::write(&root, "in the way").unwrap();
    let (first, second) = (round(&mut world), round(&mut world));
    assert_eq!((first.state, second.state), (State::Failing, State::Failing));
    assert_eq!((first.since, second.failed_rounds), (second.since, 2));
    assert!(first.lost_rows > 0 && first.written_at < Some(first.since));
    assert!(second.trouble.is_some_and(|text| text.contains("cannot write")));
    fs::remove_file(&root).unwrap();
    let after = round(&mut world);
    assert_eq!((after.state, after.trouble), (State::Writing, None));
    assert_eq!(after.written_at, Some(after.since));
    // One table of several.
    fs::remove_dir_all(root.join("isotherm/v1/cgroups")).unwrap();
    fs::write(root.join("isotherm/v1/cgroups"), "in the way").unwrap();
    let (rows, after) = (after.rows, round(&mut world));
    assert_eq!(after.state, State::Failing);
    assert_eq!(after.rows, rows + 1, "the other tables are written");
}

#[test]
fn a_panic_costs_one_round_and_counters_go_on() {
    let mut world = World::new(1);
    let refaults = |world: &World| {
        let part = world.parts(Table::Cgroups).pop().unwrap();
        let row = rows(&part).remove(0);
        (cell(&row, "refaults"), cell(&row, "interval_ns"), cell(&row, "paged_out"))
    };
    world.pass();
    world.writer.round(Writer::interval);
    let before = world.counters[0];
    let since = world.writer.grown_since;
    world.pass();
    world.writer.round(|writer| {
        drop(locked(&writer.gather).take(clock::now()));
        panic!("made for the test");
    });
    let shown = locked(&world.writer.shown).clone();
    assert_eq!((shown.state, shown.panics, shown.failed_rounds), (State::Failing, 1, 1));
    let text = shown.trouble.unwrap();
    assert!(text.starts_with("internal error: made for the test"), "{text}");
    world.pass();
    world.writer.round(Writer::interval);
    assert_eq!(locked(&world.writer.shown).state, State::Writing);
    let (refaults, interval_ns, paged_out) = refaults(&world);
    assert_eq!(refaults, Field::ULong(2 * (world.counters[0] - before)));
    assert_eq!(interval_ns, Field::ULong(world.writer.grown_since.since(since)));
    assert_eq!(paged_out, Field::Null, "what was done in the lost interval is not known");
}

#[test]
fn the_thread_goes_on_after_panics() {
    let world = World::new(0);
    let World { dir, mut writer, .. } = world;
    writer.settings.every = Duration::from_millis(1);
    let shown = Arc::clone(&writer.shown);
    let (stop, stopped) = channel();
    let mut nr = 0;
    let thread = std::thread::spawn(move || {
        writer.run(&stopped, |writer| {
            nr += 1;
            assert!(nr > 3, "made for the test");
            writer.interval();
        });
    });
    let started = Instant::now();
    while locked(&shown).rows < 5 {
        assert!(started.elapsed() < Duration::from_secs(60), "it does not go on: {shown:?}");
        std::thread::sleep(Duration::from_millis(1));
    }
    drop(stop);
    thread.join().unwrap();
    let shown = locked(&shown).clone();
    assert_eq!((shown.panics, shown.failed_rounds, shown.state), (3, 3, State::Writing));
    drop(dir);
}

#[test]
fn a_thread_that_hangs_is_left_behind() {
    for hangs in [false, true] {
        let (stop, stopped) = channel::<()>();
        let thread = std::thread::spawn(move || {
            stopped.recv().ok();
        });
        let stop = Some(stop).filter(|_| hangs);
        let limit = if hangs { Duration::from_millis(50) } else { Duration::from_secs(60) };
        assert_eq!(ends_within(thread, limit), !hangs);
        drop(stop);
    }
}

/// The columns that docs/FLEET.md names in a section, in order, and which of them can be null.
fn documented(table: Table) -> Vec<(String, bool)> {
    let text = include_str!("../../../../docs/FLEET.md");
    let heading = format!("### `{}`", table.name());
    let section = text.split(&heading).nth(1).unwrap_or_else(|| panic!("no section {heading}"));
    let section = section.split("\n#").next().unwrap_or_default();
    let lines = section.lines().filter_map(|line| line.strip_prefix("| `"));
    lines
        .flat_map(|line| {
            let (names, rest) = line.split_once(" |").unwrap();
            let is_null = rest.split('|').nth(1).is_some_and(|cell| cell.trim() == "yes");
            let names = names.split('`').filter(|name| !name.is_empty() && !name.contains(','));
            names.map(|name| (name.to_owned(), is_null)).collect::<Vec<_>>()
        })
        .collect()
}

#[test]
fn the_documentation_has_every_column_in_order() {
    for (table, batch) in [
        (Table::Sessions, SessionRow::batch(vec![SessionRow::default()])),
        (Table::Cgroups, CgroupRow::batch(vec![CgroupRow::default()])),
        (Table::Events, EventRow::batch(vec![EventRow::default()])),
        (Table::Snapshots, SnapshotRow::batch(vec![SnapshotRow::default()])),
        (Table::Pages, PageRow::batch(vec![PageRow::default()])),
        (Table::Files, FileRow::batch(vec![FileRow::default()])),
    ] {
        let columns = batch.columns().iter();
        let columns: Vec<_> = columns.map(|c| (c.name.to_owned(), c.there.is_some())).collect();
        assert_eq!(documented(table), columns, "{}", table.name());
    }
}
