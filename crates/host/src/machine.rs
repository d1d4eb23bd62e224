//! Facts about a machine that explain why something works or not.

use std::fs;
use std::path::Path;

use isotherm_core::addr::PAGE_SIZE;
use serde::Serialize;

use super::Roots;
use crate::proc::{Proc, capability_name, meminfo_kib};

/// Facts about a machine. What cannot be read is `None`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Machine {
    /// The host's name.
    pub host: Option<String>,
    /// Identity of this boot, a UUID.
    pub boot_id: Option<String>,
    /// Kernel release, as `uname -r`.
    pub kernel: String,
    /// Architecture that this program was built for.
    pub arch: String,
    /// CPUs that are online.
    pub cpus: u64,
    /// Memory, in bytes.
    pub memory_bytes: u64,
    /// Size of a small page, in bytes.
    pub page_bytes: u64,
    /// Levels of the page tables.
    pub paging_levels: Option<u8>,
    /// Effective user ID.
    pub uid: u32,
    /// Effective capabilities, by name.
    pub capabilities: Vec<String>,
    /// Kernel lockdown: `none`, `integrity` or `confidentiality`.
    pub lockdown: Option<String>,
    /// Transparent huge pages: `always`, `madvise` or `never`.
    pub thp: Option<String>,
    /// Swap space, in bytes.
    pub swap_bytes: u64,
    /// Whether the kernel describes its types (BTF).
    pub btf: bool,
    /// Who else clears accessed bits here, as far as it shows: the kernel's DAMON, the ageing of
    /// MGLRU, other instances of Isotherm. `isotherm doctor` adds who holds a file open that clears
    /// them, see [`clearing`](crate::clearing). Reclaim does so as well, whenever memory is short.
    pub clearers: Vec<String>,
}

impl Machine {
    /// Reads the facts.
    #[must_use]
    pub fn read(roots: &Roots) -> Self {
        let mut buf = Vec::new();
        let status = roots.proc.status(std::process::id(), &mut buf).unwrap_or_default();
        let meminfo = text(&roots.proc.root().join("meminfo"));
        let bytes_of = |field| meminfo_kib(&meminfo, field).unwrap_or(0).saturating_mul(1024);
        let cpuinfo = text(&roots.proc.root().join("cpuinfo"));
        let page = rustix::param::page_size();
        let host = text(&roots.proc.root().join("sys/kernel/hostname")).trim().to_owned();
        Self {
            host: (!host.is_empty()).then_some(host),
            boot_id: roots.proc.boot_id(),
            kernel: text(&roots.proc.root().join("sys/kernel/osrelease")).trim().to_owned(),
            arch: std::env::consts::ARCH.to_owned(),
            cpus: std::thread::available_parallelism().map_or(1, |n| n.get() as u64),
            memory_bytes: bytes_of("MemTotal:"),
            page_bytes: page as u64,
            paging_levels: paging_levels(&cpuinfo),
            uid: status.euid,
            capabilities: capability_names(status.cap_eff),
            lockdown: chosen(&roots.sys.join("kernel/security/lockdown")),
            thp: chosen(&roots.sys.join("kernel/mm/transparent_hugepage/enabled")),
            swap_bytes: bytes_of("SwapTotal:"),
            btf: roots.sys.join("kernel/btf/vmlinux").exists(),
            clearers: clearers(roots),
        }
    }

    /// Whether this process has a capability, such as `CAP_BPF`.
    #[must_use]
    pub fn has_capability(&self, name: &str) -> bool {
        self.capabilities.iter().any(|c| c == name)
    }

    /// The kernel's major and minor version.
    #[must_use]
    pub fn kernel_version(&self) -> Option<(u32, u32)> {
        let mut parts = self.kernel.split(|c: char| !c.is_ascii_digit());
        Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
    }
}

/// The end of the memory that programs can have here. Page tables of five levels reach further than
/// those of four, though a program gets such memory only if it asks for it.
#[must_use]
pub fn user_end(proc: &Proc) -> u64 {
    match paging_levels(&text(&proc.root().join("cpuinfo"))) {
        Some(5) => (1 << 56) - PAGE_SIZE,
        _ => (1 << 47) - PAGE_SIZE,
    }
}

fn text(path: &Path) -> String {
    fs::read(path).map(|b| String::from_utf8_lossy(&b).into_owned()).unwrap_or_default()
}

/// The value in brackets of a file such as `always [madvise] never`.
fn chosen(path: &Path) -> Option<String> {
    let text = text(path);
    let (_, rest) = text.split_once('[')?;
    rest.split_once(']').map(|(value, _)| value.to_owned())
}

/// Who else clears accessed bits.
fn clearers(roots: &Roots) -> Vec<String> {
    let (mut kdamonds, mut others) = (Vec::new(), Vec::new());
    let listed = roots.proc.for_each_pid(|pid| {
        let name = text(&roots.proc.path_of(pid, "comm"));
        match name.trim_end() {
            name if name.starts_with("kdamond.") => kdamonds.push(name.to_owned()),
            "isotherm" if pid != std::process::id() => others.push(pid),
            _ => {}
        }
    });
    if listed.is_err() {
        return Vec::new();
    }
    kdamonds.sort_unstable();
    others.sort_unstable();
    let kdamonds = kdamonds.iter().map(|name| format!("{name} (the kernel's DAMON)"));
    let others = others.iter().map(|pid| format!("isotherm (process {pid})"));
    let mut found: Vec<_> = kdamonds.chain(others).collect();
    // Bit 0 says whether it is on at all.
    let mglru = text(&roots.sys.join("kernel/mm/lru_gen/enabled"));
    let mglru = u32::from_str_radix(mglru.trim().trim_start_matches("0x"), 16).unwrap_or(0);
    if mglru & 1 == 1 {
        found.push("ageing of MGLRU".to_owned());
    }
    found
}

/// The kernel takes the flag away if it does not use the fifth level.
fn paging_levels(cpuinfo: &str) -> Option<u8> {
    let flags = cpuinfo.lines().find_map(|line| line.strip_prefix("flags"))?;
    Some(if flags.split_whitespace().any(|f| f == "la57") { 5 } else { 4 })
}

fn capability_names(bits: u64) -> Vec<String> {
    (0..u64::BITS)
        .filter(|nr| bits >> nr & 1 != 0)
        .map(|nr| capability_name(nr).map_or_else(|| format!("CAP_{nr}"), str::to_owned))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_parsers() {
        assert_eq!(paging_levels("processor: 0\nflags\t\t: fpu la57 vme\n"), Some(5));
        assert_eq!(paging_levels("processor: 0\nflags\t\t: fpu la570\n"), Some(4));
        assert_eq!(paging_levels("processor: 0\n"), None);
        assert_eq!(capability_names(1 | 1 << 39 | 1 << 60), ["CAP_CHOWN", "CAP_BPF", "CAP_60"]);
    }

    #[test]
    fn programs_end_where_the_page_tables_do() {
        let dir = tempfile::tempdir().unwrap();
        let proc = Proc::new(dir.path());
        assert_eq!(user_end(&proc), 0x7fff_ffff_f000, "nothing can be read");
        fs::write(dir.path().join("cpuinfo"), "flags : fpu la57\n").unwrap();
        assert_eq!(user_end(&proc), 0xff_ffff_ffff_f000);
    }

    #[test]
    fn others_who_clear_accessed_bits() {
        let dir = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let sys = dir.path().join("sys");
        let roots = Roots { proc: Proc::new(dir.path().join("proc")), sys };
        assert!(clearers(&roots).is_empty(), "nothing can be read");
        for (pid, comm) in [(7, "kdamond.0"), (8, "bash"), (9, "isotherm"), (10, "isotherm-eval")] {
            write(&format!("proc/{pid}/comm"), &format!("{comm}\n"));
        }
        write("sys/kernel/mm/lru_gen/enabled", "0x0007\n");
        let found = ["kdamond.0 (the kernel's DAMON)", "isotherm (process 9)", "ageing of MGLRU"];
        assert_eq!(clearers(&roots), found);
        write("sys/kernel/mm/lru_gen/enabled", "0x0000\n");
        assert_eq!(clearers(&roots), found[..2]);
    }

    #[test]
    fn versions() {
        for (kernel, version) in [
            ("6.18.44-fc", Some((6, 18))),
            ("6.1.0-56-cloud-amd64", Some((6, 1))),
            ("7.2", Some((7, 2))),
            ("7", None),
            ("", None),
        ] {
            let machine = Machine { kernel: kernel.to_owned(), ..Machine::default() };
            assert_eq!(machine.kernel_version(), version, "{kernel}");
        }
    }
}
