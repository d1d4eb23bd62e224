//! The part of `drgn` that the kernel's tests for DAMON use: `drgn drgn_dump_damon_status.py PID
//! FILE`, a script that reads a kdamond's context out of the kernel's memory and writes it down as
//! JSON.
//!
//! There is nothing of ours in the kernel's memory. So the stand-in asks for the context by a
//! socket, and writes what the script would have. Other scripts are the business of the real
//! `drgn`, if there is one. Names and numbers are those of the kernel's structures, Linux 7.2.

use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use isotherm_core::scheme::{Action, Tuner, WatermarkMetric};
use isotherm_core::snapshot::RegionInfo;
use isotherm_damon::model::{
    Context, Filter, FilterKind, Goal, GoalMetric, Operations, Quota, Scheme,
};
use serde_json::{Value, json};

use crate::engine::{Results, SchemeResults, Status};
use crate::world::World;

/// The name of the socket. It is beside that of [`perf`](crate::perf).
pub const SOCKET: &str = "status.sock";

/// The script that is understood.
const SCRIPT: &str = "drgn_dump_damon_status.py";

/// What was asked of `drgn`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Asked {
    /// To write down the context of a kdamond.
    Dump {
        /// The kdamond's pid.
        pid: i32,
        /// Where to; none for standard output.
        output: Option<PathBuf>,
    },
    /// Something that is not for us.
    Other,
}

/// Understands the arguments of `drgn`, without its name.
#[must_use]
pub fn asked(args: &[OsString]) -> Asked {
    let [script, pid, output] = args else { return Asked::Other };
    let pid = pid.to_str().and_then(|pid| pid.trim().parse().ok());
    match pid {
        Some(pid) if Path::new(script).file_name().is_some_and(|name| name == SCRIPT) => {
            let output = (output != "stdout").then(|| output.into());
            Asked::Dump { pid, output }
        }
        _ => Asked::Other,
    }
}

/// Asks for a kdamond's context, as JSON.
///
/// # Errors
///
/// If the socket cannot be used, or there is no such kdamond.
pub fn dump(socket: &Path, pid: i32) -> io::Result<String> {
    let mut stream = UnixStream::connect(socket)?;
    writeln!(stream, "{pid}")?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    if text.is_empty() {
        let why = format!("there is no kdamond {pid}");
        return Err(io::Error::new(io::ErrorKind::NotFound, why));
    }
    Ok(text)
}

/// Answers at a socket, on threads of its own, for as long as the process lives.
///
/// # Errors
///
/// If the socket cannot be made.
pub(crate) fn serve(world: &Arc<World>, at: &Path) -> io::Result<()> {
    let listener = UnixListener::bind(at)?;
    let world = Arc::clone(world);
    let accept = move || {
        for stream in listener.incoming().flatten() {
            let world = Arc::clone(&world);
            let thread = std::thread::Builder::new().name("status".into());
            // A client that goes away needs no answer; without a thread it sees the end of its
            // stream.
            thread.spawn(move || answer(&world, stream)).ok();
        }
    };
    std::thread::Builder::new().name("status".into()).spawn(accept).map(drop)
}

fn answer(world: &World, mut stream: UnixStream) -> io::Result<()> {
    let mut line = String::new();
    BufReader::new((&stream).take(32)).read_line(&mut line)?;
    let status = line.trim().parse().ok().and_then(|pid| world.status_of(pid));
    match status {
        Some(status) => writeln!(stream, "{:#}", of_status(&status)),
        None => Ok(()),
    }
}

fn of_status(status: &Status) -> Value {
    json!({ "contexts": [of_context(&status.config.context, &status.results, &status.regions)] })
}

fn of_context(context: &Context, results: &Results, regions: &[Vec<RegionInfo>]) -> Value {
    let intervals = &context.intervals;
    let schemes: Vec<Value> = context
        .schemes
        .iter()
        .enumerate()
        .map(|(index, scheme)| of_scheme(scheme, results.schemes.get(index)))
        .collect();
    let targets: Vec<Value> = context
        .targets
        .iter()
        .enumerate()
        .map(|(index, target)| {
            let regions = regions.get(index).map(Vec::as_slice).unwrap_or_default();
            json!({
                "pid": target.pid,
                "nr_regions": regions.len(),
                "regions_list": regions.iter().map(of_region).collect::<Vec<_>>(),
                "obsolete": target.obsolete,
            })
        })
        .collect();
    let id = Operations::ALL.iter().position(|known| *known == context.operations);
    json!({
        "ops": { "id": id },
        "attrs": {
            "sample_interval": results.sample_us,
            "aggr_interval": results.aggr_us,
            "ops_update_interval": intervals.update_us,
            "intervals_goal": {
                "access_bp": intervals.goal.access_bp,
                "aggrs": intervals.goal.aggrs,
                "min_sample_us": intervals.goal.min_sample_us,
                "max_sample_us": intervals.goal.max_sample_us,
            },
            "min_nr_regions": context.nr_regions.min,
            "max_nr_regions": context.nr_regions.max,
        },
        "adaptive_targets": targets,
        "schemes": schemes,
        "pause": context.pause,
    })
}

/// A region. The page that is looked at next is not known outside of the loop, so it is said to be
/// the first.
fn of_region(region: &RegionInfo) -> Value {
    json!({
        "ar": { "start": region.range.start, "end": region.range.end },
        "sampling_addr": region.range.start,
        "nr_accesses": region.nr_accesses,
        "nr_accesses_bp": u64::from(region.nr_accesses) * 10_000,
        "age": region.age,
    })
}

fn of_scheme(scheme: &Scheme, results: Option<&SchemeResults>) -> Value {
    let pattern = &scheme.pattern;
    let marks = &scheme.watermarks;
    let action = Action::ALL.iter().position(|known| *known == scheme.action);
    let filters = |keep: fn(&FilterKind) -> bool| -> Vec<Value> {
        let old = scheme.filters.iter().filter(|filter| keep(&filter.kind));
        let own = [&scheme.core_filters, &scheme.ops_filters].into_iter().flatten();
        own.filter(|filter| keep(&filter.kind)).chain(old).map(of_filter).collect()
    };
    json!({
        "pattern": {
            "min_sz_region": pattern.sz.min,
            "max_sz_region": pattern.sz.max,
            "min_nr_accesses": pattern.nr_accesses.min,
            "max_nr_accesses": pattern.nr_accesses.max,
            "min_age_region": pattern.age.min,
            "max_age_region": pattern.age.max,
        },
        "action": action,
        "apply_interval_us": scheme.apply_interval_us,
        "quota": of_quota(&scheme.quota, results.map_or(0, |results| results.effective_bytes)),
        "wmarks": {
            "metric": u8::from(marks.metric == WatermarkMetric::FreeMemRate),
            "interval": marks.interval_us,
            "high": marks.high,
            "mid": marks.mid,
            "low": marks.low,
        },
        "target_nid": scheme.target_nid.map_or(-1, i64::from),
        "migrate_dests": {
            "node_id_arr": scheme.dests.iter().map(|dest| dest.nid).collect::<Vec<_>>(),
            "weight_arr": scheme.dests.iter().map(|dest| dest.weight).collect::<Vec<_>>(),
            "nr_dests": scheme.dests.len(),
        },
        "core_filters": filters(is_core),
        "ops_filters": filters(|kind| !is_core(kind)),
    })
}

/// Whether the kernel handles such filters before pages are looked at.
const fn is_core(kind: &FilterKind) -> bool {
    matches!(kind, FilterKind::Addr(_) | FilterKind::Target(_))
}

fn of_quota(quota: &Quota, esz: u64) -> Value {
    json!({
        "reset_interval": quota.reset_interval_ms,
        "ms": quota.ms,
        "sz": quota.bytes,
        "goals": quota.goals.iter().map(of_goal).collect::<Vec<_>>(),
        "goal_tuner": u8::from(quota.tuner == Tuner::Temporal),
        "esz": esz,
        "fail_charge_num": quota.fail_charge.num,
        "fail_charge_denom": quota.fail_charge.denom,
        "weight_sz": quota.weights.sz,
        "weight_nr_accesses": quota.weights.nr_accesses,
        "weight_age": quota.weights.age,
    })
}

/// A goal. The total of memory pressure that the kernel keeps for the next turn is not known here.
fn of_goal(goal: &Goal) -> Value {
    let metric = match goal.metric {
        GoalMetric::UserInput => 0,
        GoalMetric::SomeMemPsiUs => 1,
        GoalMetric::NodeMemUsedBp(_) => 2,
        GoalMetric::NodeMemFreeBp(_) => 3,
        GoalMetric::NodeMemcgUsedBp(..) => 4,
        GoalMetric::NodeMemcgFreeBp(..) => 5,
        GoalMetric::ActiveMemBp => 6,
        GoalMetric::InactiveMemBp => 7,
        GoalMetric::NodeEligibleMemBp(_) => 8,
    };
    json!({
        "metric": metric,
        "target_value": goal.target_value,
        "current_value": goal.current_value,
        "last_psi_total": 0,
        "nid": goal.metric.nid().unwrap_or(0),
    })
}

fn of_filter(filter: &Filter) -> Value {
    let mut value = json!({
        "type": filter.kind.name(),
        "matching": filter.matching,
        "allow": filter.allow,
    });
    match &filter.kind {
        // The kernel has the cgroup's number here.
        FilterKind::Memcg(path) => value["memcg_path"] = json!(path),
        FilterKind::Addr(range) => value["addr_range"] = json!([range.start, range.end]),
        FilterKind::Target(index) => value["target_idx"] = json!(index),
        FilterKind::HugepageSize(min, max) => value["sz_range"] = json!([min, max]),
        FilterKind::Anon | FilterKind::Active | FilterKind::Young | FilterKind::Unmapped => {}
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;
    use isotherm_core::AddrRange;
    use isotherm_damon::model::{Config, Target};

    #[test]
    fn what_the_tests_ask_of_drgn_is_understood() {
        let ask = |words: &str| asked(&words.split(' ').map(OsString::from).collect::<Vec<_>>());
        let dump = |pid, output: Option<&str>| Asked::Dump { pid, output: output.map(Into::into) };
        assert_eq!(ask("/x/drgn_dump_damon_status.py 42 y"), dump(42, Some("y")));
        assert_eq!(ask("drgn_dump_damon_status.py 42 stdout"), dump(42, None));
        assert_eq!(ask("other.py 42 y"), Asked::Other);
        assert_eq!(ask("drgn_dump_damon_status.py x y"), Asked::Other);
        assert_eq!(ask("-c 1"), Asked::Other);
    }

    #[test]
    fn filters_are_in_the_lists_in_which_the_kernel_has_them() {
        let filter = |kind| Filter { kind, matching: true, allow: false };
        let scheme = Scheme {
            core_filters: vec![filter(FilterKind::Addr(AddrRange::new(42, 4242)))],
            ops_filters: vec![filter(FilterKind::Anon)],
            filters: vec![filter(FilterKind::Young), filter(FilterKind::Target(3))],
            ..Scheme::default()
        };
        let targets = vec![Target { pid: 7, ..Target::default() }];
        let context = Context { schemes: vec![scheme], targets, ..Context::default() };
        let status = Status {
            config: Config { context, ..Config::default() },
            regions: vec![vec![RegionInfo { nr_accesses: 3, ..RegionInfo::default() }]],
            ..Status::default()
        };
        let dump = of_status(&status);
        let scheme = &dump["contexts"][0]["schemes"][0];
        assert_eq!(scheme["core_filters"][0]["addr_range"], json!([42, 4242]));
        assert_eq!(scheme["core_filters"][1]["target_idx"], json!(3));
        assert_eq!(scheme["ops_filters"][0]["type"], json!("anon"));
        assert_eq!(scheme["ops_filters"][1]["type"], json!("young"));
        let target = &dump["contexts"][0]["adaptive_targets"][0];
        assert_eq!((&target["pid"], &target["nr_regions"]), (&json!(7), &json!(1)));
        assert_eq!(target["regions_list"][0]["nr_accesses_bp"], json!(30_000));
    }
}
