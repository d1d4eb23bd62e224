//! What a scheme did so far (its account), and its present state (its standing).

mod context;
mod kernel;

use std::collections::BTreeMap;

use isotherm_core::Scheme;
use isotherm_core::scheme::{Counters, Installed};
use isotherm_ops::kdamond::Counted;
use serde::Serialize;

pub(super) use kernel::KernelAccounts;

/// What a scheme did from its start until now. docs/EVENTS.md documents the keys.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Account {
    /// The context.
    pub context: String,
    /// The scheme.
    pub name: String,
    /// Its action.
    pub action: &'static str,
    /// Bytes of the regions that the scheme was tried on.
    pub tried_bytes: u64,
    /// Bytes of these that passed the page filters, from the scheme's own statistics.
    pub passed_bytes: u64,
    /// Bytes that the kernel was asked to act on. In a dry run: bytes that it would have been asked
    /// for.
    pub asked_bytes: u64,
    /// Bytes of these for which a look afterwards showed that the kernel did act.
    pub done_bytes: u64,
    /// Whether the scheme only decides and counts.
    pub dry_run: bool,
    /// Bytes of these that were not acted on, since it was a dry run. A commit can begin or end it.
    pub pretended_bytes: u64,
    /// Bytes done that were touched again within the refault window.
    pub refaulted_bytes: u64,
    /// Bytes acted on, from the scheme's own statistics (`sz_applied` of DAMON).
    pub applied_bytes: u64,
    /// Bytes that were moved back, within a minute, to the node that they had been moved away from.
    pub ping_pong_bytes: u64,
    /// Bytes that the kernel refused.
    pub refused_bytes: u64,
    /// The refused bytes by error code (errno). The sum can be smaller, since only some codes are
    /// kept.
    pub refused_errno: BTreeMap<i32, u64>,
    /// Bytes that stayed untouched for the confirm time.
    pub confirmed_bytes: u64,
    /// Bytes that were armed (made old), and touched before the confirm time was over.
    pub refuted_bytes: u64,
    /// Confirmed bytes that the filters kept from the action.
    pub filtered_bytes: u64,
    /// Bytes of physical memory that could not be acted on, because not exactly one process maps
    /// them.
    pub unreached_bytes: u64,
    /// The unreached bytes by reason: `unmapped`, `shared`, `own`, `gone`.
    pub unreached: BTreeMap<&'static str, u64>,
    /// Bytes made old to gather evidence.
    pub armed_bytes: u64,
    /// Bytes that the monitor had made old, and that were taken over as evidence.
    pub adopted_bytes: u64,
    /// Bytes that were waited for: those armed, those taken over, and those that were old already.
    pub waited_bytes: u64,
    /// Huge pages only: bytes of the units of 2 MiB that were looked at, each counted once.
    pub looked_bytes: u64,
    /// Those of them of which enough pages were touched, at the best look.
    pub dense_bytes: u64,
    /// Those of them that one huge page mapped already.
    pub huge_bytes: u64,
    /// The largest share of a unit's pages that was seen touched, in basis points.
    pub most_touched_bp: u64,
    /// How many times a region matched, but evidence was still lacking.
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
    /// Why actions are blocked; none if they are not.
    pub blocked: Option<String>,
}

impl Account {
    /// Makes an account from a scheme's counters, with the names of docs/EVENTS.md.
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
            dry_run: false,
            pretended_bytes: counters.pretended_bytes,
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
            adopted_bytes: counters.adopted_bytes,
            waited_bytes: counters.waited_bytes,
            looked_bytes: counters.looked_bytes,
            dense_bytes: counters.dense_bytes,
            huge_bytes: counters.huge_bytes,
            most_touched_bp: counters.most_touched_bp,
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

/// The present state of a scheme.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Standing {
    /// What the scheme did so far.
    #[serde(flatten)]
    pub account: Account,
    /// Whether the watermarks let it work.
    pub active: bool,
    /// Bytes that the scheme may use in this quota window; none if there is no limit.
    pub esz_bytes: Option<u64>,
    /// Bytes charged in this quota window.
    pub charged_bytes: u64,
    /// The goals, each with its metric, its target and the last measured value.
    pub goals: Vec<GoalStanding>,
    /// Bytes that match the pattern on the scheme's source node; 0 if the scheme has none.
    pub eligible_bytes: u64,
    /// How often the scheme rested because its destination had no room.
    pub rests: u64,
}

/// The present state of a goal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GoalStanding {
    /// The metric.
    pub metric: &'static str,
    /// The target that is in force, in the metric's unit.
    pub target: u64,
    /// The last measured value, in the metric's unit.
    pub current: u64,
}

impl Standing {
    /// The state of a scheme that the kernel applies.
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

    /// The state of a scheme that Isotherm's engine applies.
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
