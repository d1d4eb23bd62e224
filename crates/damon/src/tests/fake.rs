//! A made-up kernel for tests: plain files in a temporary directory that react to writes as the
//! kernel's do (R§5.2, R§5.3).
//!
//! The templates come from the reference, not from this crate's own lists, so that they check
//! these.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use crate::sysfs::files::{Files, SystemFiles};
use crate::sysfs::root::Root;

/// The boot of the made-up machine.
pub(crate) const BOOT: &str = "00000000-0000-4000-8000-00000000b007";

const CONTEXT: &str = "\
avail_operations=vaddr\\nfvaddr\\npaddr operations=vaddr addr_unit=1 pause=N \
monitoring_attrs/intervals/sample_us=5000 monitoring_attrs/intervals/aggr_us=100000 \
monitoring_attrs/intervals/update_us=60000000 monitoring_attrs/intervals/intervals_goal/access_bp=0 \
monitoring_attrs/intervals/intervals_goal/aggrs=0 monitoring_attrs/intervals/intervals_goal/min_sample_us=0 \
monitoring_attrs/intervals/intervals_goal/max_sample_us=0 monitoring_attrs/nr_regions/min=10 \
monitoring_attrs/nr_regions/max=1000 monitoring_attrs/probes/nr_probes=0 targets/nr_targets=0 schemes/nr_schemes=0";

const SCHEME: &str = "\
action=stat target_nid=-1 apply_interval_us=0 access_pattern/sz/min=0 access_pattern/sz/max=0 \
access_pattern/nr_accesses/min=0 access_pattern/nr_accesses/max=0 access_pattern/age/min=0 access_pattern/age/max=0 \
quotas/ms=0 quotas/bytes=0 quotas/reset_interval_ms=0 quotas/effective_bytes=0 quotas/goal_tuner=consist \
quotas/fail_charge_num=0 quotas/fail_charge_denom=0 quotas/weights/sz_permil=0 quotas/weights/nr_accesses_permil=0 \
quotas/weights/age_permil=0 quotas/goals/nr_goals=0 watermarks/metric=none watermarks/interval_us=0 watermarks/high=0 \
watermarks/mid=0 watermarks/low=0 core_filters/nr_filters=0 ops_filters/nr_filters=0 filters/nr_filters=0 \
dests/nr_dests=0 stats/nr_tried=0 stats/sz_tried=0 stats/nr_applied=0 stats/sz_applied=0 \
stats/sz_ops_filter_passed=0 stats/qt_exceeds=0 stats/nr_snapshots=0 stats/max_nr_snapshots=0 tried_regions/total_bytes=0";

const FILTER: &str = "type=anon matching=N allow=N memcg_path= addr_start=0 addr_end=0 min=0 max=0 damon_target_idx=0";

/// What the children of a `nr_` file look like, by the directory that it is in.
fn template(dir: &str, nr: &str) -> Option<&'static str> {
    Some(match (dir, nr) {
        ("kdamonds", "nr_kdamonds") => "state=off pid=-1 refresh_ms=0 contexts/nr_contexts=0",
        ("contexts", "nr_contexts") => CONTEXT,
        ("probes", "nr_probes") => "weight=0 filters/nr_filters=0",
        ("probe filters", "nr_filters") => "type=anon matching=N allow=N path=",
        ("targets", "nr_targets") => "pid_target=0 obsolete_target=N regions/nr_regions=0",
        ("regions", "nr_regions") => "start=0 end=0",
        ("schemes", "nr_schemes") => SCHEME,
        ("goals", "nr_goals") => {
            "target_metric=user_input target_value=0 current_value=0 nid=0 path="
        }
        ("core_filters" | "ops_filters" | "filters", "nr_filters") => FILTER,
        ("dests", "nr_dests") => "id=0 weight=0",
        _ => return None,
    })
}

/// Files that are missing, or refuse a value.
#[derive(Debug, Default)]
struct State {
    missing: Vec<&'static str>,
    /// By the end of the path and the value, or any if empty.
    refuses: Vec<(String, String, i32)>,
    refuses_once: Option<(String, String)>,
    /// How many more times the next write says EBUSY.
    busy: u32,
    next_pid: u32,
    writes: Vec<(String, String)>,
    /// What each running kdamond was last told: its files.
    told: BTreeMap<u32, BTreeMap<String, String>>,
}

/// The made-up kernel.
#[derive(Debug)]
pub(crate) struct Fake {
    dir: PathBuf,
    state: Mutex<State>,
}

impl Fake {
    /// A kernel of version 7.2 without any kdamond, below `dir`.
    pub(crate) fn new(dir: &Path) -> Arc<Self> {
        for sub in ["admin/kdamonds", "module", "proc/sys/kernel/random"] {
            fs::create_dir_all(dir.join(sub)).unwrap();
        }
        fs::write(dir.join("admin/kdamonds/nr_kdamonds"), "0\n").unwrap();
        fs::write(dir.join("proc/sys/kernel/random/boot_id"), format!("{BOOT}\n")).unwrap();
        let fake = Self {
            dir: dir.into(),
            state: Mutex::new(State { next_pid: 1000, ..State::default() }),
        };
        fake.release("7.2.13");
        fake.process(std::process::id(), 5);
        Arc::new(fake)
    }

    /// The root of this kernel, for a user without patience.
    pub(crate) fn impatient(self: &Arc<Self>) -> Root {
        self.root().with_patience(Duration::from_millis(5))
    }

    /// The root of this kernel.
    pub(crate) fn root(self: &Arc<Self>) -> Root {
        Root::at(&self.dir).with_files(Arc::<Self>::clone(self))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Calls itself so.
    pub(crate) fn release(&self, release: &str) {
        fs::write(self.dir.join("proc/sys/kernel/osrelease"), release).unwrap();
    }

    /// Has no files whose path contains this.
    pub(crate) fn lacks(&self, part: &'static str) {
        self.state().missing.push(part);
    }

    /// Refuses `value` (any, if empty) in files whose path ends so.
    pub(crate) fn refuses(&self, end: &str, value: &str, errno: i32) {
        self.state().refuses.push((end.into(), value.into(), errno));
    }

    /// Refuses `value` there, the first time that it comes.
    pub(crate) fn refuses_once(&self, end: &str, value: &str) {
        self.state().refuses_once = Some((end.into(), value.into()));
    }

    /// Refuses nothing any more.
    pub(crate) fn relents(&self) {
        self.state().refuses.clear();
    }

    /// Says EBUSY to the next `times` writes.
    pub(crate) fn is_busy(&self, times: u32) {
        self.state().busy = times;
    }

    /// Has a process, or a kernel thread, with this start.
    pub(crate) fn process(&self, pid: u32, start: u64) {
        let dir = self.dir.join(format!("proc/{pid}"));
        fs::create_dir_all(&dir).unwrap();
        let stat = format!(
            "{pid} (x) S 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 1 0 {start} 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n"
        );
        fs::write(dir.join("stat"), stat).unwrap();
    }

    /// The process ends.
    pub(crate) fn kill(&self, pid: u32) {
        fs::remove_dir_all(self.dir.join(format!("proc/{pid}"))).unwrap();
    }

    /// The kdamond ends by itself.
    pub(crate) fn kdamond_dies(&self, index: u32) {
        let dir = self.dir.join(format!("admin/kdamonds/{index}"));
        let pid: u32 = fs::read_to_string(dir.join("pid")).unwrap().trim().parse().unwrap();
        self.kill(pid);
        fs::write(dir.join("state"), "off\n").unwrap();
        fs::write(dir.join("pid"), "-1\n").unwrap();
        self.state().told.remove(&index);
    }

    /// Writes as another program does, with shell and `echo`.
    pub(crate) fn echo(&self, value: &str, file: &str) {
        self.write(&self.dir.join("admin/kdamonds").join(file), value.as_bytes()).unwrap();
    }

    /// What a file below `kdamonds` says.
    pub(crate) fn cat(&self, file: &str) -> String {
        fs::read_to_string(self.dir.join("admin/kdamonds").join(file)).unwrap().trim_end().into()
    }

    /// What was written since the last call: paths below `kdamonds`, and values.
    pub(crate) fn writes(&self) -> Vec<(String, String)> {
        std::mem::take(&mut self.state().writes)
    }

    /// A file as the running kdamond was last told.
    pub(crate) fn told(&self, index: u32, file: &str) -> Option<String> {
        self.state().told.get(&index)?.get(file).cloned()
    }

    /// A module with these parameters.
    pub(crate) fn module(&self, name: &str, parameters: &str) {
        lay_out(&self.dir.join(format!("module/damon_{name}/parameters")), parameters, &[]);
    }

    /// What a module's parameter says.
    pub(crate) fn parameter(&self, name: &str, parameter: &str) -> String {
        let file = self.dir.join(format!("module/damon_{name}/parameters/{parameter}"));
        fs::read_to_string(file).unwrap().trim_end().into()
    }

    fn is_on(&self, index: u32) -> bool {
        fs::read_to_string(self.dir.join(format!("admin/kdamonds/{index}/state")))
            .is_ok_and(|state| state.trim() == "on")
    }

    fn any_on(&self) -> bool {
        let all = SystemFiles.numbers(&self.dir.join("admin/kdamonds")).unwrap();
        all.into_iter().any(|index| self.is_on(index))
    }

    fn snapshot(&self, index: u32) -> BTreeMap<String, String> {
        let top = self.dir.join(format!("admin/kdamonds/{index}"));
        let mut files = BTreeMap::new();
        let mut dirs = vec![top.clone()];
        while let Some(dir) = dirs.pop() {
            for entry in fs::read_dir(dir).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    dirs.push(path);
                } else {
                    let text = fs::read_to_string(&path).unwrap().trim_end().to_owned();
                    files.insert(path.strip_prefix(&top).unwrap().display().to_string(), text);
                }
            }
        }
        files
    }

    fn command(&self, index: u32, command: &str) -> io::Result<()> {
        let dir = self.dir.join(format!("admin/kdamonds/{index}"));
        let on = self.is_on(index);
        match command {
            "on" if on => return Err(io::Error::from_raw_os_error(libc::EBUSY)),
            "on" => {
                if !dir.join("contexts/0").exists() {
                    return Err(io::Error::from_raw_os_error(libc::EINVAL));
                }
                let pid = {
                    let mut state = self.state();
                    state.next_pid += 1;
                    state.next_pid
                };
                self.process(pid, u64::from(pid) * 10);
                fs::write(dir.join("state"), "on\n")?;
                fs::write(dir.join("pid"), format!("{pid}\n"))?;
            }
            "off" if on => self.kdamond_dies(index),
            "off" => return Err(io::Error::from_raw_os_error(libc::EPERM)),
            _ if !on => return Err(io::Error::from_raw_os_error(libc::EINVAL)),
            _ => {}
        }
        if matches!(command, "on" | "commit" | "commit_schemes_quota_goals") {
            let snapshot = self.snapshot(index);
            self.state().told.insert(index, snapshot);
        }
        Ok(())
    }
}

fn lay_out(dir: &Path, template: &str, missing: &[&str]) {
    for file in template.split(' ') {
        let (path, value) = file.split_once('=').unwrap();
        let path = dir.join(path);
        if missing.iter().any(|part| path.to_string_lossy().contains(part)) {
            continue;
        }
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("{}\n", value.replace("\\n", "\n"))).unwrap();
    }
}

fn name(path: Option<&Path>) -> String {
    path.and_then(Path::file_name).unwrap_or_default().to_string_lossy().into_owned()
}

impl Files for Fake {
    fn read(&self, path: &Path, buf: &mut Vec<u8>) -> io::Result<()> {
        SystemFiles.read(path, buf)
    }

    fn write(&self, path: &Path, value: &[u8]) -> io::Result<()> {
        let value = String::from_utf8_lossy(value).trim_end().to_owned();
        let shown = path.display().to_string();
        if !path.exists() {
            return Err(io::Error::from_raw_os_error(libc::ENOENT));
        }
        {
            let mut state = self.state();
            if state.busy > 0 {
                state.busy -= 1;
                return Err(io::Error::from_raw_os_error(libc::EBUSY));
            }
            for (end, refused, errno) in &state.refuses {
                if shown.ends_with(end) && (refused.is_empty() || *refused == value) {
                    return Err(io::Error::from_raw_os_error(*errno));
                }
            }
            let once = state.refuses_once.take_if(|(end, v)| shown.ends_with(&*end) && *v == value);
            if once.is_some() {
                return Err(io::Error::from_raw_os_error(libc::EINVAL));
            }
            let below = path.strip_prefix(self.dir.join("admin/kdamonds")).unwrap_or(path);
            state.writes.push((below.display().to_string(), value.clone()));
        }
        let (dir, file) = (path.parent(), name(Some(path)));
        let mut dir_name = name(dir);
        if dir_name == "filters" && shown.contains("/probes/") {
            dir_name = "probe filters".into();
        }
        if file == "state" {
            let index = name(dir).parse().unwrap();
            return self.command(index, &value);
        }
        if file == "enabled" {
            if value == "Y" && self.any_on() {
                return Err(io::Error::from_raw_os_error(libc::EBUSY));
            }
            let pid = if value == "Y" { "77" } else { "-1" };
            fs::write(path.with_file_name("kdamond_pid"), pid)?;
        }
        if let Some(template) = template(&dir_name, &file) {
            if file == "nr_kdamonds" && self.any_on() {
                return Err(io::Error::from_raw_os_error(libc::EBUSY));
            }
            let dir = dir.unwrap();
            for old in SystemFiles.numbers(dir)? {
                fs::remove_dir_all(dir.join(old.to_string()))?;
            }
            let missing = self.state().missing.clone();
            let count: u32 = value.parse().unwrap();
            for index in 0..count {
                lay_out(&dir.join(index.to_string()), template, &missing);
            }
        }
        fs::write(path, format!("{value}\n"))
    }

    fn exists(&self, path: &Path) -> bool {
        path.exists()
    }

    fn numbers(&self, path: &Path) -> io::Result<Vec<u32>> {
        SystemFiles.numbers(path)
    }
}
