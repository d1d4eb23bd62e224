//! What the tests share: the kernel, targets to monitor, and another program's kdamond.

use std::hint::black_box;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command as Process, Stdio};
use std::time::{Duration, Instant};

use isotherm_core::AddrRange;
use isotherm_core::scheme::{Bounds, Resolved};
use isotherm_damon::model::{Config, Context, Scheme, Target};
use isotherm_damon::{Claim, Command, DamonError, Features, Root, Settings};
use isotherm_host::Version;

pub(crate) struct World {
    pub(crate) root: Root,
    pub(crate) settings: Settings,
    _dir: tempfile::TempDir,
}

impl World {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let settings = Settings { run_dir: dir.path().join("run"), spare: 2, take_idle: false };
        // Debian's newest kernels have it on.
        std::fs::write("/sys/module/damon_stat/parameters/enabled", "N").ok();
        Self { root: Root::default(), settings, _dir: dir }
    }

    pub(crate) fn claim(&self, config: &Config) -> Result<Claim, DamonError> {
        Claim::set_up(&self.root, config, &self.settings)
    }

    /// A claim that runs.
    pub(crate) fn running(&self, config: &Config) -> Claim {
        let mut claim = self.claim(config).unwrap();
        claim.on().unwrap();
        claim
    }

    /// What the kernel has, seen in a directory with one of everything that is old.
    pub(crate) fn features(&self) -> Features {
        let claim = self.claim(&watch(&[1])).unwrap();
        let mut features = Features::detect(&self.root);
        features.look_at(&self.root, claim.kdamond().index());
        features
    }

    /// Waits for an effective quota of a running claim. Kernels without the fix of the first quota
    /// window (6.18, and stable ones) begin it at `jiffies` 0, five minutes after boot: there
    /// nothing is limited until then.
    pub(crate) fn quota_comes(&self, claim: &Claim, done: impl Fn(u64) -> bool) -> bool {
        let end = Instant::now() + Duration::from_secs(30);
        loop {
            claim.kdamond().command(Command::UpdateEffectiveQuotas).unwrap();
            let esz = claim.kdamond().effective_bytes(0).unwrap().unwrap();
            if done(esz) {
                return true;
            }
            if Instant::now() > end {
                let release = self.root.release();
                let version = Version::parse(&release).unwrap();
                assert!(version < Version::new(6, 18), "the effective quota stays at {esz}");
                println!("  the effective quota stays at {esz} on {release}");
                return false;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Writes as another program does.
    pub(crate) fn echo(&self, value: &str, file: &str) {
        let path = self.root.kdamonds().join(file);
        let end = Instant::now() + Duration::from_secs(20);
        loop {
            match std::fs::write(&path, value) {
                Err(err) if err.raw_os_error() == Some(libc::EBUSY) && Instant::now() < end => {
                    std::thread::sleep(Duration::from_millis(20));
                }
                done => {
                    return done.unwrap_or_else(|err| panic!("{} {value}: {err}", path.display()));
                }
            }
        }
    }

    pub(crate) fn cat(&self, file: &str) -> String {
        self.root.read(&self.root.kdamonds().join(file)).unwrap()
    }

    /// All files of a kdamond with their text, apart from those that the worker changes.
    pub(crate) fn dump(&self, index: u32) -> Vec<(String, String)> {
        let mut files = Vec::new();
        let mut dirs = vec![self.root.kdamond(index)];
        while let Some(dir) = dirs.pop() {
            for entry in std::fs::read_dir(dir).unwrap() {
                let path = entry.unwrap().path();
                let name = path.display().to_string();
                if path.is_dir() {
                    dirs.push(path);
                } else if !name.contains("/tried_regions/") && !name.contains("/stats/") {
                    files.push((name, self.root.read(&path).unwrap()));
                }
            }
        }
        files.sort();
        files
    }
}

/// Processes to monitor, and a scheme that only counts.
pub(crate) fn watch(pids: &[u32]) -> Config {
    let pattern = Resolved {
        sz: Bounds::new(0, u64::MAX),
        nr_accesses: Bounds::new(0, u32::MAX),
        age: Bounds::new(0, u32::MAX),
    };
    let target = |&pid: &u32| Target { pid: i32::try_from(pid).unwrap(), ..Target::default() };
    let context = Context {
        targets: pids.iter().map(target).collect(),
        schemes: vec![Scheme { pattern, ..Scheme::default() }],
        ..Context::default()
    };
    Config { refresh_ms: 0, context }
}

/// Waits for something, for up to two minutes: an emulated machine is slow.
pub(crate) fn wait_for(what: &str, mut done: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(120);
    while !done() {
        assert!(Instant::now() < end, "waited for: {what}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// A process of this program in another role; killed at the end.
pub(crate) struct Role {
    pub(crate) child: Child,
    /// The first line that it said.
    pub(crate) said: String,
}

impl Role {
    pub(crate) fn start(role: &str) -> Self {
        let mut child = Process::new(std::env::current_exe().unwrap())
            .env("DAMON_TEST_ROLE", role)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut said).unwrap();
        Self { child, said: said.trim().into() }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The range that a toucher touches.
    pub(crate) fn range(&self) -> AddrRange {
        let (start, end) = self.said.split_once(' ').unwrap();
        AddrRange::new(start.parse().unwrap(), end.parse().unwrap())
    }
}

impl Drop for Role {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// What a child process does.
pub(crate) fn play(role: &str) {
    let say = |text: String| {
        println!("{text}");
        std::io::stdout().flush().unwrap();
    };
    let mut words = role.split(' ');
    match words.next() {
        // Touches 64 MiB all the time, and gives way, so that its accessed bits are not hidden by
        // the TLB.
        Some("touch") => {
            let mut memory = vec![1u8; 64 << 20];
            let start = memory.as_ptr() as usize;
            say(format!("{start} {}", start + memory.len()));
            loop {
                for page in memory.chunks_mut(4096) {
                    page[0] = black_box(page[0].wrapping_add(1));
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        // Claims a kdamond over another process, and waits to be killed.
        Some("claim") => {
            let run_dir = words.next().unwrap().into();
            let pid: u32 = words.next().unwrap().parse().unwrap();
            let settings = Settings { run_dir, spare: 2, take_idle: false };
            let mut config = watch(&[pid]);
            let mut pageout = config.context.schemes[0].clone();
            pageout.action = isotherm_core::scheme::Action::Pageout;
            pageout.pattern.nr_accesses = Bounds::new(0, 0);
            pageout.pattern.age.min = 100_000;
            config.context.schemes.push(pageout);
            let mut claim = Claim::set_up(&Root::default(), &config, &settings).unwrap();
            let worker = claim.on().unwrap();
            say(format!("{} {worker}", claim.kdamond().index()));
            loop {
                // Always in the middle of a change.
                config.context.nr_regions.max = 500 + (config.context.nr_regions.max + 1) % 500;
                claim.commit(&config).unwrap();
            }
        }
        _ => panic!("role {role}"),
    }
}
