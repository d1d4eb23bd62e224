//! From files to a configuration: reads a kdamond's directory, whoever wrote it. Writes nothing.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use isotherm_core::AddrRange;
use isotherm_core::attrs::IntervalsGoal;
use isotherm_core::scheme::{
    Action, Bounds, Destination, FailCharge, Resolved, Tuner, WatermarkMetric, Watermarks, Weights,
};

use crate::config::entries::default_of;
use crate::config::model::{
    Config, Context, Filter, FilterKind, Goal, GoalMetric, Intervals, Operations, Probe,
    ProbeFilter, ProbeKind, Quota, Scheme, Target,
};
use crate::error::DamonError;
use crate::kdamond::Kdamond;
use crate::sysfs::root::{Root, unreadable};

impl Kdamond {
    /// The configuration in the files. `None` if there is no context directory, so nobody
    /// configured it.
    ///
    /// # Errors
    ///
    /// What the kernel says, or a file that does not read as it should.
    pub fn read(&self) -> Result<Option<Config>, DamonError> {
        let top = Dir { root: self.root(), path: self.dir() };
        if top.number::<u32>("contexts/nr_contexts")? == 0 {
            return Ok(None);
        }
        let context = context(&top.sub("contexts/0"))?;
        Ok(Some(Config { refresh_ms: top.number("refresh_ms")?, context }))
    }
}

struct Dir<'a> {
    root: &'a Root,
    path: PathBuf,
}

impl Dir<'_> {
    fn sub(&self, dir: &str) -> Self {
        Self { root: self.root, path: self.path.join(dir) }
    }

    fn has(&self, file: &str) -> bool {
        self.root.exists(&self.path.join(file))
    }

    /// The text of a file. A file that an older kernel lacks reads as what that kernel does anyway.
    fn text(&self, file: &str) -> Result<String, DamonError> {
        let path = self.path.join(file);
        match self.root.read(&path) {
            Err(err) if err.errno() == Some(libc::ENOENT) => Ok(default_of(&shown(&path)).into()),
            text => text,
        }
    }

    fn parsed<T>(&self, file: &str, parse: impl Fn(&str) -> Option<T>) -> Result<T, DamonError> {
        let text = self.text(file)?;
        parse(text.trim()).ok_or_else(|| unreadable(&self.path.join(file), &text))
    }

    fn number<T: FromStr>(&self, file: &str) -> Result<T, DamonError> {
        self.parsed(file, |text| text.parse().ok())
    }

    fn flag(&self, file: &str) -> Result<bool, DamonError> {
        self.parsed(file, |text| match text {
            "Y" => Some(true),
            "N" => Some(false),
            _ => None,
        })
    }

    fn each<T>(
        &self,
        dir: &str,
        nr: &str,
        f: impl Fn(&Self) -> Result<T, DamonError>,
    ) -> Result<Vec<T>, DamonError> {
        let dir = self.sub(dir);
        (0..dir.number::<u32>(nr)?).map(|index| f(&dir.sub(&index.to_string()))).collect()
    }
}

fn shown(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn context(dir: &Dir<'_>) -> Result<Context, DamonError> {
    let attrs = dir.sub("monitoring_attrs");
    let intervals = attrs.sub("intervals");
    let goal = intervals.sub("intervals_goal");
    Ok(Context {
        operations: dir.parsed("operations", Operations::from_name)?,
        addr_unit: dir.number("addr_unit")?,
        pause: dir.flag("pause")?,
        intervals: Intervals {
            sample_us: intervals.number("sample_us")?,
            aggr_us: intervals.number("aggr_us")?,
            update_us: intervals.number("update_us")?,
            goal: IntervalsGoal {
                access_bp: goal.number("access_bp")?,
                aggrs: goal.number("aggrs")?,
                min_sample_us: goal.number("min_sample_us")?,
                max_sample_us: goal.number("max_sample_us")?,
            },
        },
        nr_regions: Bounds::new(attrs.number("nr_regions/min")?, attrs.number("nr_regions/max")?),
        probes: attrs.each("probes", "nr_probes", probe)?,
        targets: dir.each("targets", "nr_targets", target)?,
        schemes: dir.each("schemes", "nr_schemes", scheme)?,
    })
}

fn probe(dir: &Dir<'_>) -> Result<Probe, DamonError> {
    let filters = dir.each("filters", "nr_filters", |dir| {
        let path = dir.text("path")?;
        Ok(ProbeFilter {
            kind: dir.parsed("type", |text| match text {
                "anon" => Some(ProbeKind::Anon),
                "memcg" => Some(ProbeKind::Memcg(path.clone())),
                _ => None,
            })?,
            matching: dir.flag("matching")?,
            allow: dir.flag("allow")?,
        })
    })?;
    Ok(Probe { filters, weight: dir.number("weight")? })
}

fn target(dir: &Dir<'_>) -> Result<Target, DamonError> {
    Ok(Target {
        pid: dir.number("pid_target")?,
        regions: dir.each("regions", "nr_regions", |dir| {
            Ok(AddrRange::new(dir.number("start")?, dir.number("end")?))
        })?,
        obsolete: dir.flag("obsolete_target")?,
    })
}

fn scheme(dir: &Dir<'_>) -> Result<Scheme, DamonError> {
    let marks = dir.sub("watermarks");
    Ok(Scheme {
        pattern: pattern(&dir.sub("access_pattern"))?,
        action: dir.parsed("action", Action::from_name)?,
        target_nid: u32::try_from(dir.number::<i32>("target_nid")?).ok(),
        apply_interval_us: dir.number("apply_interval_us")?,
        quota: quota(&dir.sub("quotas"))?,
        watermarks: Watermarks {
            metric: marks.parsed("metric", |text| match text {
                "none" => Some(WatermarkMetric::None),
                "free_mem_rate" => Some(WatermarkMetric::FreeMemRate),
                _ => None,
            })?,
            interval_us: marks.number("interval_us")?,
            high: marks.number("high")?,
            mid: marks.number("mid")?,
            low: marks.number("low")?,
        },
        core_filters: dir.each("core_filters", "nr_filters", filter)?,
        ops_filters: dir.each("ops_filters", "nr_filters", filter)?,
        filters: dir.each("filters", "nr_filters", filter)?,
        dests: dir.each("dests", "nr_dests", |dir| {
            Ok(Destination { nid: dir.number("id")?, weight: dir.number("weight")? })
        })?,
        max_nr_snapshots: dir.number("stats/max_nr_snapshots")?,
    })
}

/// The kernel takes 64 bits here and uses 32 (R§9.3.6).
fn low_half(dir: &Dir<'_>, file: &str) -> Result<u32, DamonError> {
    let value: u64 = dir.number(file)?;
    Ok(u32::try_from(value & u64::from(u32::MAX)).unwrap_or(u32::MAX))
}

fn pattern(dir: &Dir<'_>) -> Result<Resolved, DamonError> {
    Ok(Resolved {
        sz: Bounds::new(dir.number("sz/min")?, dir.number("sz/max")?),
        nr_accesses: Bounds::new(
            low_half(dir, "nr_accesses/min")?,
            low_half(dir, "nr_accesses/max")?,
        ),
        age: Bounds::new(low_half(dir, "age/min")?, low_half(dir, "age/max")?),
    })
}

fn quota(dir: &Dir<'_>) -> Result<Quota, DamonError> {
    Ok(Quota {
        ms: dir.number("ms")?,
        bytes: dir.number("bytes")?,
        reset_interval_ms: dir.number("reset_interval_ms")?,
        weights: Weights {
            sz: dir.number("weights/sz_permil")?,
            nr_accesses: dir.number("weights/nr_accesses_permil")?,
            age: dir.number("weights/age_permil")?,
        },
        goals: dir.each("goals", "nr_goals", |dir| {
            let (nid, path) = (dir.number("nid")?, dir.text("path")?);
            Ok(Goal {
                metric: dir
                    .parsed("target_metric", |text| GoalMetric::from_parts(text, nid, &path))?,
                target_value: dir.number("target_value")?,
                current_value: dir.number("current_value")?,
            })
        })?,
        tuner: dir.parsed("goal_tuner", |text| match text {
            "consist" => Some(Tuner::Consist),
            "temporal" => Some(Tuner::Temporal),
            _ => None,
        })?,
        fail_charge: FailCharge {
            num: dir.number("fail_charge_num")?,
            denom: dir.number("fail_charge_denom")?,
        },
    })
}

fn filter(dir: &Dir<'_>) -> Result<Filter, DamonError> {
    let range = AddrRange::new(dir.number("addr_start")?, dir.number("addr_end")?);
    let (min, max) = if dir.has("min") { (dir.number("min")?, dir.number("max")?) } else { (0, 0) };
    let index = dir.number("damon_target_idx")?;
    let path = dir.text("memcg_path")?;
    Ok(Filter {
        kind: dir.parsed("type", |text| {
            Some(match text {
                "anon" => FilterKind::Anon,
                "active" => FilterKind::Active,
                "memcg" => FilterKind::Memcg(path.clone()),
                "young" => FilterKind::Young,
                "hugepage_size" => FilterKind::HugepageSize(min, max),
                "unmapped" => FilterKind::Unmapped,
                "addr" => FilterKind::Addr(range),
                "target" => FilterKind::Target(index),
                _ => return None,
            })
        })?,
        matching: dir.flag("matching")?,
        allow: dir.flag("allow")?,
    })
}
