//! What the numbers of a run mean for its user: whether a scheme waits and for what, what its quota
//! holds back and for how long, and before the account of a dry run what it would bring.

mod huge;

use isotherm::raw::agent::policy::Policy;
use isotherm::raw::agent::run::{Account, Summary};
use isotherm::raw::core::scheme::{Action, Age, Metric, WatermarkMetric, Watermarks};
use isotherm::raw::core::units::{bytes, counted, span};
use isotherm::raw::host::metrics::Metrics;

/// Idle times that a dry run tells the bytes of, in ms.
const AGES_MS: [u64; 9] =
    [1_000, 5_000, 10_000, 30_000, 60_000, 120_000, 300_000, 600_000, 3_600_000];
/// A quota of which less than this share was used in its fullest window did not hold anything back.
const BINDS: f64 = 0.9;

/// One scheme of the policy.
#[derive(Debug, Clone)]
struct Planned {
    context: String,
    name: String,
    action: Action,
    min_age_ms: u64,
    /// Bytes, and ms of time, per window of so many ms; 0: no limit.
    quota: (u64, u64, u64),
    marks: Watermarks,
    /// Huge pages: the share of pages that have to be touched, and whether they have to pay.
    huge: (u32, bool),
}

/// The policy, as far as it explains the account.
#[derive(Debug, Clone, Default)]
pub(super) struct Plan {
    schemes: Vec<Planned>,
}

impl Plan {
    pub(super) fn of(policy: &Policy) -> Self {
        let schemes = policy.contexts.iter().flat_map(|context| {
            context.schemes.iter().map(|s| Planned {
                context: context.name.clone(),
                name: s.settings.name.clone(),
                action: s.scheme.action,
                min_age_ms: match s.scheme.pattern.age {
                    Age::Micros(age) => age.min / 1000,
                    Age::Windows(age) => {
                        u64::from(age.min).saturating_mul(context.attrs.aggr_us) / 1000
                    }
                },
                quota: {
                    let quota = &s.scheme.quota;
                    (quota.sz, quota.ms, quota.reset_interval_ms)
                },
                marks: s.scheme.watermarks,
                huge: (s.settings.min_touched_bp, s.settings.prove),
            })
        });
        Self { schemes: schemes.collect() }
    }

    fn find(&self, a: &Account) -> Option<&Planned> {
        self.schemes.iter().find(|s| s.context == a.context && s.name == a.name)
    }

    /// Why schemes with watermarks wait.
    pub(super) fn waiting(&self) -> String {
        let marks = self.schemes.iter().map(|s| s.marks);
        let marks = marks.rev().find(|m| m.metric == WatermarkMetric::FreeMemRate);
        marks.map_or_else(
            || "the watermarks do not let it work".into(),
            |marks| watermarks(&marks, free_permil()),
        )
    }

    /// What an account means, in lines. `last`: the last state of its context with regions.
    /// `waits`: whether the watermarks did not let the scheme work at the end. `proved`: what was
    /// found out last about whether its huge pages pay.
    pub(super) fn explain(
        &self,
        a: &Account,
        last: Option<&Summary>,
        waits: bool,
        dry_run: bool,
        proved: Option<&str>,
    ) -> String {
        let Some(plan) = self.find(a) else { return String::new() };
        let mut text = String::new();
        let idle = last.map(|s| s.idle.as_slice()).unwrap_or_default();
        if dry_run && plan.action == Action::Pageout {
            text += &plan.verdict(a, idle, last.and_then(|s| s.idle_summed.as_deref()));
            if last.is_some_and(|s| s.nr_targets > 1) {
                text += FORKED;
            }
        }
        if plan.action == Action::Collapse {
            let (least_bp, prove) = plan.huge;
            text += &huge::looked_at(a, least_bp, prove, proved);
        }
        if a.quota_exceeds > 0 {
            text += &plan.held_back(a, at_least(idle, plan.min_age_ms));
        }
        if waits && plan.marks.metric == WatermarkMetric::FreeMemRate {
            text += &format!("  waits: {}\n", watermarks(&plan.marks, free_permil()));
        }
        text
    }
}

impl Planned {
    /// What a dry run has found out. `summed`: `idle` as a sum over processes, if they share some.
    fn verdict(&self, a: &Account, idle: &[(u64, u64)], summed: Option<&[(u64, u64)]>) -> String {
        let ages = AGES_MS.iter().chain([&self.min_age_ms]).copied();
        let mut ages: Vec<u64> = ages.filter(|ms| *ms > 0).collect();
        ages.sort_unstable();
        ages.dedup();
        let mut text =
            "  verdict: idle memory by age, which is at most what that age would save\n".to_owned();
        for ms in ages {
            let (saved, mark) =
                (at_least(idle, ms), if ms == self.min_age_ms { "  <- this age" } else { "" });
            if saved > 0 || ms == self.min_age_ms {
                let sum = summed.map(|summed| bytes(at_least(summed, ms)));
                let sum =
                    sum.map_or_else(String::new, |sum| format!(" (sum over processes {sum})"));
                text += &format!("    {:>10}: {}{sum}{mark}\n", duration(ms), bytes(saved));
            }
        }
        if summed.is_some() {
            text += "    memory that processes share is counted once, and as idle only if it is so in \
                     all of them that were looked at\n";
        }
        let would = at_least(idle, self.min_age_ms);
        if a.done_bytes > 0 {
            let again =
                u128::from(would) * u128::from(a.refaulted_bytes) / u128::from(a.done_bytes);
            let again = u64::try_from(again).unwrap_or(u64::MAX);
            text += &format!("    expected to be touched again soon: {}\n", bytes(again));
        } else {
            text += "    nothing has passed the evidence yet; a longer run tells what would be touched \
                     again\n";
        }
        match self.drain_ms(would, a) {
            Some(ms) => {
                text += &format!("    time to drain under this quota: {}\n", duration(ms.max(1)));
            }
            None => text += "    no quota holds it back\n",
        }
        text
    }

    /// What the quota holds back.
    fn held_back(&self, a: &Account, idle: u64) -> String {
        let (sz, ms, window) = self.quota;
        let is = |used: u64, limit: u64| limit > 0 && float(used) >= float(limit) * BINDS;
        let per = if window == 1000 { "s".into() } else { duration(window) };
        let (quota, raise) = if is(a.max_window_ns, ms * 1_000_000) && !is(a.max_window_bytes, sz) {
            (format!("{ms} ms/{per} of time"), "--quota-time TIME/TIME, or none")
        } else if sz > 0 {
            (format!("{}/{per}", bytes(sz)), "--quota SIZE/TIME, or none")
        } else {
            // A goal or the brake has made it smaller.
            ("the tuned size".into(), "the goal")
        };
        let mut text =
            format!("  the quota of {quota} was used up in {}", counted(a.quota_exceeds, "window"));
        let waiting = idle.saturating_sub(a.done_bytes);
        if waiting > 0 {
            text += &format!("; at most {} still waits", bytes(waiting));
            if let Some(ms) = self.drain_ms(waiting, a) {
                text += &format!(", for about {}", duration(ms.max(1)));
            }
        }
        text + &format!("; to raise it: {raise}\n")
    }

    /// For how long this many bytes wait for the quota; none without a limit.
    fn drain_ms(&self, waiting: u64, a: &Account) -> Option<u64> {
        let (sz, ms, window) = self.quota;
        let by_size = (sz > 0).then(|| float(waiting) / float(sz) * float(window));
        let cost_ns = float(a.action_ns) / float(a.done_bytes.max(1));
        let by_time = (ms > 0 && a.done_bytes > 0)
            .then(|| float(waiting) * cost_ns / (float(ms) * 1e6) * float(window));
        let most = by_size.into_iter().chain(by_time).reduce(f64::max)?;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "not below 0")]
        let most = most as u64;
        Some(most)
    }
}

/// What was refused, in plain words. The numbers are those that the kernel gives for calls on
/// another process's memory.
pub(super) fn refusal(errno: i32) -> &'static str {
    match errno {
        1 | 13 => "not allowed: a capability is missing, or the process protects itself",
        3 => "the process has ended",
        4 | 11 => "the pages were busy just then",
        5 => "the swap device or the disk reported an error",
        12 => "unmapped meanwhile, or no memory or swap to do it with",
        14 => "no longer mapped",
        16 => "in use by the kernel just then: being written, or pinned for a device",
        22 => {
            "cannot be acted on: locked, memory of a device, or of a kind that this action does not \
               take"
        }
        28 => "no swap is free",
        _ => "refused by the kernel",
    }
}

/// What is said of bytes of several processes. Their mappings do not tell which of their own pages
/// are the same.
const FORKED: &str =
    "    anonymous memory that processes still share after a fork counts in each of them\n";

/// What the kernel took without an error and then left where it was.
pub(super) const LEFT: &str = "left in place by the kernel: shared with another process (after a fork), locked, or no swap free";

/// Says how much memory is free, and between which marks a scheme works.
fn watermarks(marks: &Watermarks, free: Option<u64>) -> String {
    let percent = |permil: u64| match permil % 10 {
        0 => format!("{} %", permil / 10),
        rest => format!("{}.{rest} %", permil / 10),
    };
    let free =
        free.map_or_else(String::new, |free| format!("{} of memory is free; ", percent(free)));
    format!(
        "{free}it works between {} and {} (and starts below {})",
        percent(marks.low),
        percent(marks.high),
        percent(marks.mid)
    )
}

fn free_permil() -> Option<u64> {
    Metrics::default().read(Metric::FreeMemRate, &[]).ok()
}

/// Bytes that were idle for at least so long.
fn at_least(idle: &[(u64, u64)], ms: u64) -> u64 {
    idle.iter().filter(|(age, _)| *age >= ms).map(|(_, bytes)| bytes).sum()
}

fn duration(ms: u64) -> String {
    span(float(ms) * 1e6)
}

#[expect(clippy::cast_precision_loss, reason = "for people")]
fn float(x: u64) -> f64 {
    x as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn planned() -> Planned {
        Planned {
            context: "c".into(),
            name: "reclaim".into(),
            action: Action::Pageout,
            min_age_ms: 10_000,
            quota: (1 << 20, 10, 1000),
            huge: (5_000, false),
            marks: Watermarks {
                metric: WatermarkMetric::FreeMemRate,
                interval_us: 5_000_000,
                high: 500,
                mid: 400,
                low: 205,
            },
        }
    }

    fn account() -> Account {
        Account {
            context: "c".into(),
            name: "reclaim".into(),
            done_bytes: 4 << 20,
            refaulted_bytes: 1 << 20,
            action_ns: 4_000_000,
            max_window_bytes: 1 << 20,
            quota_exceeds: 3,
            ..Account::default()
        }
    }

    #[test]
    fn the_watermarks_are_told_with_what_is_free() {
        let text = watermarks(&planned().marks, Some(830));
        assert_eq!(
            text,
            "83 % of memory is free; it works between 20.5 % and 50 % (and starts below 40 %)"
        );
    }

    #[test]
    fn a_dry_run_says_what_each_age_would_save_and_how_long_it_takes() {
        let idle = [(2_000, 8 << 20), (12_000, 12 << 20), (70_000, 20 << 20)];
        let text = planned().verdict(&account(), &idle, None);
        for part in [
            "1.00 s: 40.0 MiB",
            "10.0 s: 32.0 MiB  <- this age",
            "60.0 s: 20.0 MiB",
            "touched again soon: 8.00 MiB",
            "time to drain under this quota: 32.0 s",
        ] {
            assert!(text.contains(part), "no `{part}` in {text}");
        }
    }

    #[test]
    fn of_several_processes_it_says_how_shared_memory_counts() {
        let plan = Plan { schemes: vec![planned()] };
        let explain = |last: Summary| plan.explain(&account(), Some(&last), false, true, None);
        let idle = vec![(12_000, 12 << 20)];
        let one = Summary { nr_targets: 1, idle: idle.clone(), ..Summary::default() };
        let apart = Summary { nr_targets: 2, ..one.clone() };
        let shared = Summary { idle_summed: Some(vec![(12_000, 30 << 20)]), ..apart.clone() };
        let [one, apart, shared] = [one, apart, shared].map(explain);
        assert!(!one.contains("processes"), "{one}");
        assert!(apart.contains(FORKED) && !apart.contains("sum over"), "{apart}");
        for part in ["10.0 s: 12.0 MiB (sum over processes 30.0 MiB)  <- this age", "counted once"]
        {
            assert!(shared.contains(part), "no `{part}` in {shared}");
        }
    }

    #[test]
    fn a_quota_that_binds_is_named_with_what_waits() {
        let text = planned().held_back(&account(), 36 << 20);
        assert_eq!(
            text,
            "  the quota of 1.00 MiB/s was used up in 3 windows; at most 32.0 MiB still waits, for \
             about 32.0 s; to raise it: --quota SIZE/TIME, or none\n"
        );
        let slow = Account { max_window_bytes: 1000, max_window_ns: 10_000_000, ..account() };
        let text = planned().held_back(&slow, 0);
        assert!(text.contains("10 ms/s of time") && text.contains("--quota-time"), "{text}");
    }
}
