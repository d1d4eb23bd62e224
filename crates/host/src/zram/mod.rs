//! Swap in compressed memory, for the duration of a test or a measurement.
//!
//! [`Zram::set_up`] makes a device of its own, swaps to it, and takes everything down again when
//! dropped, also when a test panics. All programs of a machine share its swap, so:
//!
//! * A lock file admits one holder at a time, over all processes.
//! * Setting up is refused if other swap is active, because memory could be paged out there unseen.
//! * The swap header carries a label. A holder that was killed (by SIGKILL, or by SIGINT without a
//!   handler, which is the caller's part) leaves the device behind and the lock free. The next
//!   holder finds the label, and takes the device down first. [`remove_leftover`] does only that.
//!
//! Taking down brings every swapped page back, so memory must suffice.

mod device;
mod error;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use isotherm_sys::clock;
use isotherm_sys::swap::{swap_off, swap_on};
use rustix::fs::{FlockOperation, Mode, OFlags};

use crate::proc::Proc;
use device::Device;
pub use device::ZramUse;
pub use error::{ZramError, ZramKind};

/// The lock file; held as long as a [`Zram`] lives.
pub const LOCK: &str = "/tmp/isotherm-zram.lock";

/// How long to wait for the lock: a test suite has many holders, one after the other.
const PATIENCE_S: u64 = 600;

/// An active zram swap device. Dropping it ends the swapping and removes the device.
#[derive(Debug)]
pub struct Zram {
    device: Device,
    swapping: bool,
    /// Held for its lock, let go last.
    _lock: File,
}

impl Zram {
    /// Swaps to a new zram device of `bytes` (rounded down to pages; uncompressed), at the kernel's
    /// default compression. Waits up to ten minutes for other holders.
    ///
    /// # Errors
    ///
    /// Other swap is active, no zram, no permission; nothing is left behind then.
    pub fn set_up(bytes: u64) -> Result<Self, ZramError> {
        let lock = take_lock(PATIENCE_S)?;
        remove_dead()?;
        let names: Vec<String> = active_swap()?.into_iter().map(|swap| swap.name).collect();
        if !names.is_empty() {
            return Err(error::other_swap(&names));
        }
        let device = Device::take()?;
        // From here on dropping it gives the device back.
        let mut zram = Self { device, swapping: false, _lock: lock };
        zram.device.format(bytes)?;
        let path = zram.path();
        swap_on(&path).map_err(|e| error::io(format!("swapon {}", path.display()), e))?;
        zram.swapping = true;
        Ok(zram)
    }

    /// The device.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.device.path()
    }

    /// Swap space in use, in bytes, as `/proc/swaps` says; includes slots that are only cached.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub fn swapped_bytes(&self) -> Result<u64, ZramError> {
        let path = self.path();
        let ours = active_swap()?.into_iter().find(|swap| Path::new(&swap.name) == path);
        Ok(ours.map_or(0, |swap| swap.used_bytes))
    }

    /// What it holds and what that costs.
    ///
    /// # Errors
    ///
    /// If the device's `mm_stat` cannot be read.
    pub fn usage(&self) -> Result<ZramUse, ZramError> {
        self.device.usage()
    }

    /// Ends the swapping and removes the device, and returns how that went. Dropping does the same
    /// without a report.
    ///
    /// # Errors
    ///
    /// What the kernel said: usually too little memory to bring the pages back. Dropping tries once
    /// more.
    pub fn tear_down(mut self) -> Result<(), ZramError> {
        self.end()
    }

    fn end(&mut self) -> Result<(), ZramError> {
        if self.swapping {
            end_swap(&self.path())?;
            self.swapping = false;
        }
        self.device.give_back()
    }
}

impl Drop for Zram {
    fn drop(&mut self) {
        // Nothing is left to do after tear_down. An error here cannot be reported; the next holder
        // finds the label and tries again.
        self.end().ok();
    }
}

/// While it lives, nobody sets up swap by this module.
#[derive(Debug)]
pub struct NoZram {
    _lock: File,
}

/// Keeps all programs of Isotherm from setting up swap. First waits up to ten minutes for holders,
/// and takes down what a killed one left behind. Other swap may be active.
///
/// # Errors
///
/// As for [`Zram::set_up`], without `OtherSwap`.
pub fn keep_off() -> Result<NoZram, ZramError> {
    let lock = take_lock(PATIENCE_S)?;
    match remove_dead() {
        // Where swap is not supported there is none to keep off.
        Err(e) if !e.is_missing() => Err(e),
        _ => Ok(NoZram { _lock: lock }),
    }
}

/// Takes down what a killed holder left behind, if anything. Returns whether there was something.
///
/// # Errors
///
/// As for [`Zram::set_up`], without `OtherSwap`.
pub fn remove_leftover() -> Result<bool, ZramError> {
    let _lock = take_lock(PATIENCE_S)?;
    remove_dead()
}

/// With the lock held, a labelled device has no living holder.
fn remove_dead() -> Result<bool, ZramError> {
    let mut found = false;
    for swap in active_swap()? {
        if let Some(mut device) = Device::left_behind(Path::new(&swap.name)) {
            end_swap(&device.path())?;
            device.give_back()?;
            found = true;
        }
    }
    Ok(found)
}

fn end_swap(path: &Path) -> Result<(), ZramError> {
    loop {
        match swap_off(path) {
            Ok(()) => return Ok(()),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            // Somebody else has ended it, which is what is wanted.
            Err(e) if e.raw_os_error() == Some(libc::EINVAL) => return Ok(()),
            Err(e) => return Err(error::io(format!("swapoff {}", path.display()), e)),
        }
    }
}

/// The lock belongs to the open file: threads of one process exclude each other as well.
fn take_lock(patience_s: u64) -> Result<File, ZramError> {
    let flags = OFlags::CREATE | OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let file = rustix::fs::open(LOCK, flags, Mode::RUSR | Mode::WUSR);
    let file = File::from(file.map_err(|e| error::io(format!("open {LOCK}"), e.into()))?);
    let until = clock::now().plus_us(patience_s * 1_000_000);
    loop {
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(file),
            Err(rustix::io::Errno::INTR) => {}
            Err(rustix::io::Errno::WOULDBLOCK) if clock::now() < until => {
                std::thread::sleep(Duration::from_millis(50));
            }
            Err(rustix::io::Errno::WOULDBLOCK) => {
                return Err(error::locked(patience_s));
            }
            Err(e) => return Err(error::io(format!("lock {LOCK}"), e.into())),
        }
    }
}

/// One line of `/proc/swaps`.
#[derive(Debug, PartialEq, Eq)]
struct ActiveSwap {
    name: String,
    used_bytes: u64,
}

fn active_swap() -> Result<Vec<ActiveSwap>, ZramError> {
    let mut text = Vec::new();
    match Proc::default().read_system("swaps", &mut text) {
        Ok(()) => Ok(parse_swaps(&String::from_utf8_lossy(&text))),
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            Err(error::not_supported("read /proc/swaps", e))
        }
        Err(e) => Err(error::io("read /proc/swaps", e)),
    }
}

/// Columns `Filename Type Size Used Priority`; spaces in a name are written as `\040`.
fn parse_swaps(text: &str) -> Vec<ActiveSwap> {
    let lines = text.lines().skip(1).filter(|line| !line.trim().is_empty());
    let parse = |line: &str| {
        let mut words = line.split_whitespace();
        let name = words.next().unwrap_or_default().to_owned();
        let used_kib: u64 = words.nth(2).and_then(|used| used.parse().ok()).unwrap_or(0);
        ActiveSwap { name, used_bytes: used_kib.saturating_mul(1024) }
    };
    lines.map(parse).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn active_swap_is_read_line_by_line() {
        let header = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n";
        assert_eq!(parse_swaps(header), []);
        let text = format!(
            "{header}/dev/zram0      partition\t1048572\t\t512\t\t-2\n/swap\\040file file 8 0 5\n"
        );
        let swap = |name: &str, used_bytes| ActiveSwap { name: name.to_owned(), used_bytes };
        assert_eq!(parse_swaps(&text), [swap("/dev/zram0", 512 << 10), swap("/swap\\040file", 0)]);
    }
}
