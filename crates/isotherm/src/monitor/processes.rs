//! Processes as targets: taking hold of them, who they are, and what is mapped in them.

use isotherm_agent::policy::TargetSpec;
use isotherm_host::glob::is_glob;
use isotherm_host::proc::{self, Proc, parse_maps};
use isotherm_ops::targets::{self, Tracker};
use isotherm_record::Mapping;

use crate::snapshot::Target;
use crate::{Error, ErrorKind};

/// Attaches to the pids among the targets, and makes sure that there are such cgroups.
pub(super) fn attach(specs: &[TargetSpec], children: bool) -> Result<Tracker, Error> {
    let mut pids = Vec::new();
    for spec in specs {
        match spec {
            TargetSpec::Pid(pid) => pids.push(*pid),
            TargetSpec::Cgroup(path) if !is_glob(path) => {
                let found = targets::find::in_cgroup(&Proc::default(), path);
                found.map_err(|e| {
                    let what = format!("cgroup {path} cannot be watched");
                    Error::new(ErrorKind::Gone, &what, e.why(), e.hint())
                })?;
            }
            TargetSpec::Cgroup(_)
            | TargetSpec::Name(_)
            | TargetSpec::Unit(_)
            | TargetSpec::Pod(_)
            | TargetSpec::Container(_)
            | TargetSpec::User(_)
            | TargetSpec::Rss(_)
            | TargetSpec::Memory(_)
            | TargetSpec::Command(_) => {}
        }
    }
    Ok(Tracker::attach(&pids, children)?)
}

/// Who a target is.
pub(super) fn identity(target: &targets::Target) -> Target {
    Target {
        id: target.id,
        pid: target.pid,
        parent: target.ppid,
        name: target.name.clone(),
        memory: target.memory.as_ref().map(ToString::to_string),
    }
}

/// What is mapped in a process now; nothing if it has ended, or is none.
pub(super) fn mappings_of(pid: u32) -> Vec<Mapping> {
    let mut text = Vec::new();
    if pid == 0 || Proc::default().read(pid, "maps", &mut text).is_err() {
        return Vec::new();
    }
    let mapping = |m: proc::Mapping<'_>| {
        let flag = |set: bool, c: char| if set { c } else { '-' };
        let shared = if m.perms.shared { 's' } else { 'p' };
        let (r, w) = (flag(m.perms.read, 'r'), flag(m.perms.write, 'w'));
        let perms = String::from_iter([r, w, flag(m.perms.exec, 'x'), shared]);
        Mapping::new(m.range.start, m.range.end, &perms, &String::from_utf8_lossy(m.name))
    };
    parse_maps(&text).map(mapping).collect()
}
