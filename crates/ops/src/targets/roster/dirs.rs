//! The directories of cgroups that match, and who is in them.
//!
//! A process that moves between cgroups does not show in `/proc` until its file is read again. It
//! shows in `cgroup.procs` of the cgroup that it comes to, or leaves. Whoever moves a process
//! writes to that file of the cgroup that it comes to, and inotify tells of the write, also of
//! cgroups that do not match. It tells of directories that come and go as well. Where it is not to
//! be had, the tree is walked again from time to time.
//!
//! The lists of few cgroups are read at every poll. Of thousands, those are read first that are new
//! or told to have changed, then those that changed lately, then the large ones; of the rest those
//! that were not read for the longest time, as far as the budget allows. That is all there is where
//! inotify does not tell, and else a second look.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ffi::OsStr;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use isotherm_core::Time;
use isotherm_host::metrics::Cgroups;
use isotherm_host::proc::Proc;
use isotherm_sys::clock::thread_cpu_ns;
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};

use super::rule::Matcher;

/// CPU time per poll for reading lists of members.
const READ_NS: u64 = 1_000_000;
/// The same for a second look at lists of which inotify tells.
const LOOK_AGAIN_NS: u64 = READ_NS / 4;
/// Lists that are read at every poll in any case.
const ALWAYS: usize = 32;
/// Those with the most processes are found again after this time, in ns.
const LARGE_EVERY_NS: u64 = 10_000_000_000;
/// A list that has changed is read at every poll for so long.
const LIVELY_NS: u64 = 30_000_000_000;
/// The tree is walked again after this time if inotify tells everything, and if it does not.
const WALK_EVERY_NS: [u64; 2] = [300_000_000_000, 5_000_000_000];
/// Directories and files that are watched at most, and at most half of the kernel's limit, which is
/// for all programs of a user. A watch holds about 1 KiB of the kernel's memory.
const MOST_WATCHES: usize = 16_384;
/// The files whose being written moves a process or a thread: of version 2, and of version 1.
const MOVES: [&[u8]; 3] = [b"cgroup.procs", b"cgroup.threads", b"tasks"];
/// Directories that are known at most.
const MOST_DIRS: usize = 200_000;

/// A cgroup that matches.
#[derive(Debug, Default)]
struct Dir {
    /// Its path below the root of its hierarchy.
    path: String,
    /// The number of its hierarchy.
    root: usize,
    members: BTreeSet<u32>,
    read_at: Option<Time>,
    changed_at: Option<Time>,
    is_dirty: bool,
}

/// How well one cgroup is followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Followed {
    /// Its path below the root of its hierarchy.
    pub path: String,
    /// How many processes were in it when it was read.
    pub members: usize,
    /// How long ago that was, in ns; none: never yet.
    pub age_ns: Option<u64>,
}

/// All cgroups that match.
#[derive(Debug, Default)]
pub(super) struct Dirs {
    matching: BTreeMap<PathBuf, Dir>,
    /// The cgroups whose lists are read in turn, the next one first.
    turn: VecDeque<PathBuf>,
    /// Those with the most processes, as of this time.
    large: Vec<PathBuf>,
    large_at: Option<Time>,
    /// Cgroups that do not match, and to which a process was moved.
    elsewhere: BTreeSet<PathBuf>,
    /// Where the processes are that have come to a cgroup in this poll, by hierarchy.
    came: BTreeMap<(usize, u32), PathBuf>,
    watcher: Option<Watcher>,
    walked_at: Option<Time>,
}

impl Dirs {
    /// Takes in what has changed, and returns the processes that have come or gone.
    pub(super) fn poll(&mut self, proc: &Proc, matcher: &Matcher, now: Time) -> BTreeSet<u32> {
        let is_told = self.watcher.as_ref().is_some_and(|watcher| watcher.sees_all);
        let every = if is_told { WALK_EVERY_NS[0] } else { WALK_EVERY_NS[1] };
        let mounts = Cgroups::mounted(proc);
        // The other hierarchies of v1 group processes for other reasons than memory and services.
        let v1 = ["memory", "name=systemd"].into_iter().filter_map(|name| mounts.v1_of(name));
        let roots: Vec<PathBuf> =
            mounts.v2.iter().map(PathBuf::as_path).chain(v1).map(Path::to_path_buf).collect();
        if self.walked_at.is_none_or(|at| now.since(at) >= every) {
            self.walked_at = Some(now);
            self.walk(proc, &roots, matcher);
        }
        self.hear(&roots, matcher);
        let mut moved = self.read(now);
        moved.extend(self.gone_elsewhere(&roots));
        moved
    }

    /// Looks at all directories at the next poll, since others may match.
    pub(super) const fn walk_again(&mut self) {
        self.walked_at = None;
    }

    /// What is known of each.
    pub(super) fn followed(&self, now: Time) -> impl Iterator<Item = Followed> {
        self.matching.values().map(move |dir| Followed {
            path: dir.path.clone(),
            members: dir.members.len(),
            age_ns: dir.read_at.map(|at| now.since(at)),
        })
    }

    /// Looks at all directories.
    fn walk(&mut self, proc: &Proc, roots: &[PathBuf], matcher: &Matcher) {
        self.watcher = Watcher::new(proc);
        let mut found = BTreeSet::new();
        let mut left: Vec<(usize, PathBuf)> = roots.iter().cloned().enumerate().collect();
        let mut dirs = 0;
        while let Some((nr, dir)) = left.pop() {
            dirs += 1;
            if dirs > MOST_DIRS {
                break;
            }
            // Watched before it is listed, so that nothing is missed in between.
            if let Some(watcher) = &mut self.watcher {
                watcher.watch(&dir);
            }
            left.extend(below(&dir).into_iter().map(|dir| (nr, dir)));
            if self.take(nr, &roots[nr], &dir, matcher) {
                found.insert(dir);
            }
        }
        self.matching.retain(|dir, _| found.contains(dir));
    }

    /// Takes a directory in if it matches.
    fn take(&mut self, root: usize, mount: &Path, dir: &Path, matcher: &Matcher) -> bool {
        let Some(path) = dir.strip_prefix(mount).ok().and_then(Path::to_str) else { return false };
        let line = format!("0::/{path}\n");
        if !matcher.means_cgroup(line.as_bytes()) {
            return false;
        }
        let path = format!("/{path}");
        if let Some(watcher) = &mut self.watcher {
            watcher.watch_events(dir);
        }
        let Self { matching, turn, .. } = self;
        matching.entry(dir.to_path_buf()).or_insert_with(|| {
            turn.push_back(dir.to_path_buf());
            Dir { path, root, is_dirty: true, ..Dir::default() }
        });
        true
    }

    /// Takes in what inotify tells.
    fn hear(&mut self, roots: &[PathBuf], matcher: &Matcher) {
        let told = self.watcher.as_mut().map(Watcher::told).unwrap_or_default();
        for event in told {
            match event {
                Told::Made(dir) => {
                    let Some(nr) = roots.iter().position(|root| dir.starts_with(root)) else {
                        continue;
                    };
                    let mut left = vec![dir];
                    while let Some(dir) = left.pop() {
                        if let Some(watcher) = &mut self.watcher {
                            watcher.watch(&dir);
                        }
                        self.take(nr, &roots[nr], &dir, matcher);
                        left.extend(below(&dir));
                    }
                }
                Told::Changed(dir) => match self.matching.get_mut(&dir) {
                    Some(dir) => dir.is_dirty = true,
                    None => drop(self.elsewhere.insert(dir)),
                },
                Told::Lost => self.walked_at = None,
            }
        }
    }

    /// Reads lists of members, in the order that the module's head tells. Returns who has come or
    /// gone.
    fn read(&mut self, now: Time) -> BTreeSet<u32> {
        self.find_large(now);
        let lively = |dir: &Dir| dir.changed_at.is_some_and(|at| now.since(at) < LIVELY_NS);
        let told = |dir: &Dir| dir.is_dirty || dir.read_at.is_none();
        let is = |which: &dyn Fn(&Dir) -> bool| {
            let those = self.matching.iter().filter(|(_, dir)| which(dir));
            those.map(|(at, _)| at.clone()).collect::<Vec<_>>()
        };
        let urgent = [is(&told), is(&|dir| !told(dir) && lively(dir)), self.large.clone()];
        let (mut moved, began_ns) = (BTreeSet::new(), thread_cpu_ns());
        let has_time =
            |nr: usize| nr < ALWAYS || thread_cpu_ns().saturating_sub(began_ns) < READ_NS;
        for (nr, at) in urgent.into_iter().flatten().enumerate() {
            if !has_time(nr) {
                break;
            }
            self.read_one(&at, now, &mut moved);
        }
        // However much is urgent, some of the others are read as well.
        let is_told = self.watcher.as_ref().is_some_and(|watcher| watcher.sees_all);
        let limit_ns = if is_told { LOOK_AGAIN_NS } else { READ_NS };
        let began_ns = thread_cpu_ns();
        let has_time =
            |nr: usize| nr < ALWAYS || thread_cpu_ns().saturating_sub(began_ns) < limit_ns;
        for nr in 0..self.turn.len() {
            let Some(at) = self.turn.pop_front() else { break };
            if !self.matching.contains_key(&at) {
                continue;
            }
            if !has_time(nr) {
                self.turn.push_front(at);
                break;
            }
            self.read_one(&at, now, &mut moved);
            self.turn.push_back(at);
        }
        let came = std::mem::take(&mut self.came);
        self.take_out(&came);
        moved.remove(&0);
        moved
    }

    /// Reads one list, unless that was done in this poll already.
    fn read_one(&mut self, at: &Path, now: Time, moved: &mut BTreeSet<u32>) {
        let Some(dir) = self.matching.get_mut(at) else { return };
        if dir.read_at == Some(now) {
            return;
        }
        match std::fs::read_to_string(at.join("cgroup.procs")) {
            Ok(text) => {
                let members: BTreeSet<u32> = text.lines().filter_map(|l| l.parse().ok()).collect();
                if members != dir.members {
                    dir.changed_at = Some(now);
                    moved.extend(members.symmetric_difference(&dir.members));
                    let came = members.difference(&dir.members);
                    self.came.extend(came.map(|pid| ((dir.root, *pid), at.to_path_buf())));
                }
                (dir.members, dir.read_at, dir.is_dirty) = (members, Some(now), false);
            }
            // It was removed, or has only threads.
            Err(_) if !at.is_dir() => {
                moved.extend(&dir.members);
                self.matching.remove(at);
            }
            Err(_) => (dir.read_at, dir.is_dirty) = (Some(now), false),
        }
    }

    /// Takes processes that have come to a cgroup out of the lists of the others in its hierarchy.
    /// Or their coming back would change nothing.
    fn take_out(&mut self, came: &BTreeMap<(usize, u32), PathBuf>) {
        if came.is_empty() {
            return;
        }
        for (at, dir) in &mut self.matching {
            let (root, members) = (dir.root, &mut dir.members);
            members.retain(|pid| came.get(&(root, *pid)).is_none_or(|to| to == at));
        }
    }

    /// The processes that were in cgroups that match, and were moved to one that does not.
    fn gone_elsewhere(&mut self, roots: &[PathBuf]) -> BTreeSet<u32> {
        let mut gone = BTreeMap::new();
        for at in std::mem::take(&mut self.elsewhere) {
            let Some(root) = roots.iter().position(|root| at.starts_with(root)) else { continue };
            let text = std::fs::read_to_string(at.join("cgroup.procs")).unwrap_or_default();
            let pids = text.lines().filter_map(|line| line.parse::<u32>().ok());
            gone.extend(pids.map(|pid| ((root, pid), at.clone())));
        }
        if gone.is_empty() {
            return BTreeSet::new();
        }
        let known: BTreeSet<(usize, u32)> = self
            .matching
            .values()
            .flat_map(|dir| dir.members.iter().map(|pid| (dir.root, *pid)))
            .collect();
        gone.retain(|pid, _| known.contains(pid));
        self.take_out(&gone);
        gone.into_keys().map(|(_, pid)| pid).collect()
    }

    /// Finds the cgroups with the most processes, from time to time.
    fn find_large(&mut self, now: Time) {
        if self.large_at.is_some_and(|at| now.since(at) < LARGE_EVERY_NS) {
            return;
        }
        self.large_at = Some(now);
        let mut sizes: Vec<_> =
            self.matching.iter().map(|(at, dir)| (dir.members.len(), at)).collect();
        sizes.sort_unstable_by(|a, b| b.cmp(a));
        let large = sizes.into_iter().take(ALWAYS).filter(|(len, _)| *len > 1);
        self.large = large.map(|(_, at)| at.clone()).collect();
    }
}

/// The directories in a directory; none if it is gone.
fn below(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    entries.filter(|e| e.file_type().is_ok_and(|t| t.is_dir())).map(|e| e.path()).collect()
}

/// What inotify told.
#[derive(Debug)]
enum Told {
    /// A directory was made.
    Made(PathBuf),
    /// A process was moved to this cgroup, or its first process came, or its last has gone.
    Changed(PathBuf),
    /// Too much happened at once.
    Lost,
}

/// Watches directories.
#[derive(Debug)]
struct Watcher {
    fd: OwnedFd,
    dirs: BTreeMap<i32, PathBuf>,
    events: BTreeMap<i32, PathBuf>,
    /// Whether all directories could be watched.
    sees_all: bool,
    most: usize,
}

impl Watcher {
    fn new(proc: &Proc) -> Option<Self> {
        let fd = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).ok()?;
        let mut text = Vec::new();
        let limit = proc.read_system("sys/fs/inotify/max_user_watches", &mut text).ok();
        let limit = limit.and_then(|()| String::from_utf8_lossy(&text).trim().parse().ok());
        let most = limit.map_or(MOST_WATCHES, |limit: usize| (limit / 2).min(MOST_WATCHES));
        let (dirs, events) = (BTreeMap::new(), BTreeMap::new());
        Some(Self { fd, dirs, events, sees_all: true, most })
    }

    fn watch(&mut self, dir: &Path) {
        if self.dirs.len() + self.events.len() >= self.most {
            self.sees_all = false;
            return;
        }
        let flags = WatchFlags::CREATE | WatchFlags::MODIFY | WatchFlags::ONLYDIR;
        match inotify::add_watch(&self.fd, dir, flags) {
            Ok(nr) => drop(self.dirs.insert(nr, dir.to_path_buf())),
            // A directory that is gone need not be watched.
            Err(_) => self.sees_all &= !dir.is_dir(),
        }
    }

    fn watch_events(&mut self, dir: &Path) {
        if self.dirs.len() + self.events.len() >= self.most {
            return;
        }
        // The kernel tells of what it changes itself only if the file is watched, not its
        // directory. v1 has no such file; there the list is read in turn.
        if let Ok(nr) = inotify::add_watch(&self.fd, dir.join("cgroup.events"), WatchFlags::MODIFY)
        {
            self.events.insert(nr, dir.to_path_buf());
        }
    }

    fn told(&mut self) -> Vec<Told> {
        let mut out = Vec::new();
        let mut room = [MaybeUninit::uninit(); 4096];
        let mut reader = inotify::Reader::new(&self.fd, &mut room);
        // Nothing more to read is an error as well.
        while let Ok(event) = reader.next() {
            let (nr, flags) = (event.wd(), event.events());
            if flags.contains(ReadFlags::QUEUE_OVERFLOW) {
                out.push(Told::Lost);
            } else if flags.contains(ReadFlags::IGNORED) {
                self.dirs.remove(&nr);
                self.events.remove(&nr);
            } else if let Some(dir) = self.events.get(&nr) {
                out.push(Told::Changed(dir.clone()));
            } else if let Some((dir, name)) = self.dirs.get(&nr).zip(event.file_name()) {
                if flags.contains(ReadFlags::ISDIR) {
                    out.push(Told::Made(dir.join(OsStr::from_bytes(name.to_bytes()))));
                } else if MOVES.contains(&name.to_bytes()) {
                    out.push(Told::Changed(dir.clone()));
                }
            }
        }
        out
    }
}
