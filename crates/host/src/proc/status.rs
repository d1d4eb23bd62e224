//! `/proc/PID/status`: owner, capabilities, resident memory.

use super::scan::{line, split, whole_dec, whole_hex, word};

/// The fields of a status file that Isotherm uses. A field that is missing stays 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Status {
    /// Process ID: the same for all threads of a process.
    pub tgid: u32,
    /// Effective user ID.
    pub euid: u32,
    /// Effective capabilities, one bit each.
    pub cap_eff: u64,
    /// Resident memory, in bytes. 0 for a process without address space.
    pub rss_bytes: u64,
    /// Memory in swap, in bytes.
    pub swap_bytes: u64,
}

/// Parses the text of a `status` file.
#[must_use]
pub fn parse_status(text: &[u8]) -> Status {
    let mut status = Status::default();
    let mut rest = text;
    while let Some(text) = line(&mut rest) {
        let Some((key, mut value)) = split(text, b':') else { continue };
        match key {
            b"Uid" => {
                let euid = word(&mut value).and_then(|_real| word(&mut value)).and_then(whole_dec);
                status.euid = euid.and_then(|n| u32::try_from(n).ok()).unwrap_or(0);
            }
            b"Tgid" => {
                let tgid = word(&mut value).and_then(whole_dec);
                status.tgid = tgid.and_then(|n| u32::try_from(n).ok()).unwrap_or(0);
            }
            b"CapEff" => status.cap_eff = whole_hex(value.trim_ascii()).unwrap_or(0),
            b"VmRSS" => status.rss_bytes = kib(value),
            b"VmSwap" => status.swap_bytes = kib(value),
            _ => {}
        }
    }
    status
}

/// `   1752 kB` in bytes; 0 if it does not read so.
pub(super) fn kib(mut value: &[u8]) -> u64 {
    word(&mut value).and_then(whole_dec).map_or(0, |n| n.saturating_mul(1024))
}

/// Names of the capabilities by number (include/uapi/linux/capability.h), up to Linux 7.2.
const CAPABILITIES: [&str; 41] = [
    "CAP_CHOWN",
    "CAP_DAC_OVERRIDE",
    "CAP_DAC_READ_SEARCH",
    "CAP_FOWNER",
    "CAP_FSETID",
    "CAP_KILL",
    "CAP_SETGID",
    "CAP_SETUID",
    "CAP_SETPCAP",
    "CAP_LINUX_IMMUTABLE",
    "CAP_NET_BIND_SERVICE",
    "CAP_NET_BROADCAST",
    "CAP_NET_ADMIN",
    "CAP_NET_RAW",
    "CAP_IPC_LOCK",
    "CAP_IPC_OWNER",
    "CAP_SYS_MODULE",
    "CAP_SYS_RAWIO",
    "CAP_SYS_CHROOT",
    "CAP_SYS_PTRACE",
    "CAP_SYS_PACCT",
    "CAP_SYS_ADMIN",
    "CAP_SYS_BOOT",
    "CAP_SYS_NICE",
    "CAP_SYS_RESOURCE",
    "CAP_SYS_TIME",
    "CAP_SYS_TTY_CONFIG",
    "CAP_MKNOD",
    "CAP_LEASE",
    "CAP_AUDIT_WRITE",
    "CAP_AUDIT_CONTROL",
    "CAP_SETFCAP",
    "CAP_MAC_OVERRIDE",
    "CAP_MAC_ADMIN",
    "CAP_SYSLOG",
    "CAP_WAKE_ALARM",
    "CAP_BLOCK_SUSPEND",
    "CAP_AUDIT_READ",
    "CAP_PERFMON",
    "CAP_BPF",
    "CAP_CHECKPOINT_RESTORE",
];

/// The name of capability number `nr`; `None` for one that is newer than this table.
#[must_use]
pub fn capability_name(nr: u32) -> Option<&'static str> {
    CAPABILITIES.get(usize::try_from(nr).ok()?).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_fields() {
        let text = b"Name:\ta: b\nTgid:\t7\nUid:\t1000\t1001\t1002\t1003\nVmRSS:\t    1752 kB\nVmSwap:\t 4 kB\n\
            CapInh:\t0000000000000001\nCapEff:\t000001fffeffffff\n";
        assert_eq!(
            parse_status(text),
            Status {
                tgid: 7,
                euid: 1001,
                cap_eff: 0x1ff_feff_ffff,
                rss_bytes: 1752 * 1024,
                swap_bytes: 4096
            }
        );
        assert_eq!(parse_status(b"no colon here\nVmRSS:\nUid:\t1\n"), Status::default());
    }

    #[test]
    fn capability_names() {
        for (nr, name) in [
            (0, Some("CAP_CHOWN")),
            (19, Some("CAP_SYS_PTRACE")),
            (23, Some("CAP_SYS_NICE")),
            (38, Some("CAP_PERFMON")),
            (39, Some("CAP_BPF")),
            (41, None),
        ] {
            assert_eq!(capability_name(nr), name);
        }
    }
}
