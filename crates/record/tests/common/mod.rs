//! Arbitrary events, and a record as plain values to compare.

use isotherm_core::unit::UNIT;
use isotherm_core::{
    AddrRange, Cost, PageBits, RegionInfo, SPANS, Snapshot, TargetId, TargetInfo, Time, Touched,
    TouchedBytes, TouchedShare, UnitInfo,
};
use isotherm_record::{
    CgroupUse, Cgroups, Event, Exec, Exit, Frame, Frames, Header, Mapping, NodeRanges, Note, Owner,
    PagedOut, Pages, Ram, Reader, Target, Touch, Writer,
};
use proptest::prelude::*;

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Owned {
    Target(Target),
    Exec(Exec),
    Exit(Exit),
    Mappings(u64, u32, Vec<Mapping>),
    Snapshot(Snapshot),
    Pages(Pages),
    Ram(Ram),
    Frames(Frames),
    Cgroups(Cgroups),
    Note(Note),
    End(String),
}

impl From<Event<'_>> for Owned {
    fn from(e: Event<'_>) -> Self {
        match e {
            Event::Target(t) => Self::Target(t.clone()),
            Event::Exec(e) => Self::Exec(e.clone()),
            Event::Exit(e) => Self::Exit(e.clone()),
            Event::Mappings { t_ns, target, mappings } => {
                Self::Mappings(t_ns, target, mappings.to_vec())
            }
            Event::Snapshot(s) => Self::Snapshot(s.clone()),
            Event::Pages(p) => Self::Pages(p.clone()),
            Event::Ram(r) => Self::Ram(r.clone()),
            Event::Frames(f) => Self::Frames(f.clone()),
            Event::Cgroups(c) => Self::Cgroups(c.clone()),
            Event::Note(n) => Self::Note(n.clone()),
            Event::End(e) => Self::End(e.reason.clone()),
        }
    }
}

pub(crate) fn write(events: &[Owned]) -> Vec<u8> {
    let mut w = Writer::new(Vec::new(), &Header { host: "h".into(), ..Header::default() }).unwrap();
    for e in events {
        match e {
            Owned::Target(t) => w.target(t),
            Owned::Exec(e) => w.exec(e),
            Owned::Exit(e) => w.exit(e),
            Owned::Mappings(t, id, m) => w.mappings(Time(*t), TargetId(*id), m),
            Owned::Snapshot(s) => w.push_snapshot(s),
            Owned::Ram(r) => w.ram(r),
            Owned::Frames(f) => w.frames(f),
            Owned::Cgroups(c) => w.cgroups(c.clone()),
            Owned::Note(n) => w.note(Time(n.t_ns), n.text.clone()),
            // These follow from the snapshots.
            Owned::Pages(_) | Owned::End(_) => Ok(()),
        }
        .unwrap();
    }
    w.finish(Time(0), "over").unwrap().0
}

/// Everything that can be read from a record; `None` if it cannot be opened.
pub(crate) fn read(bytes: &[u8]) -> Option<(Vec<Owned>, isotherm_record::Damage)> {
    let mut r = Reader::new(bytes, "test").ok()?;
    let mut events = Vec::new();
    while let Some(e) = r.next_event().unwrap() {
        events.push(e.into());
    }
    Some((events, r.damage()))
}

/// Shares that a record keeps as they are.
fn shares() -> impl Strategy<Value = TouchedShare> {
    let share = || prop::option::of(prop_oneof![Just(0.0), (1u8..=192).prop_map(kept)]);
    (share(), share(), prop_oneof![Just(12), Just(21)])
        .prop_map(|(window, second, leaf_shift)| TouchedShare { window, second, leaf_shift })
}

fn kept(steps: u8) -> f32 {
    f32::from(steps) / 192.0
}

type AnyRegion = (u64, u64, u32, u32, f32, f32, bool);

pub(crate) fn region() -> impl Strategy<Value = AnyRegion> {
    let addr = prop_oneof![0u64..64, (0u64..64).prop_map(|p| p << 12), any::<u64>()];
    let count = prop_oneof![0u32..21, any::<u32>()];
    (addr.clone(), addr, count.clone(), count, 0f32..1.0, 0f32..1.0, any::<bool>())
}

fn snapshot() -> impl Strategy<Value = Snapshot> {
    let regions = prop::collection::vec((region(), prop::option::of(shares())), 0..8);
    let units = prop::collection::vec(unit(), 0..4);
    let target = (0u32..4, regions, prop::option::of(touched()), units);
    let targets = prop::collection::vec(target, 0..4);
    let max = prop_oneof![Just(20u32), any::<u32>()];
    let paid = prop::option::of(prop_oneof![0u64..1 << 20, 0..u64::MAX]);
    (any::<u64>(), 0u64..1 << 32, 0u64..1 << 31, max, any::<(u64, u64, u64)>(), paid, targets)
        .prop_map(|(seq, start, len, max, (checks, clears, cpu_ns), target_ns, targets)| Snapshot {
            seq,
            start: Time(start),
            end: Time(start + len),
            sample_us: 5000,
            aggr_us: 100_000,
            max_nr_accesses: max,
            cost: Cost { checks, clears, cpu_ns, target_ns },
            targets: targets
                .into_iter()
                .map(|(id, regions, touched, units)| TargetInfo {
                    id: TargetId(id),
                    regions: regions.into_iter().map(|(r, shares)| info(r, shares, max)).collect(),
                    touched,
                    units,
                })
                .collect(),
        })
}

fn touched() -> impl Strategy<Value = Touched> {
    (any::<u64>(), any::<u64>(), 0..SPANS).prop_map(|(watched, bytes, nr)| {
        let mut touched = Touched { watched, ..Touched::default() };
        touched.spans[nr] = Some(TouchedBytes { bytes, lo: 1, hi: u64::MAX, measured: watched });
        touched
    })
}

fn unit() -> impl Strategy<Value = UnitInfo> {
    (0u64..4, any::<u64>(), any::<[u64; 8]>(), 0..SPANS).prop_map(|(nr, since, bits, span)| {
        let mut touched = [None; SPANS];
        touched[span] = Some(PageBits(bits));
        let (present, unresolved) = (PageBits::ALL, PageBits::page(7));
        let found = (nr % 2 == 0).then_some(PageBits(bits));
        let since = Time(since);
        let young = (nr % 2 == 0).then_some(PageBits::page(9));
        let found_after = Time(if young.is_some() { since.0 / 2 } else { 0 });
        UnitInfo {
            start: nr * UNIT,
            since,
            present,
            unresolved,
            touched,
            found,
            found_after,
            young,
            leaf_shift: 12,
        }
    })
}

fn info(r: AnyRegion, touched: Option<TouchedShare>, max: u32) -> RegionInfo {
    let (start, end, nr_accesses, age, a, b, resolved) = r;
    #[expect(clippy::cast_precision_loss, reason = "an arbitrary bound")]
    let max = max as f32;
    RegionInfo {
        range: AddrRange::new(start, end),
        nr_accesses,
        age,
        lo: a.min(b) * max,
        hi: a.max(b) * max,
        resolved,
        touched,
    }
}

pub(crate) fn event() -> impl Strategy<Value = Owned> {
    let text = "[a-z\u{e9}\"\\\\/ ]{0,12}";
    let mapping = (any::<u64>(), any::<u64>(), "[rwxps-]{4}", text)
        .prop_map(|(start, end, perms, name)| Mapping::new(start, end, &perms, &name));
    prop_oneof![
        6 => snapshot().prop_map(Owned::Snapshot),
        1 => (any::<(u32, u32, u32, u64)>(), text).prop_map(|((id, pid, ppid, t_ns), name)| {
            let memory = (pid % 3 == 0).then(|| name.clone());
            Owned::Target(Target { id, pid, ppid, name, t_ns, memory })
        }),
        1 => any::<(u64, u32, Vec<(u64, u64)>)>().prop_map(|(t_ns, node, ranges)| {
            Owned::Ram(Ram { t_ns, nodes: vec![NodeRanges { node, ranges }] })
        }),
        1 => (any::<(u64, u32, u64)>(), text).prop_map(|((t_ns, target, addr), name)| {
            let frame = Frame { addr, owners: vec![0], touch: Touch::Idle(7), ..Frame::default() };
            Owned::Frames(Frames {
                t_ns,
                target,
                kinds: vec![name.clone()],
                owners: vec![Owner { pid: target, name }],
                frames: vec![frame; 3],
                ..Frames::default()
            })
        }),
        1 => (any::<(u64, Option<u64>, u64)>(), text).prop_map(|((t_ns, bytes, done), cgroup)| {
            let paged_out = bytes.map(|asked| PagedOut { asked, done, refaulted: 1 });
            let (touched, idle) = (vec![bytes, None], vec![bytes]);
            let one = CgroupUse { cgroup, touched, idle, paged_out, ..CgroupUse::default() };
            let spans_us = vec![1000, 2000];
            Owned::Cgroups(Cgroups { t_ns, spans_us, cgroups: vec![one], ..Cgroups::default() })
        }),
        1 => (any::<(u32, u64)>(), text)
            .prop_map(|((id, t_ns), name)| Owned::Exec(Exec { id, name, t_ns })),
        1 => any::<(u32, Option<i32>, u64)>()
            .prop_map(|(id, status, t_ns)| Owned::Exit(Exit { id, status, t_ns })),
        1 => (any::<u64>(), text)
            .prop_map(|(t_ns, text)| Owned::Note(Note { t_ns, text, ..Note::default() })),
        1 => (any::<u64>(), 0u32..3, prop::collection::vec(mapping, 0..5))
            .prop_map(|(t, id, m)| Owned::Mappings(t, id, m)),
    ]
}

/// What `events` must read back as, apart from [`Owned::Pages`]: unchanged mappings are not
/// repeated, snapshots do not tell of pages, bounds may have grown.
pub(crate) fn expected(events: &[Owned]) -> Vec<Owned> {
    let mut last: std::collections::BTreeMap<u32, Vec<Mapping>> = Default::default();
    let mut out = Vec::new();
    for e in events {
        match e {
            Owned::Mappings(_, id, m) if last.get(id) == Some(m) => continue,
            Owned::Mappings(_, id, m) => {
                last.insert(*id, m.clone());
            }
            Owned::Exit(e) => {
                last.remove(&e.id);
            }
            _ => {}
        }
        let mut e = e.clone();
        if let Owned::Snapshot(s) = &mut e {
            s.targets.iter_mut().for_each(|t| (t.touched, t.units) = (None, Vec::new()));
        }
        out.push(e);
    }
    out.push(Owned::End("over".into()));
    out
}

/// Equal, but the bounds of `got` may be wider by at most 1/255 of the maximum.
pub(crate) fn same(got: &Owned, want: &Owned) -> bool {
    let (Owned::Snapshot(g), Owned::Snapshot(w)) = (got, want) else { return got == want };
    let (mut g, mut w) = (g.clone(), w.clone());
    let max = f64::from(g.max_nr_accesses);
    let regions = |s: &mut Snapshot| -> Vec<(f32, f32)> {
        let all = s.targets.iter_mut().flat_map(|t| &mut t.regions);
        all.map(|r| (std::mem::take(&mut r.lo), std::mem::take(&mut r.hi))).collect()
    };
    let near = |wide: f32, narrow: f32| {
        let d = f64::from(narrow) - f64::from(wide);
        (0.0..=max / 255.0 * 1.001).contains(&d)
    };
    let (gb, wb) = (regions(&mut g), regions(&mut w));
    g == w
        && gb.iter().zip(&wb).all(|((glo, ghi), (wlo, whi))| near(*glo, *wlo) && near(*whi, *ghi))
}
