//! Reads `/proc` cheaply enough for a monitor.
//!
//! A file is read into a buffer that the caller keeps, and the parsers borrow from it. They run
//! over byte slices, allocate nothing per line, and never panic, whatever the bytes are. [`Proc`]
//! takes its root as an argument, so tests can use a made-up `/proc`.
//!
//! Absent on purpose: a cache, watching, and the choice of processes. `isotherm-ops` follows a
//! process over time (pids are reused).

mod last_pid;
mod mapped_size;
mod maps;
mod meminfo;
mod own;
mod proc_file;
pub(crate) mod scan;
mod smaps;
mod stat;
mod status;

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use isotherm_core::AddrRange;

pub use last_pid::LastPid;
pub use mapped_size::MappedSize;
pub use maps::{Mapping, Maps, Perms, monitored_ranges, parse_maps};
pub use meminfo::meminfo_kib;
pub use own::{OwnCost, may_open, own_cost, raise_file_limit};
pub use proc_file::ProcFile;
pub use smaps::{MappingUse, Smaps, parse_smaps};
pub use stat::{Stat, TaskState, parse_stat};
pub use status::{Status, capability_name, parse_status};

/// Room for a small file, such as `stat`, in bytes.
const LEAST_ROOM: usize = 1024;

/// A `/proc`: the machine's, or a made-up one for tests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proc {
    root: PathBuf,
}

impl Default for Proc {
    fn default() -> Self {
        Self::new("/proc")
    }
}

impl Proc {
    /// The one below `root`.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// Where it is.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Whether this is the machine's own, so that pids found in it may be given to system calls.
    #[must_use]
    pub fn is_real(&self) -> bool {
        self.root == Path::new("/proc")
    }

    /// Path of a process's file.
    #[must_use]
    pub fn path_of(&self, pid: u32, file: &str) -> PathBuf {
        self.root.join(pid.to_string()).join(file)
    }

    /// Reads a process's file (`maps`, `stat`, ...) into `buf`, which is emptied first.
    ///
    /// # Errors
    ///
    /// What the kernel says; see [`is_gone`] and [`is_denied`].
    pub fn read(&self, pid: u32, file: &str, buf: &mut Vec<u8>) -> io::Result<()> {
        read_file(&self.path_of(pid, file), buf)
    }

    /// Reads a file of the system (`loadavg`, `sys/kernel/osrelease`, ...) into `buf`.
    ///
    /// # Errors
    ///
    /// What the kernel says.
    pub fn read_system(&self, file: &str, buf: &mut Vec<u8>) -> io::Result<()> {
        read_file(&self.root.join(file), buf)
    }

    /// Reads and parses `/proc/PID/stat`, using `buf`.
    ///
    /// # Errors
    ///
    /// What the kernel says; `InvalidData` if the text is not a stat line.
    pub fn stat<'b>(&self, pid: u32, buf: &'b mut Vec<u8>) -> io::Result<Stat<'b>> {
        self.read(pid, "stat", buf)?;
        parse_stat(buf).ok_or_else(|| invalid("stat"))
    }

    /// Reads and parses `/proc/PID/status`, using `buf`.
    ///
    /// # Errors
    ///
    /// What the kernel says.
    pub fn status(&self, pid: u32, buf: &mut Vec<u8>) -> io::Result<Status> {
        self.read(pid, "status", buf)?;
        Ok(parse_status(buf))
    }

    /// How much a process maps, from `statm`, using `buf`: all of it, code, and data with stacks,
    /// in pages. That costs much less than its mappings, and most changes of them change it.
    ///
    /// # Errors
    ///
    /// What the kernel says; `InvalidData` if the text is not that of a `statm` file.
    pub fn mapped_pages(&self, pid: u32, buf: &mut Vec<u8>) -> io::Result<[u64; 3]> {
        self.read(pid, "statm", buf)?;
        parse_statm(buf).ok_or_else(|| invalid("statm"))
    }

    /// Calls `f` with every pid that has a directory, in no order.
    ///
    /// # Errors
    ///
    /// If the root cannot be listed.
    pub fn for_each_pid(&self, mut f: impl FnMut(u32)) -> io::Result<()> {
        for entry in std::fs::read_dir(&self.root)? {
            if let Some(pid) = entry?.file_name().to_str().and_then(|n| n.parse().ok()) {
                f(pid);
            }
        }
        Ok(())
    }

    /// The identity of this boot, a UUID; `None` if the file is missing.
    #[must_use]
    pub fn boot_id(&self) -> Option<String> {
        let mut buf = Vec::new();
        self.read_system("sys/kernel/random/boot_id", &mut buf).ok()?;
        Some(String::from_utf8_lossy(buf.trim_ascii()).into_owned())
    }

    /// Time since boot, in hundredths of a second.
    #[must_use]
    pub fn uptime_cs(&self, buf: &mut Vec<u8>) -> Option<u64> {
        self.read_system("uptime", buf).ok()?;
        let first = buf.split(|&b| b == b' ').next()?;
        let mut parts = first.splitn(2, |&b| b == b'.');
        let secs = scan::whole_dec(parts.next()?)?;
        let cs = scan::whole_dec(parts.next()?)?;
        secs.checked_mul(100)?.checked_add(cs)
    }
}

/// The process that a thread belongs to (`Tgid`), by the thread's or the process's own number.
pub fn thread_group(proc: &Proc, pid: u32) -> Option<u32> {
    let mut buf = Vec::new();
    proc.status(pid, &mut buf).ok().map(|status| status.tgid)
}

/// Reads the mappings of a live process: fills `ranges` with what is worth monitoring
/// ([`monitored_ranges`]), using `buf` for the text. Both are emptied first.
///
/// # Errors
///
/// What the kernel says. A process without an address space (a zombie, a kernel thread) is no
/// error: `ranges` is empty.
pub fn read_monitored_ranges(
    proc: &Proc,
    pid: u32,
    buf: &mut Vec<u8>,
    ranges: &mut Vec<AddrRange>,
) -> io::Result<()> {
    ranges.clear();
    proc.read(pid, "maps", buf)?;
    monitored_ranges(parse_maps(buf), ranges);
    Ok(())
}

/// Whether the error means that the process is gone.
#[must_use]
pub fn is_gone(err: &io::Error) -> bool {
    err.kind() == io::ErrorKind::NotFound
        || err.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error())
}

/// Whether the error means that we may not look.
#[must_use]
pub fn is_denied(err: &io::Error) -> bool {
    err.kind() == io::ErrorKind::PermissionDenied
}

/// `/proc` files report a size of 0, so the size is not asked for. Reads until the end, into the
/// room there is.
fn read_file(path: &Path, buf: &mut Vec<u8>) -> io::Result<()> {
    let mut file = File::open(path)?;
    let mut len = 0;
    buf.resize(buf.capacity().clamp(LEAST_ROOM, 8 * LEAST_ROOM), 0);
    loop {
        match file.read(&mut buf[len..]) {
            Ok(0) => break,
            Ok(n) => len += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => {
                buf.clear();
                return Err(e);
            }
        }
        if len == buf.len() {
            buf.resize(2 * len, 0);
        }
    }
    buf.truncate(len);
    Ok(())
}

/// What a `statm` file says of how much is mapped: all of it, code, and data with stacks, in pages.
fn parse_statm(text: &[u8]) -> Option<[u64; 3]> {
    let mut words = text.trim_ascii_end().split(|byte| *byte == b' ');
    let [all, _, _, code, _, data] =
        std::array::from_fn(|_| words.next().and_then(scan::whole_dec));
    Some([all?, code?, data?])
}

/// What a `statm` file says of how much is resident, in pages.
fn parse_resident(text: &[u8]) -> Option<u64> {
    scan::whole_dec(text.split(|byte| *byte == b' ').nth(1)?)
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("not the text of a {what} file"))
}
