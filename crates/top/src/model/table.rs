//! Which rows are shown, and in which order: groups, filter, sorting, and the tree of children.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::BTreeMap;

use isotherm::raw::agent::groups::By;

use super::{Row, Watch, World};

/// What a row of the table is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Grouping {
    /// A process.
    #[default]
    Processes,
    /// The processes of a cgroup.
    Cgroups,
    /// The processes of a systemd unit.
    Units,
    /// The processes of a Kubernetes pod.
    Pods,
    /// The processes of a container.
    Containers,
    /// The processes that run as a user.
    Users,
}

impl Grouping {
    /// What makes a group; none for processes.
    const fn by(self) -> Option<By> {
        Some(match self {
            Self::Processes => return None,
            Self::Cgroups => By::Cgroup,
            Self::Units => By::Unit,
            Self::Pods => By::Pod,
            Self::Containers => By::Container,
            Self::Users => By::User,
        })
    }
}

/// What the rows are sorted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SortKey {
    /// Process id.
    Pid,
    /// Name.
    Name,
    /// Resident memory.
    Rss,
    /// Working set over 1 s.
    Second,
    /// Working set over 10 s.
    #[default]
    Ten,
    /// Working set over 1 min.
    Minute,
    /// Memory that was not touched for long.
    Cold,
    /// Memory of which nothing is known.
    Unresolved,
    /// How old the numbers are.
    Age,
}

impl SortKey {
    /// All of them, in the order in which they are gone through.
    pub(crate) const ALL: [Self; 9] = [
        Self::Ten,
        Self::Minute,
        Self::Cold,
        Self::Unresolved,
        Self::Age,
        Self::Pid,
        Self::Name,
        Self::Rss,
        Self::Second,
    ];

    /// Its name on the screen and on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pid => "pid",
            Self::Name => "name",
            Self::Rss => "rss",
            Self::Second => "1s",
            Self::Ten => "10s",
            Self::Minute => "1m",
            Self::Cold => "cold",
            Self::Unresolved => "unresolved",
            Self::Age => "age",
        }
    }

    /// The key of this name.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|key| key.name() == name)
    }

    /// The key `step` places on.
    pub(crate) fn step(self, step: usize) -> Self {
        let at = Self::ALL.iter().position(|key| *key == self).unwrap_or(0);
        Self::ALL[(at + step) % Self::ALL.len()]
    }

    /// Largest first; names and pids ascend. What is not known comes last.
    fn compare(self, a: &Row, b: &Row) -> Ordering {
        let within = |row: &Row, nr: usize| row.within[nr].map(|w| w.bytes);
        let unknown_last = |a: Option<u64>, b: Option<u64>| b.cmp(&a);
        match self {
            Self::Pid => a.pid.cmp(&b.pid),
            Self::Name => a.name.cmp(&b.name),
            Self::Rss => unknown_last(a.rss, b.rss),
            Self::Second => unknown_last(within(a, 0), within(b, 0)),
            Self::Ten => unknown_last(within(a, 1), within(b, 1)),
            Self::Minute => unknown_last(within(a, 2), within(b, 2)),
            Self::Cold => b.tiers.cold.cmp(&a.tiers.cold),
            Self::Unresolved => b.tiers.unresolved.cmp(&a.tiers.unresolved),
            Self::Age => unknown_last(a.age_ns, b.age_ns),
        }
    }
}

/// What the user wants to see.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Order {
    pub(crate) key: SortKey,
    pub(crate) reverse: bool,
    pub(crate) grouping: Grouping,
    /// Whether children stand below their parents; of processes only.
    pub(crate) tree: bool,
    /// Only rows that have this in their name or pid, or in their cgroup.
    pub(crate) filter: String,
}

/// A row of the table.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Line<'a> {
    pub(crate) row: Cow<'a, Row>,
    /// How deep in the tree.
    pub(crate) depth: usize,
    /// The processes that it stands for, and how many of them are not watched.
    pub(crate) pids: Cow<'a, [u32]>,
    pub(crate) refused: usize,
    /// The sum of a group's processes, where they share memory and the row counts it once.
    pub(crate) summed: Option<Row>,
}

impl Line<'_> {
    /// The sum of its processes; memory that they share counts in each of them.
    pub(crate) fn summed(&self) -> &Row {
        self.summed.as_ref().unwrap_or(&self.row)
    }
}

/// The rows as the user wants them.
pub(crate) fn arrange<'a>(world: &'a World, order: &Order) -> Vec<Line<'a>> {
    let filter = order.filter.to_lowercase();
    let is_wanted = |row: &&Row| {
        filter.is_empty()
            || row.name.to_lowercase().contains(&filter)
            || row.pid.to_string() == filter
            || row.cgroup.to_lowercase().contains(&filter)
            // A group that is opened is a filter by its name.
            || [By::Pod, By::Container, By::User]
                .iter()
                .any(|by| world.group_of(*by, row).to_lowercase() == filter)
    };
    let rows = world.rows.iter().filter(is_wanted);
    let mut lines: Vec<Line<'_>> = match order.grouping.by() {
        None => rows.map(line).collect(),
        Some(by) => grouped(rows, |row| world.group_of(by, row)),
    };
    if order.grouping != Grouping::Processes {
        lines.iter_mut().for_each(|line| count_once(line, world));
    }
    lines.sort_by(|a, b| {
        let by_key = order.key.compare(&a.row, &b.row);
        let by_key = if order.reverse { by_key.reverse() } else { by_key };
        // What is equal keeps its place from one screen to the next.
        let by_size = SortKey::Rss.compare(&a.row, &b.row);
        by_key
            .then(by_size)
            .then(a.row.pid.cmp(&b.row.pid))
            .then_with(|| a.row.name.cmp(&b.row.name))
    });
    if order.tree && order.grouping == Grouping::Processes { tree(lines) } else { lines }
}

fn line(row: &Row) -> Line<'_> {
    let refused = usize::from(matches!(row.watch, Watch::Refused(_)));
    let pids = Cow::Borrowed(std::slice::from_ref(&row.pid));
    Line { row: Cow::Borrowed(row), depth: 0, pids, refused, summed: None }
}

/// Counts the memory that the processes of a group share once.
fn count_once(line: &mut Line<'_>, world: &World) {
    let again = world.sharers.again(line.pids.iter().copied());
    if again.is_any() {
        line.summed = Some(line.row.clone().into_owned());
        again.take_off(line.row.to_mut());
    }
}

/// The sum over all lines, with shared memory once; and as a sum over processes, if that is
/// something else.
pub(crate) fn total(lines: &[Line<'_>], world: &World) -> (Row, Option<Row>) {
    let mut sum = Row::default();
    lines.iter().for_each(|line| sum.join(line.summed()));
    let again = world.sharers.again(lines.iter().flat_map(|line| line.pids.iter().copied()));
    let mut once = sum.clone();
    again.take_off(&mut once);
    (once, again.is_any().then_some(sum))
}

/// The sums of the groups that `name` tells.
fn grouped<'a>(
    rows: impl Iterator<Item = &'a Row>,
    name: impl Fn(&Row) -> String,
) -> Vec<Line<'a>> {
    let mut groups: BTreeMap<String, Line<'a>> = BTreeMap::new();
    for row in rows {
        let name = name(row);
        let refused = usize::from(matches!(row.watch, Watch::Refused(_)));
        match groups.get_mut(&name) {
            Some(group) => {
                group.row.to_mut().join(row);
                group.pids.to_mut().push(row.pid);
                group.refused += refused;
            }
            None => {
                let sum = Row { pid: 0, ppid: 0, name: name.clone(), ..row.clone() };
                groups.insert(name, Line { row: Cow::Owned(sum), ..line(row) });
            }
        }
    }
    groups.into_values().collect()
}

/// Puts children below their parents, and keeps the order among siblings.
fn tree(lines: Vec<Line<'_>>) -> Vec<Line<'_>> {
    let places: BTreeMap<u32, usize> =
        lines.iter().enumerate().map(|(at, line)| (line.row.pid, at)).collect();
    let parent = |at: usize| places.get(&lines[at].row.ppid).copied().filter(|up| *up != at);
    let mut children: Vec<Vec<usize>> = vec![Vec::new(); lines.len()];
    let mut roots = Vec::new();
    for at in 0..lines.len() {
        match parent(at) {
            Some(up) => children[up].push(at),
            None => roots.push(at),
        }
    }
    let mut order = Vec::with_capacity(lines.len());
    let mut depths = vec![None; lines.len()];
    // Parents in a circle, which a pid that was reused can make, are roots as well.
    for root in roots.into_iter().chain(0..lines.len()) {
        let mut open = vec![(root, 0)];
        while let Some((at, depth)) = open.pop() {
            if depths[at].is_none() {
                depths[at] = Some(depth);
                order.push(at);
                open.extend(children[at].iter().rev().map(|child| (*child, depth + 1)));
            }
        }
    }
    let mut lines: Vec<Option<Line<'_>>> = lines.into_iter().map(Some).collect();
    let placed = order.into_iter().filter_map(|at| {
        let line = lines[at].take()?;
        Some(Line { depth: depths[at].unwrap_or(0), ..line })
    });
    placed.collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use isotherm::raw::agent::groups::GroupNames;
    use isotherm::raw::core::{AddrRange, RegionInfo, Time, TouchedBytes};
    use isotherm::raw::record::once::Sharing;
    use isotherm::raw::record::{Mapping, Object};

    use super::*;
    use crate::model::{Member, Sharers};

    fn row(pid: u32, ppid: u32, name: &str, mib: Option<u64>) -> Row {
        let ten = mib.map(|mib| TouchedBytes { bytes: mib << 20, ..TouchedBytes::default() });
        let cgroup = if pid.is_multiple_of(2) { "/a.slice/x.service" } else { "/b.slice" };
        Row {
            pid,
            ppid,
            name: name.into(),
            cgroup: cgroup.into(),
            uid: Some(if pid.is_multiple_of(2) { 900_001 } else { 0 }),
            within: [None, ten, None],
            rss: Some(u64::from(pid) << 20),
            ..Row::default()
        }
    }

    fn rows() -> Vec<Row> {
        vec![
            row(1, 0, "init", Some(1)),
            row(2, 1, "postgres", None),
            row(3, 2, "worker", Some(8)),
            row(4, 2, "worker", Some(16)),
            row(5, 1, "sshd", Some(2)),
        ]
    }

    fn world(rows: Vec<Row>) -> World {
        World { rows, ..World::default() }
    }

    fn shown(order: &Order) -> Vec<(u32, usize)> {
        arrange(&world(rows()), order).iter().map(|line| (line.row.pid, line.depth)).collect()
    }

    #[test]
    fn the_largest_come_first_and_the_unknown_last() {
        let order = Order::default();
        assert_eq!(shown(&order), [(4, 0), (3, 0), (5, 0), (1, 0), (2, 0)]);
        let by_name = Order { key: SortKey::Name, reverse: true, ..order.clone() };
        assert_eq!(shown(&by_name), [(4, 0), (3, 0), (5, 0), (2, 0), (1, 0)]);
        let filtered = Order { filter: "WORK".into(), ..order.clone() };
        assert_eq!(shown(&filtered), [(4, 0), (3, 0)]);
        assert_eq!(shown(&Order { filter: "x.service".into(), ..order }), [(4, 0), (2, 0)]);
    }

    #[test]
    fn children_stand_below_their_parents() {
        let tree = Order { tree: true, ..Order::default() };
        assert_eq!(shown(&tree), [(1, 0), (5, 1), (2, 1), (4, 2), (3, 2)]);
        // A parent that the filter has taken out leaves its children where they are.
        let filtered = Order { filter: "worker".into(), ..tree.clone() };
        assert_eq!(shown(&filtered), [(4, 0), (3, 0)]);
        let circle = world(vec![row(1, 2, "a", None), row(2, 1, "b", None)]);
        assert_eq!(arrange(&circle, &tree).len(), 2);
    }

    #[test]
    fn groups_are_sums() {
        let world = world(rows());
        for (grouping, want) in [
            (Grouping::Cgroups, [("/a.slice/x.service", 2), ("/b.slice", 3)]),
            (Grouping::Units, [("x.service", 2), ("b.slice", 3)]),
            // Those of odd pids run as 0, the others as 900,001, whom nobody has named.
            (Grouping::Users, [("900001", 2), ("0", 3)]),
        ] {
            let lines = arrange(&world, &Order { grouping, ..Order::default() });
            let got: Vec<_> = lines.iter().map(|l| (&*l.row.name, l.pids.len())).collect();
            assert_eq!(got, want);
            assert_eq!(lines[0].row.within[1].map(|w| w.bytes >> 20), Some(16));
        }
    }

    /// Two containers of a pod, another pod, and a process that is in none.
    #[test]
    fn pods_and_containers_are_groups_and_open_by_their_names() {
        let uid = |nr: u32| format!("0b1c2d3e-1111-4222-8333-00000000000{nr}");
        let id = |digit: &str| digit.repeat(64);
        let root = tempfile::tempdir().unwrap();
        let put = |file: String| std::fs::create_dir_all(root.path().join(file)).unwrap();
        put(format!("var/log/pods/shop_web-1_{}", uid(1)));
        put(format!("var/log/containers/web-1_shop_nginx-{}.log", id("a")));
        let mut names = GroupNames::new(root.path());
        names.refresh(Time(0));
        let of = |pid, pod, container: &str| Row {
            cgroup: format!("/kubepods/pod{}/{}", uid(pod), id(container)),
            ..row(pid, 1, "x", Some(8))
        };
        let rows = vec![of(2, 1, "a"), of(3, 1, "b"), of(4, 2, "c"), row(5, 1, "sshd", Some(2))];
        let world = World { names: Arc::new(names), ..world(rows) };
        let shown = |grouping, filter: &str| {
            let order =
                Order { key: SortKey::Name, grouping, filter: filter.into(), ..Order::default() };
            let lines = arrange(&world, &order);
            lines.iter().map(|l| (l.row.name.clone(), l.pids.len())).collect::<Vec<_>>()
        };
        let other = format!("{}/{}", uid(2), "c".repeat(12));
        assert_eq!(
            shown(Grouping::Pods, ""),
            [("-".into(), 1), (uid(2), 1), ("shop/web-1".into(), 2)]
        );
        assert_eq!(
            shown(Grouping::Containers, ""),
            [
                ("-".into(), 1),
                (other, 1),
                (format!("shop/web-1/{}", "b".repeat(12)), 1),
                ("shop/web-1/nginx".into(), 1)
            ]
        );
        assert_eq!(shown(Grouping::Processes, "shop/web-1").len(), 2);
        assert_eq!(shown(Grouping::Processes, "shop/web-1/nginx").len(), 1);
    }

    /// 12 MiB of a file are mapped by 2 and 4, which are a group, and by 3, which is in the other.
    #[test]
    fn sums_count_shared_memory_once_and_keep_the_sum_over_processes() {
        let region = RegionInfo {
            range: AddrRange::new(0, 12 << 20),
            nr_accesses: 1,
            resolved: true,
            ..RegionInfo::default()
        };
        let mut sharing = Sharing::default();
        let object = Object { device: 1, inode: 2, offset: 0 };
        let file = [Mapping::new(0, 12 << 20, "r--p", "/x").of_object(object)];
        (2..5).for_each(|id| sharing.learn(id, 1, &file));
        let member = |pid| (pid, Arc::new(Member::of(&sharing, pid, None, &[region])));
        let members = (2..5).map(member).collect();
        let sharers = Sharers::new(Arc::new(sharing), members, 1_000_000, true);
        let of = |pid| Row { rss: Some(20 << 20), ..row(pid, 1, "x", None) };
        let world = World { sharers: Arc::new(sharers), ..world((1..5).map(of).collect()) };
        let mib = |row: &Row| row.rss.unwrap() >> 20;
        for (grouping, want) in [
            (Grouping::Processes, vec![(20, 20); 4]),
            (Grouping::Cgroups, vec![(40, 40), (28, 40)]),
        ] {
            let lines = arrange(&world, &Order { grouping, ..Order::default() });
            let got: Vec<_> = lines.iter().map(|l| (mib(&l.row), mib(l.summed()))).collect();
            assert_eq!(got, want, "of processes, and of groups, the largest first");
            let (once, sum) = total(&lines, &world);
            assert_eq!((mib(&once), mib(&sum.unwrap())), (56, 80));
        }
        let alone = Order { filter: "4".into(), ..Order::default() };
        let (once, sum) = total(&arrange(&world, &alone), &world);
        assert_eq!((mib(&once), sum), (20, None));
    }

    #[test]
    fn every_key_has_a_name() {
        for key in SortKey::ALL {
            assert_eq!(SortKey::of_name(key.name()), Some(key));
        }
        assert_eq!(SortKey::Ten.step(SortKey::ALL.len()), SortKey::Ten);
    }
}
