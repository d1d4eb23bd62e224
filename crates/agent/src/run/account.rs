//! What a scheme did, and how it stands.

use std::collections::BTreeMap;

use isotherm_act::apply;
use isotherm_core::Scheme;
use isotherm_core::scheme::Installed;
use isotherm_ops::kdamond::Counted;
use serde::Serialize;

use crate::policy::SchemePolicy;

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
    /// What was counted at a scheme's place in a context; nothing yet if it is not installed.
    pub(super) fn new(
        context: &str,
        scheme: &SchemePolicy,
        installed: Option<&Installed>,
        account: Option<&apply::Account>,
    ) -> Self {
        let stats = installed.map(|i| *i.stats()).unwrap_or_default();
        let account = account.cloned().unwrap_or_default();
        Self {
            context: context.to_owned(),
            name: scheme.settings.name.clone(),
            action: scheme.scheme.action.name(),
            tried_bytes: stats.sz_tried,
            passed_bytes: stats.sz_ops_filter_passed,
            asked_bytes: account.asked_bytes,
            done_bytes: account.done_bytes,
            refaulted_bytes: account.refaulted_bytes,
            applied_bytes: stats.sz_applied,
            refused_bytes: account.refused_bytes,
            refused_errno: account.refused,
            confirmed_bytes: account.confirmed_bytes,
            refuted_bytes: account.refuted_bytes,
            filtered_bytes: account.filtered_bytes,
            unreached_bytes: account.unreached_bytes,
            unreached: account.unreached,
            armed_bytes: account.armed_bytes,
            deferred: stats.nr_deferred,
            quota_exceeds: stats.qt_exceeds,
            action_ns: account.action_ns,
            windows: stats.nr_snapshots,
            max_window_bytes: stats.max_window_sz,
            max_window_ns: stats.max_window_ns,
            blocked: None,
        }
    }

    /// What the kernel counted of a scheme that was pushed down. What was done is not proven, and so not told.
    pub(super) fn of_kernel(context: &str, scheme: &SchemePolicy, counted: &Counted) -> Self {
        let stats = &counted.stats;
        Self {
            context: context.to_owned(),
            name: scheme.settings.name.clone(),
            action: scheme.scheme.action.name(),
            tried_bytes: stats.sz_tried,
            passed_bytes: stats.sz_ops_filter_passed,
            // The kernel asks for all that it tries and the filters let in.
            asked_bytes: stats.sz_tried,
            applied_bytes: stats.sz_applied,
            quota_exceeds: stats.qt_exceeds,
            windows: stats.nr_snapshots,
            ..Self::default()
        }
    }

    /// The numbers that add up.
    const fn sums(&mut self) -> [&mut u64; 16] {
        [
            &mut self.tried_bytes,
            &mut self.passed_bytes,
            &mut self.asked_bytes,
            &mut self.done_bytes,
            &mut self.refaulted_bytes,
            &mut self.applied_bytes,
            &mut self.refused_bytes,
            &mut self.confirmed_bytes,
            &mut self.refuted_bytes,
            &mut self.filtered_bytes,
            &mut self.unreached_bytes,
            &mut self.armed_bytes,
            &mut self.deferred,
            &mut self.quota_exceeds,
            &mut self.action_ns,
            &mut self.windows,
        ]
    }

    /// Adds what the same scheme did before a commit moved it.
    pub(super) fn add(&mut self, before: &Self) {
        for (sum, more) in self.sums().into_iter().zip(before.clone().sums()) {
            *sum += *more;
        }
        for (errno, bytes) in &before.refused_errno {
            *self.refused_errno.entry(*errno).or_default() += bytes;
        }
        for (why, bytes) in &before.unreached {
            *self.unreached.entry(why).or_default() += bytes;
        }
        self.max_window_bytes = self.max_window_bytes.max(before.max_window_bytes);
        self.max_window_ns = self.max_window_ns.max(before.max_window_ns);
    }

    /// Takes away what another scheme did at the same place. The largest window stays: it may have been the
    /// other's.
    pub(super) fn subtract(&mut self, before: &Self) {
        for (sum, less) in self.sums().into_iter().zip(before.clone().sums()) {
            *sum = sum.saturating_sub(*less);
        }
        for (errno, bytes) in &before.refused_errno {
            if let Some(sum) = self.refused_errno.get_mut(errno) {
                *sum = sum.saturating_sub(*bytes);
            }
        }
        for (why, bytes) in &before.unreached {
            if let Some(sum) = self.unreached.get_mut(why) {
                *sum = sum.saturating_sub(*bytes);
            }
        }
        self.unreached.retain(|_, bytes| *bytes > 0);
        self.refused_errno.retain(|_, bytes| *bytes > 0);
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
            target: goal.target,
            current: goal.current,
        });
        Self {
            account,
            active: true,
            esz_bytes: counted.esz.filter(|_| scheme.quota.is_set()),
            charged_bytes: 0,
            goals: goals.collect(),
        }
    }

    /// How a scheme of a context stands.
    pub(super) fn new(account: Account, installed: &Installed) -> Self {
        let (quota, state) = (&installed.scheme().quota, installed.quota());
        let goals = quota.goals.iter().map(|goal| GoalStanding {
            metric: goal.metric.name(),
            target: goal.target,
            current: goal.current,
        });
        Self {
            account,
            active: installed.is_active(),
            esz_bytes: state.is_limited(quota).then_some(state.esz),
            charged_bytes: state.charged_sz,
            goals: goals.collect(),
        }
    }
}
