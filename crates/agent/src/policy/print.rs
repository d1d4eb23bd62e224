//! Writes a policy as a file that [`parse`](super::parse) reads as the same policy.
//!
//! Fields with their default value are left out. Limits, brakes and evidence are always written.
//!
//! A target that is a command cannot be in a file, so it becomes a comment. Two values cannot be
//! written in a file, a failed share divided by 0 and watermarks without a metric. They are written
//! as equivalent ones.

use std::fmt::{Display, Write as _};

use isotherm_act::Toll;
use isotherm_act::apply::{Evidence, Reclaim, ReclaimFrom, Settings};
use isotherm_core::attrs::IntervalsGoal;
use isotherm_core::scheme::{
    Age, Bounds, FailCharge, Filter, FilterKind, Frequency, Goal, Metric, Pattern, Quota, Tuner,
    WatermarkMetric, Watermarks,
};
use isotherm_core::units::{show_interval, show_share, show_size};
use isotherm_core::{Attrs, Method, Scheme};
use toml_writer::{ToTomlValue as _, TomlStringBuilder};

use super::metric::{self, Unit, WORDS};
use super::{
    ContextPolicy, Engine, OnlineTuning, Policy, Rollout, SchemePolicy, TargetSpec, Tuning,
    defaults,
};
use crate::gauge::{Counter, Source};

/// Writes a policy file.
#[must_use]
pub fn print(policy: &Policy) -> String {
    let mut out = Lines::default();
    for context in &policy.contexts {
        out.context(context);
    }
    out.tuning(&policy.tuning);
    out.rollout(&policy.rollout);
    out.0
}

/// A string as TOML writes it.
fn quoted(text: impl Display) -> String {
    TomlStringBuilder::new(&text.to_string()).as_default().to_toml_value()
}

/// An inline table or array.
fn inside(open: &str, parts: &[String], close: &str) -> String {
    format!("{open}{}{close}", parts.join(", "))
}

/// An array with a line for each value.
fn lines(parts: &[String]) -> String {
    let lines: String = parts.iter().map(|part| format!("  {part},\n")).collect();
    format!("[\n{lines}]")
}

fn table(parts: &[(&str, String)]) -> String {
    let parts: Vec<_> = parts.iter().map(|(key, value)| format!("{key} = {value}")).collect();
    inside("{ ", &parts, " }")
}

fn interval(us: u64) -> String {
    quoted(show_interval(us))
}

#[derive(Default)]
struct Lines(String);

/// Which cgroup is asked to reclaim, and what that may cost it.
fn memory_reclaim(reclaim: &Reclaim) -> String {
    let from = match &reclaim.from {
        ReclaimFrom::Own => quoted("own"),
        ReclaimFrom::Path(path) => quoted(path),
    };
    if reclaim.toll == Toll::default() {
        return from;
    }
    let Toll { pressure_us_per_s, refaults_bp } = reclaim.toll;
    let pressure =
        if pressure_us_per_s == 0 { quoted("none") } else { interval(pressure_us_per_s) };
    let refaults = match refaults_bp {
        0 => quoted("none"),
        bp => quoted(show_share(bp.into())),
    };
    table(&[("from", from), ("pressure", pressure), ("refaults", refaults)])
}

impl Lines {
    fn field(&mut self, key: &str, value: impl Display) {
        // Writing to a string cannot fail.
        let written = writeln!(self.0, "{key} = {value}");
        debug_assert!(written.is_ok());
    }

    fn head(&mut self, head: &str) {
        if !self.0.is_empty() {
            self.0.push('\n');
        }
        self.0.push_str(head);
        self.0.push('\n');
    }

    fn tuning(&mut self, tuning: &Tuning) {
        if *tuning == Tuning::default() {
            return;
        }
        self.head("[tune]");
        let ranges: Vec<_> = tuning.ranges.iter().map(quoted).collect();
        if !ranges.is_empty() {
            self.field("range", lines(&ranges));
        }
        if let Some(bp) = tuning.max_slowdown_bp {
            self.field("max_slowdown", quoted(show_share(bp.into())));
        }
        if let Some(weight) = tuning.weight {
            self.field("weight", weight);
        }
        if let Some(online) = &tuning.online {
            self.online(online);
        }
    }

    fn rollout(&mut self, rollout: &Rollout) {
        if *rollout == Rollout::default() {
            return;
        }
        let Rollout { share_bp, max_pressure_bp, max_refaults_bp, max_errors } = rollout;
        self.head("[rollout]");
        let shares = [
            ("share", Some(*share_bp).filter(|_| rollout.is_partial())),
            ("max_pressure", *max_pressure_bp),
            ("max_refaults", *max_refaults_bp),
        ];
        for (key, bp) in shares {
            if let Some(bp) = bp {
                self.field(key, quoted(show_share(bp.into())));
            }
        }
        if let Some(most) = max_errors {
            self.field("max_errors", most);
        }
    }

    fn online(&mut self, online: &OnlineTuning) {
        let OnlineTuning { every_us, phase_us, source, state } = online;
        self.field("online", true);
        self.field("every", quoted(show_interval(*every_us)));
        self.field("phase", quoted(show_interval(*phase_us)));
        match source {
            Source::Work(Counter::File(path)) => self.field("progress", quoted(path.display())),
            Source::Work(Counter::Command(line)) => self.field("progress_cmd", quoted(line)),
            Source::Latency(line) => self.field("latency_cmd", quoted(line)),
            Source::Pressure => self.field("psi", true),
            Source::Cpu => {}
        }
        if let Some(path) = state {
            self.field("state", quoted(path.display()));
        }
    }

    fn context(&mut self, context: &ContextPolicy) {
        self.head("[[context]]");
        self.field("name", quoted(&context.name));
        let mut targets = Vec::new();
        for target in &context.targets {
            match target {
                TargetSpec::Pid(pid) => targets.push(table(&[("pid", pid.to_string())])),
                TargetSpec::Name(name) => targets.push(table(&[("name", quoted(name))])),
                TargetSpec::Cgroup(path) => targets.push(table(&[("cgroup", quoted(path))])),
                TargetSpec::Unit(name) => targets.push(table(&[("unit", quoted(name))])),
                TargetSpec::Pod(name) => targets.push(table(&[("pod", quoted(name))])),
                TargetSpec::Container(name) => targets.push(table(&[("container", quoted(name))])),
                TargetSpec::User(name) => targets.push(table(&[("user", quoted(name))])),
                TargetSpec::Rss(bytes) => {
                    targets.push(table(&[("rss", quoted(show_size(*bytes)))]));
                }
                TargetSpec::Memory(memory) => targets.push(table(&[("paddr", quoted(memory))])),
                TargetSpec::Command(command) => {
                    let command = quoted(command.join(" "));
                    self.0.push_str(&format!("# target, on the command line: {command}\n"));
                }
            }
        }
        if !targets.is_empty() {
            self.field("targets", inside("[", &targets, "]"));
        }
        if !context.children {
            self.field("children", false);
        }
        if let Some(ops) = context.ops {
            self.field("ops", quoted(ops.name()));
        }
        if context.engine != Engine::default() {
            self.field("engine", quoted(context.engine.name()));
        }
        let method = context.attrs.method;
        if method != defaults::method(context) {
            self.method(method);
        }
        self.attrs(&context.attrs);
        let names: Vec<_> = context.schemes.iter().map(|s| s.settings.name.as_str()).collect();
        for scheme in &context.schemes {
            self.scheme(scheme, &context.attrs, &names);
        }
    }

    fn method(&mut self, method: Method) {
        match method {
            Method::Resample => self.field("method", quoted("resample")),
            Method::FirstTouch => self.field("method", quoted("first_touch")),
            Method::Census => self.field("method", quoted("census")),
            // The operations set chooses this method, not the user.
            Method::Observed => {}
        }
    }

    fn attrs(&mut self, attrs: &Attrs) {
        let usual = Attrs::default();
        if attrs.strict {
            self.field("strict", true);
        }
        if attrs.clears_per_sec != usual.clears_per_sec {
            self.field("clears", attrs.clears_per_sec);
        }
        if attrs.budget_bp != usual.budget_bp {
            self.field("budget", quoted(show_share(u64::from(attrs.budget_bp))));
        }
        self.head("[context.intervals]");
        self.field("sample", interval(attrs.sample_us));
        self.field("aggregation", interval(attrs.aggr_us));
        self.field("update", interval(attrs.update_us));
        if attrs.intervals_goal != IntervalsGoal::default() {
            let goal = &attrs.intervals_goal;
            let goal = table(&[
                ("access", quoted(show_share(goal.access_bp))),
                ("aggregations", goal.aggrs.to_string()),
                ("min_sample", interval(goal.min_sample_us)),
                ("max_sample", interval(goal.max_sample_us)),
            ]);
            self.field("goal", goal);
        }
        self.head("[context.regions]");
        self.field("min", attrs.min_nr_regions);
        self.field("max", attrs.max_nr_regions);
        if attrs.min_region_sz != usual.min_region_sz {
            self.field("min_size", quoted(show_size(attrs.min_region_sz)));
        }
    }

    fn scheme(&mut self, policy: &SchemePolicy, attrs: &Attrs, names: &[&str]) {
        let SchemePolicy { scheme, settings } = policy;
        self.head("[[context.scheme]]");
        self.field("name", quoted(&settings.name));
        self.field("action", quoted(scheme.action.name()));
        if let Some(node) = scheme.source_nid {
            self.field("source_node", node);
        }
        if let Some(node) = scheme.target_nid {
            self.field("target_node", node);
        }
        if !scheme.dests.is_empty() {
            let dest = |d: &isotherm_core::scheme::Destination| {
                table(&[("node", d.nid.to_string()), ("weight", d.weight.to_string())])
            };
            let dests: Vec<_> = scheme.dests.iter().map(dest).collect();
            self.field("destinations", inside("[", &dests, "]"));
        }
        self.pattern(&scheme.pattern);
        if scheme.apply_interval_us != 0 {
            self.field("apply_interval", interval(scheme.apply_interval_us));
        }
        self.limits(scheme, settings, names);
        let filters = scheme.filters.core.iter().chain(&scheme.filters.ops);
        let filters: Vec<_> = filters.map(|f| quoted(filter(f, settings))).collect();
        if !filters.is_empty() {
            self.field("filters", lines(&filters));
        }
        self.carrying_out(scheme, settings, attrs);
        if scheme.max_nr_snapshots != 0 {
            self.field("max_snapshots", scheme.max_nr_snapshots);
        }
    }

    fn pattern(&mut self, pattern: &Pattern) {
        if pattern.sz != Pattern::ALL.sz {
            self.field("size", quoted(range(pattern.sz, u64::MAX, "", show_size)));
        }
        if pattern.nr_accesses != Pattern::ALL.nr_accesses {
            self.field("frequency", quoted(frequency(pattern.nr_accesses)));
        }
        if pattern.age != Pattern::ALL.age {
            self.field(
                "age",
                quoted(match pattern.age {
                    Age::Windows(b) => range(b, u32::MAX, " windows", |n| n.to_string()),
                    Age::Micros(b) => range(b, u64::MAX, "", show_interval),
                }),
            );
        }
    }

    fn limits(&mut self, scheme: &Scheme, settings: &Settings, names: &[&str]) {
        let quota = Quota { brake: None, ..scheme.quota.clone() };
        if quota == Quota::default() {
            if defaults::quota(scheme.action) != quota {
                self.field("quota", quoted("none"));
            }
        } else {
            self.field("quota", quota_table(&quota, settings, names));
        }
        match scheme.quota.brake {
            Some(brake) => {
                let share = quoted(show_share(brake.max_refault_bp.into()));
                self.field("brake", table(&[("refaults", share)]));
            }
            None if defaults::brake(scheme.action).is_some() => self.field("brake", quoted("off")),
            None => {}
        }
        let marks = &scheme.watermarks;
        if marks.metric == WatermarkMetric::FreeMemRate {
            self.field("watermarks", watermarks(marks));
        }
    }

    fn carrying_out(&mut self, scheme: &Scheme, settings: &Settings, attrs: &Attrs) {
        let usual = Settings::default();
        let time = usual.evidence_us_per_s;
        if let Some(rest) = scheme.rest {
            let ms = |ms: u64| interval(ms.saturating_mul(1000));
            self.field("rest", table(&[("first", ms(rest.first_ms)), ("most", ms(rest.most_ms))]));
        }
        if settings.hold_us != 0 {
            self.field("hold", interval(settings.hold_us));
        }
        if defaults::uses_evidence(scheme.action)
            || settings.evidence != defaults::evidence(&scheme.pattern, attrs)
        {
            self.field(
                "evidence",
                match settings.evidence {
                    Evidence::Off => quoted("off"),
                    Evidence::Confirm(us) if settings.evidence_us_per_s == time => {
                        table(&[("confirm", interval(us))])
                    }
                    Evidence::Confirm(us) => {
                        let time = interval(settings.evidence_us_per_s);
                        table(&[("confirm", interval(us)), ("time", time)])
                    }
                },
            );
        }
        if settings.min_touched_bp != usual.min_touched_bp {
            self.field("min_touched", quoted(show_share(settings.min_touched_bp.into())));
        }
        if settings.prove {
            self.field("prove", quoted("auto"));
        }
        if let Some(path) = &settings.progress {
            self.field("progress", quoted(path.display()));
        }
        if settings.dry_run {
            self.field("dry_run", true);
        }
        if settings.inject {
            self.field("inject", true);
        }
        if let Some(reclaim) = &settings.memory_reclaim {
            self.field("memory_reclaim", memory_reclaim(reclaim));
        }
        if settings.refault_window_us != usual.refault_window_us {
            self.field("refault_window", interval(settings.refault_window_us));
        }
    }
}

/// A range. An open end is left out, and the unit is written once.
fn range<T: Copy + PartialEq>(
    b: Bounds<T>,
    most: T,
    unit: &str,
    show: impl Fn(T) -> String,
) -> String {
    if b.max == most {
        format!("{}{unit}..", show(b.min))
    } else {
        format!("{}..{}{unit}", show(b.min), show(b.max))
    }
}

fn frequency(frequency: Frequency) -> String {
    let share = |bp: u32| show_share(bp.into());
    match frequency {
        Frequency::Samples(b) if b.min == b.max => format!("{} samples", b.min),
        Frequency::Samples(Bounds { min: 1, max: u32::MAX }) => "1 sample..".to_owned(),
        Frequency::Samples(b) => range(b, u32::MAX, " samples", |n| n.to_string()),
        Frequency::Bp(b) if b.min == b.max => share(b.min),
        Frequency::Bp(b) => range(b, u32::MAX, "", share),
    }
}

fn quota_table(quota: &Quota, settings: &Settings, names: &[&str]) -> String {
    let mut parts = Vec::new();
    let mut put = |key, value| parts.push((key, value));
    if quota.sz != 0 {
        put("size", quoted(show_size(quota.sz)));
    }
    if quota.ms != 0 {
        put("time", quoted(show_interval(quota.ms.saturating_mul(1000))));
    }
    if quota.sz == 0 && quota.ms == 0 {
        // Without this field the reader would use the safe default.
        put("size", quoted("none"));
    }
    put("interval", quoted(show_interval(quota.reset_interval_ms.saturating_mul(1000))));
    let weights = table(&[
        ("size", quota.weights.sz.to_string()),
        ("frequency", quota.weights.nr_accesses.to_string()),
        ("age", quota.weights.age.to_string()),
    ]);
    put("weights", weights);
    if !quota.goals.is_empty() {
        let goal = |goal| self::goal(goal, settings, names);
        let goals: Vec<_> = quota.goals.iter().map(goal).collect();
        put("goals", lines(&goals));
    }
    match quota.tuner {
        Tuner::Consist => {}
        Tuner::Temporal => put("tuner", quoted("temporal")),
        Tuner::Exact => put("tuner", quoted("exact")),
    }
    if quota.fail_charge != FailCharge::default() {
        let FailCharge { num, denom } = quota.fail_charge;
        put("fail_charge", quoted(format!("{num}/{denom}")));
    }
    table(&parts)
}

fn path(list: &[String], number: u32) -> &str {
    let at = usize::try_from(number).ok();
    at.and_then(|at| list.get(at)).map_or("", String::as_str)
}

fn goal(goal: &Goal, settings: &Settings, names: &[&str]) -> String {
    let name = goal.metric.name();
    let mut parts = vec![("metric", quoted(name))];
    let (node, cgroup) = metric::about(&goal.metric);
    parts.extend(node.map(|node| ("node", node.to_string())));
    parts.extend(cgroup.map(|cgroup| ("cgroup", quoted(path(&settings.cgroups, cgroup.0)))));
    let unit = WORDS.iter().find(|word| word.name == name).map_or(Unit::Input, |word| word.unit);
    parts.push((
        "target",
        match unit {
            Unit::Input => goal.target.to_string(),
            Unit::Stall => interval(goal.target),
            Unit::Bytes => quoted(show_size(goal.target)),
            Unit::Share => quoted(show_share(goal.target)),
            Unit::Permil => quoted(show_share(goal.target.saturating_mul(10))),
        },
    ));
    if goal.metric == Metric::UserInput && goal.current != 0 {
        parts.push(("current", goal.current.to_string()));
    }
    let share = |bp: u32| quoted(show_share(bp.into()));
    if let Some(bp) = goal.follow.watermark_bp {
        parts.push(("above_watermark", share(bp)));
    }
    if goal.follow.counts_coming {
        parts.push(("coming", true.to_string()));
    }
    if let Some(room) = goal.follow.room {
        let name = names.get(room.scheme).copied().unwrap_or_default();
        let mut room_parts = vec![("for", quoted(name)), ("most", share(room.most_bp))];
        if room.urgent_bp != 10_000 {
            room_parts.push(("urgent", share(room.urgent_bp)));
        }
        parts.push(("room", table(&room_parts)));
    }
    table(&parts)
}

fn watermarks(marks: &Watermarks) -> String {
    let share = |permil: u64| quoted(show_share(permil.saturating_mul(10)));
    table(&[
        ("metric", quoted("free_mem_rate")),
        ("interval", interval(marks.interval_us)),
        ("high", share(marks.high)),
        ("mid", share(marks.mid)),
        ("low", share(marks.low)),
    ])
}

fn filter(filter: &Filter, settings: &Settings) -> String {
    let verdict = if filter.allow { "allow" } else { "reject" };
    let not = if filter.matching { "" } else { "not " };
    let kind = match filter.kind {
        FilterKind::Addr(range) => format!("addr {:#x}..{:#x}", range.start, range.end),
        FilterKind::Target(index) => format!("target {index}"),
        FilterKind::Anon => "anon".to_owned(),
        FilterKind::Active => "active".to_owned(),
        FilterKind::Memcg(number) => format!("memcg {}", path(&settings.cgroups, number)),
        FilterKind::Young => "young".to_owned(),
        FilterKind::HugepageSize(min, max) => {
            format!("hugepage_size {}", range(Bounds::new(min, max), u64::MAX, "", show_size))
        }
        FilterKind::Unmapped => "unmapped".to_owned(),
        FilterKind::File => "file".to_owned(),
        FilterKind::Shared => "shared".to_owned(),
        FilterKind::Mapping(number) => format!("mapping {}", path(&settings.mappings, number)),
    };
    format!("{verdict} {not}{kind}")
}
