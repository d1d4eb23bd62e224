//! What `support` says about made-up machines.
#![expect(clippy::unwrap_used, reason = "helper functions of tests")]

use std::fs;

use isotherm_host::proc::Proc;
use isotherm_host::{Machine, Roots};
use isotherm_ops::support::{SetName, Support, detect};

/// A machine made of files: `/proc` and `/sys` below a directory.
struct Fake(tempfile::TempDir);

impl Fake {
    fn new(kernel: &str, cap_eff: u64) -> Self {
        let fake = Self(tempfile::tempdir().unwrap());
        let own = std::process::id();
        fake.put("proc/sys/kernel/osrelease", &format!("{kernel}\n"));
        fake.put("proc/sys/kernel/hostname", "box\n");
        fake.put("proc/meminfo", "MemTotal:     2048 kB\nSwapTotal:     4 kB\n");
        fake.put("proc/cpuinfo", "processor : 0\nflags : fpu la57\n");
        fake.put(
            &format!("proc/{own}/status"),
            &format!("Uid:\t7\t8\t9\t9\nCapEff:\t{cap_eff:x}\n"),
        );
        fake
    }

    fn put(&self, path: &str, text: &str) {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn roots(&self) -> Roots {
        Roots { proc: Proc::new(self.0.path().join("proc")), sys: self.0.path().join("sys") }
    }

    fn detect(&self, set: SetName) -> Support {
        let machine = Machine { arch: "x86_64".into(), ..Machine::read(&self.roots()) };
        detect(set, &machine, &self.roots())
    }
}

const ALL_CAPS: u64 = (1 << 41) - 1;

/// `yes`, `unknown`, `no: why`, or `denied: why`.
fn said(support: &Support) -> String {
    match support {
        Support::Yes => "yes".into(),
        Support::Unknown { .. } => "unknown".into(),
        Support::No { why, denied: true, fix, .. } => {
            assert!(!fix.is_empty());
            format!("denied: {why}")
        }
        Support::No { why, since, .. } => {
            format!("no: {why} [{}]", since.as_deref().unwrap_or("-"))
        }
    }
}

#[test]
fn machine_facts() {
    let fake = Fake::new("6.1.0-56-cloud-amd64", 1 << 39);
    fake.put("sys/kernel/security/lockdown", "none [integrity] confidentiality\n");
    fake.put("sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]\n");
    fake.put("sys/kernel/btf/vmlinux", "");
    let machine = Machine::read(&fake.roots());
    assert_eq!(machine.kernel, "6.1.0-56-cloud-amd64");
    assert_eq!(machine.kernel_version(), Some((6, 1)));
    assert_eq!(machine.host.as_deref(), Some("box"));
    assert_eq!((machine.memory_bytes, machine.swap_bytes), (2 << 20, 4096));
    assert_eq!((machine.uid, machine.paging_levels), (8, Some(5)));
    assert_eq!(machine.capabilities, ["CAP_BPF"]);
    assert_eq!(machine.lockdown.as_deref(), Some("integrity"));
    assert_eq!(machine.thp.as_deref(), Some("never"));
    assert!(machine.btf);
}

#[test]
fn an_empty_machine_is_no_reason_to_fail() {
    let dir = tempfile::tempdir().unwrap();
    let roots = Roots { proc: Proc::new(dir.path()), sys: dir.path().into() };
    let machine = Machine::read(&roots);
    assert_eq!((machine.kernel.as_str(), machine.btf, &machine.lockdown), ("", false, &None));
    for set in SetName::ALL {
        assert!(!detect(set, &machine, &roots).is_yes(), "{set:?}");
    }
}

#[test]
fn what_each_set_needs() {
    type Files = &'static [(&'static str, &'static str)];
    let btf: Files = &[("sys/kernel/btf/vmlinux", "")];
    let locked: Files = &[
        ("sys/kernel/btf/vmlinux", ""),
        ("sys/kernel/security/lockdown", "none integrity [confidentiality]"),
    ];
    let idle: Files = &[("sys/kernel/mm/page_idle/bitmap", "")];
    let damon: Files = &[("sys/kernel/mm/damon/admin/kdamonds/nr_kdamonds", "0")];
    for (set, kernel, caps, files, expected) in [
        (SetName::PageWalk, "6.1.0", ALL_CAPS, btf, "unknown"),
        (SetName::PageWalk, "6.1.0", ALL_CAPS, &[], "no: the kernel does not describe its types"),
        (SetName::PageWalk, "6.1.0", ALL_CAPS, locked, "no: kernel lockdown (confidentiality)"),
        (SetName::Idle, "6.1.0", ALL_CAPS, idle, "yes"),
        (SetName::Idle, "6.1.0", 0, idle, "denied: CAP_SYS_ADMIN"),
        (SetName::Idle, "6.1.0", ALL_CAPS, &[], "no: this kernel was built without"),
        (SetName::Kdamond, "6.1.0", ALL_CAPS, damon, "unknown"),
        (SetName::Kdamond, "6.1.0", 0, damon, "denied: CAP_DAC_OVERRIDE"),
        (SetName::Kdamond, "6.1.0", ALL_CAPS, &[], "no: this kernel was built without"),
        (SetName::Written, "6.1.0", ALL_CAPS, &[], "no: the kernel has no PAGEMAP_SCAN [6.7]"),
        (SetName::Written, "6.12.1", ALL_CAPS, &[], "yes"),
        (SetName::Written, "6.12.1", 0, &[], "denied: CAP_SYS_PTRACE"),
        (SetName::Written, "strange", ALL_CAPS, &[], "unknown"),
        (SetName::Smaps, "6.1.0", 0, &[], "no: 6.1.0 has no file clear_refs"),
    ] {
        let fake = Fake::new(kernel, caps);
        for (path, text) in files {
            fake.put(path, text);
        }
        let said = said(&fake.detect(set));
        assert!(said.starts_with(expected), "{set:?} on {kernel}: {said}");
    }
    let fake = Fake::new("6.1.0", 0);
    fake.put(&format!("proc/{}/clear_refs", std::process::id()), "");
    assert_eq!(fake.detect(SetName::Smaps), Support::Yes);
}

#[test]
fn names() {
    for set in SetName::ALL {
        assert_eq!(SetName::parse(set.name()), Some(set));
    }
    assert_eq!(SetName::parse("damon"), None);
}
