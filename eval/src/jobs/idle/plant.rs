//! Processes in cgroups of their own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::Context;
use isotherm_sys::clock;

use crate::job::Bench;
use crate::processes::child::{Child, sleep_until};
use crate::processes::group::Group;

const SOURCE: &str = include_str!("plant.py");
/// `FUSE_SUPER_MAGIC`.
const FUSE: i64 = 0x6573_5546;
/// How long it may take to write its memory.
const PATIENCE_US: u64 = 120_000_000;

/// Sizes in MiB.
#[derive(Debug, Clone, Copy)]
pub(super) struct Case {
    pub(super) name: &'static str,
    idle: u64,
    hot: u64,
    mapped: u64,
    unmapped: u64,
    huge: bool,
}

/// What is planted.
pub(super) const CASES: [Case; 4] = [
    Case { name: "small-pages", idle: 300, hot: 80, mapped: 0, unmapped: 0, huge: false },
    Case { name: "huge-pages", idle: 300, hot: 80, mapped: 0, unmapped: 0, huge: true },
    Case { name: "files", idle: 0, hot: 40, mapped: 200, unmapped: 200, huge: false },
    Case { name: "mixed", idle: 200, hot: 100, mapped: 120, unmapped: 120, huge: true },
];

/// What is planted to find out what the bitmap costs by page: the first has no memory.
pub(super) const COSTS: [Case; 4] = [
    Case { name: "no-memory", idle: 0, hot: 0, mapped: 0, unmapped: 0, huge: false },
    Case { name: "small-anon", idle: 512, hot: 0, mapped: 0, unmapped: 0, huge: false },
    Case { name: "huge-anon", idle: 512, hot: 0, mapped: 0, unmapped: 0, huge: true },
    Case { name: "page-cache", idle: 0, hot: 0, mapped: 0, unmapped: 512, huge: false },
];

impl Case {
    /// Pages of its memory; huge ones count once.
    pub(super) const fn pages(&self) -> u64 {
        let mib = self.idle + self.hot;
        let anon = if self.huge { mib / 2 } else { mib * 256 };
        anon + (self.mapped + self.unmapped) * 256
    }

    pub(super) const fn sizes(&self) -> [u64; 4] {
        [self.idle, self.hot, self.mapped, self.unmapped]
    }

    /// A quarter of everything.
    pub(super) const fn smaller(&self) -> Self {
        Self {
            idle: self.idle / 4,
            hot: self.hot / 4,
            mapped: self.mapped / 4,
            unmapped: self.unmapped / 4,
            ..*self
        }
    }

    /// The same program without memory.
    pub(super) const fn nothing(&self) -> Self {
        Self { name: "nothing", idle: 0, hot: 0, mapped: 0, unmapped: 0, huge: self.huge }
    }
}

/// A process in its cgroup; both go with it.
#[derive(Debug)]
pub(super) struct Plant {
    // Before the group, which can go only without it.
    child: Option<Child>,
    group: Group,
    file: PathBuf,
}

impl Plant {
    /// Starts it, and waits until its memory is written.
    pub(super) fn start(bench: &Bench<'_>, case: &Case) -> anyhow::Result<Self> {
        let group = Group::new(case.name)?;
        let file = bench.dir.raw(&format!("{}.cache", case.name));
        let mut plant = Self { child: None, group, file };
        plant.begin(bench, case)?;
        Ok(plant)
    }

    fn begin(&mut self, bench: &Bench<'_>, case: &Case) -> anyhow::Result<()> {
        let dir = self.file.parent().unwrap_or(Path::new("."));
        let kind = rustix::fs::statfs(dir).map(|fs| fs.f_type).unwrap_or_default();
        anyhow::ensure!(
            case.mapped + case.unmapped == 0 || kind != FUSE,
            "{} is on FUSE (a directory that the lab shares, for one): pages of a file there may be in another machine's page \
             cache, and the truth is not known\n  hint: --out on a file system of this machine; in the lab, /tmp",
            dir.display()
        );
        let script = bench.dir.raw("plant.py");
        fs::write(&script, SOURCE).context("write plant.py")?;
        let said = bench.dir.raw(&format!("{}.out", case.name));
        let out = fs::File::create(&said).context("create its output")?;
        let mut command = self.group.command(Path::new("python3"));
        command.args(["-I", "-S"]).arg(script).args(case.sizes().map(|mib| mib.to_string()));
        command.arg(u8::from(case.huge).to_string()).arg(&self.file);
        command.stdin(Stdio::null()).stdout(out);
        let log = bench.dir.raw(&format!("{}.err", case.name));
        let mut child = Child::spawn(command, &log)?;
        let deadline = clock::now().plus_us(PATIENCE_US);
        while !fs::read_to_string(&said).is_ok_and(|text| text.contains("ready")) {
            child.still_runs()?;
            anyhow::ensure!(clock::now() < deadline, "{} did not get ready in time", case.name);
            sleep_until(clock::now().plus_us(100_000))?;
        }
        self.child = Some(child);
        Ok(())
    }

    /// The cgroup's path below its mount.
    pub(super) fn path(&self) -> &str {
        self.group.path()
    }
}

impl Drop for Plant {
    fn drop(&mut self) {
        drop(self.child.take());
        fs::remove_file(&self.file).ok();
    }
}
