//! One Isotherm per process that is watched.
//!
//! Whoever watches a process makes its pages old. If two do, a page that was touched between the
//! arming by one and the arming by the other looks idle to the first. So a program that watches a
//! process holds an advisory lock (`flock`) on `/proc/PID/maps`.
//!
//! * The kernel lets go of the lock when its holder ends, however that comes.
//! * The file belongs to one task. A reused pid has another file, and an exec keeps it.
//! * Only who may read the process's memory can open the file, so nobody else can lock others out.
//!
//! `isotherm idle`, which looks at all processes, holds the lock only while it makes pages old,
//! some milliseconds per 16 MiB. Of processes that are claimed it says that nothing is known.
//!
//! Two parts of one program share a claim: what they make of each other is their own affair. Not
//! seen: an Isotherm that uses another mount of `/proc`, such as one in another container.

use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use isotherm_host::error::{SetError, SetKind};
use isotherm_host::proc::Proc;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

/// How often [`Claim::wait`] tries, and the time between: no multiple of a scan's rhythm.
const TRIES: u32 = 40;
const BETWEEN_TRIES: Duration = Duration::from_micros(3700);

/// The claims of this program, by the inode of their file.
static HELD: Mutex<Vec<(u64, Weak<File>)>> = Mutex::new(Vec::new());

/// The right to make the pages of one process old. Dropping it lets it go.
#[derive(Debug, Clone)]
pub struct Claim {
    /// `None` where locks do not work: then nobody can tell, and that is no reason not to watch.
    _file: Option<Arc<File>>,
}

impl Claim {
    /// Claims process `pid`, unless another program holds it.
    ///
    /// # Errors
    ///
    /// [`SetKind::Busy`], with the holder's pid if it shows.
    pub fn take(proc: &Proc, pid: u32) -> Result<Self, SetError> {
        let none = Self { _file: None };
        let Ok(file) = File::open(proc.path_of(pid, "maps")) else { return Ok(none) };
        let Ok(inode) = file.metadata().map(|facts| facts.ino()) else { return Ok(none) };
        let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
        held.retain(|(_, file)| file.strong_count() > 0);
        let own = held.iter().find(|(of, _)| *of == inode).and_then(|(_, file)| file.upgrade());
        if own.is_some() {
            return Ok(Self { _file: own });
        }
        match lock(&file) {
            Ok(()) => {
                let file = Arc::new(file);
                held.push((inode, Arc::downgrade(&file)));
                Ok(Self { _file: Some(file) })
            }
            Err(Errno::WOULDBLOCK) => Err(busy(proc, pid, inode)),
            Err(_) => Ok(none),
        }
    }

    /// As [`Claim::take`], but tries for a while (150 ms): a scan of the whole machine (`isotherm
    /// idle`) claims each process again and again, for a moment only.
    ///
    /// # Errors
    ///
    /// As [`Claim::take`].
    pub fn wait(proc: &Proc, pid: u32) -> Result<Self, SetError> {
        let mut tries = TRIES;
        loop {
            match Self::take(proc, pid) {
                Err(e) if e.kind() == SetKind::Busy && tries > 1 => tries -= 1,
                claim => return claim,
            }
            std::thread::sleep(BETWEEN_TRIES);
        }
    }

    /// Fails if another program watches process `pid` now, and not only for a moment.
    ///
    /// # Errors
    ///
    /// As [`Claim::wait`].
    pub fn check(pid: u32) -> Result<(), SetError> {
        Self::wait(&Proc::default(), pid).map(drop)
    }
}

fn lock(file: impl AsFd) -> Result<(), Errno> {
    loop {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::INTR) => {}
            done => return done,
        }
    }
}

fn busy(proc: &Proc, pid: u32, inode: u64) -> SetError {
    let mut text = Vec::new();
    let locks = proc.read_system("locks", &mut text).ok().and_then(|()| str::from_utf8(&text).ok());
    let holder = locks.and_then(|locks| holder(locks, inode));
    let who = holder.map_or("another program".to_owned(), |nr| {
        let mut comm = Vec::new();
        let named = proc.read(nr, "comm", &mut comm).is_ok();
        let name = String::from_utf8_lossy(&comm);
        if named { format!("process {nr} ({})", name.trim_end()) } else { format!("process {nr}") }
    });
    SetError::new(
        SetKind::Busy,
        format!("process {pid} is watched already"),
        format!("lock {}", proc.path_of(pid, "maps").display()),
        format!(
            "{who} watches it; both would make its pages old, and each would miss touches that the \
             other has seen"
        ),
        format!("end {}, or wait until it has ended", holder.map_or(who.as_str(), |_| "that one")),
    )
}

/// The process that holds the lock on a file, from `/proc/locks`.
fn holder(locks: &str, inode: u64) -> Option<u32> {
    locks.lines().find_map(|line| {
        // 5: FLOCK  ADVISORY  WRITE 10417 fe:00:6488842 0 EOF
        let mut words = line.split_ascii_whitespace().skip(1);
        let is_lock = words.next() == Some("FLOCK");
        let pid = words.nth(2)?.parse().ok()?;
        let of = words.next()?.rsplit(':').next()?.parse::<u64>().ok()?;
        (is_lock && of == inode && pid > 0).then_some(pid)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_holder_is_found_among_all_locks() {
        let locks = "1: POSIX  ADVISORY  WRITE 7 fe:00:55 0 EOF\n\
                     2: FLOCK  ADVISORY  READ 8 fe:00:555 0 EOF\n\
                     2: -> FLOCK  ADVISORY  WRITE 9 00:15:55 0 EOF\n\
                     3: FLOCK  ADVISORY  WRITE 0 00:15:55 0 EOF\n\
                     4: FLOCK  ADVISORY  WRITE 10 00:15:55 0 EOF\nrubbish";
        assert_eq!(holder(locks, 55), Some(10));
        assert_eq!(holder(locks, 556), None);
        assert_eq!(holder("", 55), None);
    }

    #[test]
    fn a_program_shares_its_claim_and_others_are_told_who_has_it() {
        let proc = Proc::default();
        let mut target = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let pid = target.id();
        let first = Claim::take(&proc, pid).unwrap();
        let second = Claim::take(&proc, pid).unwrap();
        // As another program would.
        let other = File::open(proc.path_of(pid, "maps")).unwrap();
        assert_eq!(lock(&other), Err(Errno::WOULDBLOCK));
        let said = busy(&proc, pid, other.metadata().unwrap().ino()).to_string();
        assert!(said.contains(&format!("process {} (", std::process::id())), "{said}");
        drop(first);
        assert_eq!(lock(&other), Err(Errno::WOULDBLOCK), "the second part still has it");
        drop(second);
        assert_eq!(lock(&other), Ok(()));
        assert_eq!(Claim::take(&proc, pid).unwrap_err().kind(), SetKind::Busy);
        drop(other);
        Claim::take(&proc, pid).unwrap();
        target.kill().unwrap();
        target.wait().unwrap();
        assert!(Claim::take(&proc, pid).is_ok(), "that it is gone is told by others");
    }
}
