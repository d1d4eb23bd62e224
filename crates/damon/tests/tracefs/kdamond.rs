//! A kdamond of the kernel for live tests, by plain writes to its sysfs files; only in the lab's
//! VMs.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

const ADMIN: &str = "/sys/kernel/mm/damon/admin/kdamonds";

/// Whether this is a VM of the lab, whose DAMON is ours; says so if not.
pub(crate) fn in_lab(test: &str) -> bool {
    let lab = std::env::var("ISOTHERM_LAB").is_ok_and(|v| v == "1");
    if !lab {
        eprintln!(
            "skipped: writes to the kernel's DAMON, so it runs in the lab only (ISOTHERM_LAB=1): {test}"
        );
        return false;
    }
    let there = std::path::Path::new(ADMIN).exists();
    if !there {
        eprintln!("skipped: this kernel has no DAMON in sysfs (CONFIG_DAMON_SYSFS): {test}");
    }
    there
}

/// A program with memory, and kdamonds on it: switched off and removed when dropped.
pub(crate) struct Kdamonds {
    program: Child,
    n: usize,
}

/// Attributes in µs and counts.
pub(crate) struct Attrs {
    pub(crate) sample_us: u64,
    pub(crate) aggr_us: u64,
    pub(crate) min: u64,
    pub(crate) max: u64,
}

impl Kdamonds {
    /// Starts one kdamond per attributes, all of vaddr on one program.
    pub(crate) fn start(all: &[Attrs]) -> Self {
        // Debian's newest kernels run a kdamond of their own.
        std::fs::write("/sys/module/damon_stat/parameters/enabled", "N").ok();
        let program =
            Command::new("python3").args(["-c", TOUCHER]).stdout(Stdio::piped()).spawn().unwrap();
        let mut this = Self { program, n: all.len() };
        let mut ready = [0; 1];
        std::io::Read::read_exact(this.program.stdout.as_mut().unwrap(), &mut ready).unwrap();
        write("nr_kdamonds", all.len());
        for (i, attrs) in all.iter().enumerate() {
            write(&format!("{i}/contexts/nr_contexts"), 1);
            let at = |file: &str| format!("{i}/contexts/0/{file}");
            write(&at("operations"), "vaddr");
            write(&at("monitoring_attrs/intervals/sample_us"), attrs.sample_us);
            write(&at("monitoring_attrs/intervals/aggr_us"), attrs.aggr_us);
            write(&at("monitoring_attrs/nr_regions/max"), attrs.max);
            write(&at("monitoring_attrs/nr_regions/min"), attrs.min);
            write(&at("targets/nr_targets"), 1);
            write(&at("targets/0/pid_target"), this.program.id());
        }
        this
    }

    pub(crate) fn on(&self) -> Vec<u32> {
        let on = |i| {
            write(&format!("{i}/state"), "on");
            std::fs::read_to_string(path(&format!("{i}/pid"))).unwrap().trim().parse().unwrap()
        };
        (0..self.n).map(on).collect()
    }
}

impl Drop for Kdamonds {
    fn drop(&mut self) {
        for i in 0..self.n {
            std::fs::write(path(&format!("{i}/state")), "off").ok();
        }
        std::fs::write(path("nr_kdamonds"), "0").ok();
        self.program.kill().ok();
        self.program.wait().ok();
    }
}

/// 64 MiB touched once; of them 8 MiB all the time, another 8 MiB every second second, 16 MiB at
/// random.
const TOUCHER: &str = "
import mmap, random, sys, time
m = mmap.mmap(-1, 64 << 20)
for i in range(0, 64 << 20, 4096): m[i] = 1
sys.stdout.write('r'); sys.stdout.flush()
while True:
    other = (int(time.monotonic()) & 1) * (16 << 20)
    for i in range(0, 8 << 20, 4096): m[i] = m[other + i] = 1
    for i in range(300): m[(40 << 20) + random.randrange(16 << 20)] = 1
    time.sleep(0.001)
";

fn path(file: &str) -> PathBuf {
    PathBuf::from(ADMIN).join(file)
}

fn write(file: &str, value: impl ToString) {
    let value = value.to_string();
    std::fs::write(path(file), &value).unwrap_or_else(|e| panic!("write {value} to {file}: {e}"));
}
