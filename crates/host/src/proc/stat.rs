//! `/proc/PID/stat`: the identity of a process, and what it has used.
//!
//! The second field is the command's name in parentheses. The name may itself hold spaces and
//! parentheses, so the fields are counted from the **last** closing one.

use super::scan::{whole_dec, word};

/// Scheduling state, as far as a monitor cares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskState {
    /// Running, sleeping, stopped: it has an address space.
    Alive,
    /// It has exited and nobody has asked for its exit status yet.
    Zombie,
    /// It is being taken away.
    Dead,
}

/// The fields of a stat line that Isotherm uses; borrows the name from the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat<'t> {
    /// Process ID.
    pub pid: u32,
    /// The command's name: at most 15 bytes, any bytes.
    pub comm: &'t [u8],
    /// Whether it lives or has ended.
    pub state: TaskState,
    /// The parent's process ID; 0 for none that we can see.
    pub ppid: u32,
    /// Whether it is a thread of the kernel (`PF_KTHREAD`).
    pub is_kthread: bool,
    /// Whether its first thread is on its way out (`PF_EXITING`): the address space may be gone
    /// already.
    pub is_exiting: bool,
    /// User time of all threads, in clock ticks.
    pub utime: u64,
    /// System time of all threads, in clock ticks.
    pub stime: u64,
    /// Number of threads.
    pub num_threads: u64,
    /// Start, in clock ticks after boot. With the pid, this is the process's identity.
    pub starttime: u64,
    /// Resident pages.
    pub rss_pages: u64,
    /// Addresses that every exec draws anew: start and end of the code, and start of the stack.
    /// They are zeros or ones if we may not see them.
    pub image: [u64; 3],
    /// The CPU it ran on last; `None` if the kernel does not tell.
    pub processor: Option<u32>,
}

/// `PF_EXITING` of include/linux/sched.h.
const PF_EXITING: u64 = 0x4;
/// `PF_KTHREAD` of include/linux/sched.h.
const PF_KTHREAD: u64 = 0x0020_0000;

/// Parses the text of a `stat` file; `None` if it is none.
#[must_use]
pub fn parse_stat(text: &[u8]) -> Option<Stat<'_>> {
    let open = text.iter().position(|&b| b == b'(')?;
    let close = text.iter().rposition(|&b| b == b')')?;
    let pid = u32::try_from(whole_dec(text.get(..open)?.trim_ascii())?).ok()?;
    let comm = text.get(open + 1..close)?;
    // Numbered as proc_pid_stat(5) numbers them: the state is field 3.
    let mut rest = text.get(close + 1..)?.trim_ascii_end();
    let mut fields = [&[][..]; 40];
    let mut nr = 3;
    while let Some(field) = word(&mut rest) {
        let Some(slot) = fields.get_mut(nr) else { break };
        *slot = field;
        nr += 1;
    }
    let number = |i: usize| fields.get(i).and_then(|f| whole_dec(f));
    let state = match *fields.get(3)? {
        b"Z" => TaskState::Zombie,
        b"X" | b"x" => TaskState::Dead,
        [_] => TaskState::Alive,
        _ => return None,
    };
    Some(Stat {
        pid,
        comm,
        state,
        ppid: u32::try_from(number(4)?).ok()?,
        is_kthread: number(9)? & PF_KTHREAD != 0,
        is_exiting: number(9)? & PF_EXITING != 0,
        utime: number(14)?,
        stime: number(15)?,
        num_threads: number(20)?,
        starttime: number(22)?,
        rss_pages: number(24).unwrap_or(0),
        image: [26, 27, 28].map(|i| number(i).unwrap_or(0)),
        processor: number(39).and_then(|n| u32::try_from(n).ok()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(comm: &str, state: &str) -> String {
        format!(
            "4814 ({comm}) {state} 4801 4801 3068 0 -1 4194304 99 0 0 0 7 3 0 0 20 0 2 0 83471 \
             3133440 405 18446744073709551615 93948952563712 93948952583593 140723892088176 0 0 0 0 \
             0 0 0 0 0 17 1 0 0 0 0 0 93948952599600 93948952601216 93950008967168 140723892091578\n"
        )
    }

    #[test]
    fn reads_all_fields() {
        let text = text("cat", "R");
        let stat = parse_stat(text.as_bytes()).unwrap();
        assert_eq!(
            stat,
            Stat {
                pid: 4814,
                comm: b"cat",
                state: TaskState::Alive,
                ppid: 4801,
                is_kthread: false,
                is_exiting: false,
                utime: 7,
                stime: 3,
                num_threads: 2,
                starttime: 83471,
                rss_pages: 405,
                image: [93_948_952_563_712, 93_948_952_583_593, 140_723_892_088_176],
                processor: Some(1),
            }
        );
    }

    #[test]
    fn names_with_everything_in_them() {
        for comm in ["a b", "(sd-pam)", "x) R 1 1", "", ")", "((", "tab\there", "line\nfeed"] {
            let text = text(comm, "S");
            let stat = parse_stat(text.as_bytes()).unwrap();
            assert_eq!(stat.comm, comm.as_bytes());
            assert_eq!(stat.ppid, 4801, "{comm}");
            assert_eq!(stat.starttime, 83471, "{comm}");
        }
    }

    #[test]
    fn states() {
        for (letter, state) in [
            ("R", TaskState::Alive),
            ("D", TaskState::Alive),
            ("t", TaskState::Alive),
            ("I", TaskState::Alive),
            ("Z", TaskState::Zombie),
            ("X", TaskState::Dead),
        ] {
            assert_eq!(parse_stat(text("c", letter).as_bytes()).unwrap().state, state);
        }
        let kthread = text("kswapd0", "S").replace("4194304", "2129984");
        assert!(parse_stat(kthread.as_bytes()).unwrap().is_kthread);
    }

    #[test]
    fn refuses_what_is_no_stat_line() {
        for text in ["", "1", "1 (", "1 ()", ") (", "1 (a) R", "x (a) R 1 1 1 1", "1 (a) RR 1"] {
            assert_eq!(parse_stat(text.as_bytes()), None, "{text}");
        }
    }
}
