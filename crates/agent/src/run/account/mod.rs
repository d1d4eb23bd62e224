//! What a scheme did, and how it stands.

mod context;
mod kernel;

use std::collections::BTreeMap;

use isotherm_core::Scheme;
use isotherm_core::scheme::{Counters, Installed};
use isotherm_ops::kdamond::Counted;
use serde::Serialize;

pub(super) use kernel::KernelAccounts;

/// What a scheme did over its life. The keys are documented in docs/EVENTS.md.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Account {
    /// The context.
    pub context: String,
    /// The scheme.
    pub name: String,
    /// Its action.
    pub action: &'static str,
    /// Bytes of the regions that it was tried on.
    pub tried_bytes: u64,
    /// Bytes of these that the page filters let in, as the scheme's own statistics have it.
    pub passed_bytes: u64,
    /// Bytes that the kernel was asked to act on; in a dry run: would have been.
    pub asked_bytes: u64,
    /// Bytes for which a look afterwards showed that it had.
    pub done_bytes: u64,
    /// Bytes done that were touched again within the refault window.
    pub refaulted_bytes: u64,
    /// Bytes acted on, as the scheme's own statistics have it.
    pub applied_bytes: u64,
    /// Bytes that came back to the node that they were moved away from within a minute.
    pub ping_pong_bytes: u64,
    /// Bytes that the kernel refused.
    pub refused_bytes: u64,
    /// The same by the kernel's answer (errno); the sum can be less.
    pub refused_errno: BTreeMap<i32, u64>,
    /// Bytes that stayed untouched for the confirm time.
    pub confirmed_bytes: u64,
    /// Bytes that were armed and touched before the confirm time was over.
    pub refuted_bytes: u64,
    /// Bytes confirmed that the filters kept.
    pub filtered_bytes: u64,
    /// Bytes of physical memory that no process alone maps, so that they could not be reached.
    pub unreached_bytes: u64,
    /// The same by reason: `unmapped`, `shared`, `own`, `gone`.
    pub unreached: BTreeMap<&'static str, u64>,
    /// Bytes made old to gather evidence.
    pub armed_bytes: u64,
    /// Times that a region matched and nothing was done yet, for lack of evidence.
    pub deferred: u64,
    /// Windows in which the quota was used up.
    pub quota_exceeds: u64,
    /// Time that acting and gathering evidence took, in ns.
    pub action_ns: u64,
    /// Passes over all regions.
    pub windows: u64,
    /// The most bytes charged in one quota window.
    pub max_window_bytes: u64,
    /// The most time used in one quota window, in ns.
    pub max_window_ns: u64,
    /// Why nothing is done, if so.
    pub blocked: Option<String>,
}

impl Account {
    /// The counters of a scheme in the words of docs/EVENTS.md.
    pub(super) fn new(
        context: &str,
        name: String,
        action: &'static str,
        counters: Counters,
    ) -> Self {
        Self {
            context: context.to_owned(),
            name,
            action,
            tried_bytes: counters.sz_tried,
            passed_bytes: counters.sz_ops_filter_passed,
            asked_bytes: counters.asked_bytes,
            done_bytes: counters.done_bytes,
            refaulted_bytes: counters.refaulted_bytes,
            applied_bytes: counters.sz_applied,
            ping_pong_bytes: counters.ping_pong_bytes,
            refused_bytes: counters.refused_bytes,
            refused_errno: counters.refused,
            confirmed_bytes: counters.confirmed_bytes,
            refuted_bytes: counters.refuted_bytes,
            filtered_bytes: counters.filtered_bytes,
            unreached_bytes: counters.unreached_bytes,
            unreached: counters.unreached,
            armed_bytes: counters.armed_bytes,
            deferred: counters.nr_deferred,
            quota_exceeds: counters.qt_exceeds,
            action_ns: counters.action_ns,
            windows: counters.nr_snapshots,
            max_window_bytes: counters.max_window_sz,
            max_window_ns: counters.max_window_ns,
            blocked: None,
        }
    }
}

/// How a scheme stands now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Standing {
    /// What it did.
    #[serde(flatten)]
    pub account: Account,
    /// Whether the watermarks let it work.
    pub active: bool,
    /// Bytes that this quota window may use; none: no limit.
    pub esz_bytes: Option<u64>,
    /// Bytes charged in this quota window.
    pub charged_bytes: u64,
    /// The goals: metric, wanted, measured last.
    pub goals: Vec<GoalStanding>,
    /// Bytes that match the pattern on the node that the scheme takes from; 0 if it takes from
    /// everywhere.
    pub eligible_bytes: u64,
    /// How often it rested because its destination had no room.
    pub rests: u64,
}

/// How a goal stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GoalStanding {
    /// The metric.
    pub metric: &'static str,
    /// What is wanted, in the metric's unit.
    pub target: u64,
    /// What was measured last.
    pub current: u64,
}

impl Standing {
    /// How a scheme that was pushed down stands.
    pub(super) fn of_kernel(account: Account, scheme: &Scheme, counted: &Counted) -> Self {
        let goals = scheme.quota.goals.iter().map(|goal| GoalStanding {
            metric: goal.metric.name(),
            target: goal.target_now(),
            current: goal.current,
        });
        Self {
            account,
            active: true,
            esz_bytes: counted.esz.filter(|_| scheme.quota.is_set()),
            charged_bytes: 0,
            goals: goals.collect(),
            eligible_bytes: 0,
            rests: 0,
        }
    }

    /// How a scheme of a context stands.
    pub(super) fn new(account: Account, installed: &Installed) -> Self {
        let (quota, state) = (&installed.scheme().quota, installed.quota());
        let goals = quota.goals.iter().map(|goal| GoalStanding {
            metric: goal.metric.name(),
            target: goal.target_now(),
            current: goal.current,
        });
        Self {
            account,
            active: installed.is_active(),
            esz_bytes: state.is_limited(quota).then_some(state.esz),
            charged_bytes: state.charged_sz,
            goals: goals.collect(),
            eligible_bytes: installed.eligible_bytes(),
            rests: installed.nr_rests(),
        }
    }
}
