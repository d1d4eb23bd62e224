//! Reclaims from the cgroups that processes are in, each within its ration.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use isotherm_core::Time;
use isotherm_host::metrics::Cgroups;
use isotherm_host::proc::Proc;

use super::guard::{cgroup_of, check};
use super::room::room;
use super::toll::{Costs, Ration, Toll};
use super::{Cgroup, Reclaimed};
use crate::error::{self, ActError, ActKind};

/// Rations of cgroups that were not asked for so long are forgotten, in ns.
const FORGET_NS: u64 = 600_000_000_000;
/// So many are kept before that is done.
const MANY: usize = 1024;

/// The cgroups that were asked to reclaim, and what each may give.
#[derive(Debug, Default)]
pub(crate) struct OwnCgroups {
    proc: Proc,
    rations: BTreeMap<PathBuf, Ration>,
}

/// Where something may be taken, and how much.
#[derive(Debug)]
pub(crate) struct Allowed {
    group: Cgroup,
    /// No more than this, in bytes.
    pub(crate) bytes: u64,
}

impl OwnCgroups {
    /// Finds the cgroup of a process (`from` is none) or at a path, and how much of `cold` bytes
    /// may be asked for there: what keeps the promises of `memory.low` and `memory.min`, and within
    /// the toll.
    ///
    /// # Errors
    ///
    /// There is no such cgroup, it cannot reclaim, or it has to be left alone.
    pub(crate) fn allow(
        &mut self,
        pid: u32,
        from: Option<&str>,
        cold: u64,
        toll: Toll,
        now: Time,
    ) -> Result<Allowed, ActError> {
        let mount = Cgroups::mounted(&self.proc).v2.unwrap_or_default();
        let dir = match from {
            Some(path) if !mount.as_os_str().is_empty() && Path::new(path).starts_with(&mount) => {
                PathBuf::from(path)
            }
            Some(path) => mount.join(path.trim_start_matches('/')),
            None => cgroup_of(pid, &mount, &self.proc).ok_or_else(|| {
                let why = "its cgroup of version 2 cannot be told";
                error::of(pid, ActKind::NotSupported, "read its cgroup", why, "")
            })?,
        };
        check(&dir, &mount, &self.proc)?;
        let group = Cgroup::open(&dir)?;
        if self.rations.len() >= MANY {
            self.rations.retain(|_, ration| now.since(ration.used) < FORGET_NS);
        }
        let ration = self.rations.entry(dir).or_default();
        ration.used = now;
        if ration.is_due(now) {
            ration.look(now, Costs::read(group.dir()), toll);
        }
        let room = room(group.dir(), &mount).unwrap_or(0);
        let bytes = ration.of(cold).min(room) & !4095;
        Ok(Allowed { group, bytes })
    }

    /// Asks for what is allowed; see [`Cgroup::reclaim`].
    ///
    /// # Errors
    ///
    /// As there.
    pub(crate) fn reclaim(
        &mut self,
        allowed: &Allowed,
        step_bytes: u64,
        stop: &mut dyn FnMut() -> bool,
    ) -> Result<Reclaimed, ActError> {
        let done = allowed.group.reclaim(allowed.bytes, None, step_bytes, stop)?;
        if let Some(ration) = self.rations.get_mut(allowed.group.dir()) {
            ration.took(done.shrunk_bytes.min(done.asked_bytes));
        }
        Ok(done)
    }

    #[cfg(test)]
    fn of(proc: Proc) -> Self {
        Self { proc, ..Self::default() }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const M: u64 = 1 << 20;

    /// A machine with version 2, an init process, us, and process 70 in `app`.
    fn machine() -> (tempfile::TempDir, OwnCgroups) {
        let root = tempfile::tempdir().unwrap();
        let put = |file: &str, text: &str| {
            let path = root.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let mount = root.path().join("cg");
        let line = format!("41 31 0:38 / {} rw - cgroup2 cgroup2 rw\n", mount.display());
        put("proc/self/mountinfo", &line);
        for (pid, path) in [(1, "/init.scope"), (std::process::id(), "/own"), (70, "/app")] {
            put(&format!("proc/{pid}/cgroup"), &format!("0::{path}\n"));
        }
        for group in ["app", "own", "init.scope"] {
            put(&format!("cg/{group}/cgroup.controllers"), "memory\n");
            put(&format!("cg/{group}/memory.current"), "67108864\n");
            put(&format!("cg/{group}/memory.reclaim"), "");
            put(&format!("cg/{group}/memory.pressure"), "some total=0\n");
        }
        put("cg/app/memory.low", "33554432\n");
        let own = OwnCgroups::of(Proc::new(root.path().join("proc")));
        (root, own)
    }

    fn asked(root: &Path) -> String {
        fs::read_to_string(root.join("cg/app/memory.reclaim")).unwrap()
    }

    #[test]
    fn no_more_than_is_cold_and_not_what_is_promised() {
        let (root, mut own) = machine();
        let off = Toll { pressure_us_per_s: 0, refaults_bp: 0 };
        // A tenth of 40 MiB at first.
        let allowed = own.allow(70, None, 40 * M, off, Time(0)).unwrap();
        assert_eq!(allowed.bytes, 4 * M);
        let done = own.reclaim(&allowed, 64 * M, &mut || false).unwrap();
        assert_eq!((done.asked_bytes, asked(root.path())), (4 * M, (4 * M).to_string()));
        // All of it later, but 32 of 64 MiB are promised.
        let later = |own: &mut OwnCgroups, cold| {
            let looks = (1..20).map(|nr| own.allow(70, None, cold, off, Time(nr * 3_000_000_000)));
            looks.last().unwrap().unwrap().bytes
        };
        assert_eq!(later(&mut own, 40 * M), 32 * M);
        assert_eq!(later(&mut own, 5 * M), 5 * M);
        fs::write(root.path().join("cg/app/memory.min"), "max").unwrap();
        assert_eq!(later(&mut own, 40 * M), 0);
    }

    #[test]
    fn a_cgroup_under_pressure_is_left_alone() {
        let (root, mut own) = machine();
        let mut at = |ms: u64, stalled_us: u64| {
            let text = format!("some avg10=0.00 total={stalled_us}\n");
            fs::write(root.path().join("cg/app/memory.pressure"), text).unwrap();
            let now = Time(ms * 1_000_000);
            own.allow(70, None, 40 * M, Toll::default(), now).unwrap().bytes
        };
        assert_eq!([at(0, 0), at(1000, 50_000)], [4 * M, 4 * M], "not looked at yet");
        assert_eq!([at(2000, 50_000), at(2500, 50_000)], [0, 0]);
        assert!(at(5000, 50_000) > 0, "no task has waited since");
    }

    #[test]
    fn what_must_be_left_alone_is_refused() {
        let (_root, mut own) = machine();
        for (pid, from, kind) in [
            (1, None, ActKind::Unsafe),
            (std::process::id(), None, ActKind::Unsafe),
            (70, Some("/"), ActKind::Unsafe),
            (70, Some("/own"), ActKind::Unsafe),
            (70, Some("/gone"), ActKind::Gone),
            (71, None, ActKind::NotSupported),
        ] {
            let refused = own.allow(pid, from, M, Toll::default(), Time(0)).unwrap_err();
            assert_eq!(refused.kind(), kind, "{pid} {from:?}: {refused}");
        }
        assert!(own.allow(71, Some("/app"), M, Toll::default(), Time(0)).is_ok());
    }
}
