//! The account at the end of a run: what every scheme did, as text and as JSON.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use isotherm::raw::agent::policy::print;
use isotherm::raw::agent::run::{Account, Values};
use isotherm::raw::core::units::{bytes, counted};
use serde::Serialize;

use super::stopped::Stopped;
use super::verdict;

/// What a run did; docs/EVENTS.md documents the keys.
#[derive(Debug, Serialize)]
pub(super) struct Final {
    pub(super) elapsed_ns: u64,
    pub(super) own_cpu_ns: u64,
    pub(super) own_rss_bytes: u64,
    pub(super) stopped: Stopped,
    pub(super) dry_run: bool,
    pub(super) schemes: Vec<Account>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tuned: Option<Tuned>,
    /// What the account of a scheme means, by context and name; for people only.
    #[serde(skip)]
    pub(super) explained: BTreeMap<(String, String), String>,
}

/// What a policy was tuned to while it ran.
#[derive(Debug, Serialize)]
pub(super) struct Tuned {
    /// The values at the end, as `cold.age=5s`, separated by blanks.
    values: String,
    /// Those that the policy has itself.
    began: String,
    /// The policy with the values at the end.
    policy: String,
}

impl From<Values> for Tuned {
    fn from(values: Values) -> Self {
        Self { policy: print(&values.policy), values: values.now, began: values.began }
    }
}

impl Final {
    /// The account as a few lines of text.
    pub(super) fn text(&self) -> String {
        #[expect(clippy::cast_precision_loss, reason = "shown with a few digits")]
        let (seconds, cpu) = (self.elapsed_ns as f64 / 1e9, self.own_cpu_ns as f64 / 1e9);
        let mut text = format!(
            "{} after {seconds:.1} s; own cpu {:.2} %, own memory {}\n",
            self.stopped.text(),
            cpu * 100.0 / seconds.max(1e-9),
            bytes(self.own_rss_bytes),
        );
        for scheme in &self.schemes {
            // Writing to a string cannot fail.
            write!(text, "{}", self.scheme(scheme)).ok();
        }
        if let Some(Tuned { values, began, .. }) = &self.tuned {
            text += &if values == began {
                format!("tuned: {values}, as in the policy\n")
            } else {
                format!("tuned: {values}; the policy has {began} (`-o FILE` writes another)\n")
            };
        }
        text
    }

    fn scheme(&self, a: &Account) -> String {
        let mut text = format!("{} / {} ({}): ", a.context, a.name, a.action);
        if a.action == "stat" {
            let windows = counted(a.windows, "window");
            text += &format!("matched {} over {windows}\n", bytes(a.tried_bytes));
            if a.passed_bytes > 0 {
                text += &format!("  passed the page filters: {}\n", bytes(a.passed_bytes));
            }
            return text;
        }
        #[expect(clippy::cast_precision_loss, reason = "shown with two digits")]
        let (share, ms) = (
            a.refaulted_bytes as f64 * 100.0 / a.done_bytes.max(1) as f64,
            a.action_ns as f64 / 1e6,
        );
        let explained = self.explained.get(&(a.context.clone(), a.name.clone()));
        if a.dry_run {
            text += "a dry run\n";
            text += explained.map_or("", String::as_str);
            text += "  ";
        }
        let refaulted = bytes(a.refaulted_bytes);
        // A commit can end a dry run, so that a part was done.
        let done = a.done_bytes.saturating_sub(a.pretended_bytes);
        text += &if a.dry_run && done == 0 {
            format!(
                "would have acted on {}; {refaulted} of it ({share:.2} %) were touched again soon\n",
                bytes(a.pretended_bytes)
            )
        } else {
            let pretended = match a.pretended_bytes {
                0 => String::new(),
                dry => format!(", by dry run {}", bytes(dry)),
            };
            format!(
                "asked for {}, done {}{pretended}, touched again {refaulted} ({share:.2} %), refused {}\n",
                bytes(a.asked_bytes.saturating_sub(a.pretended_bytes)),
                bytes(done),
                bytes(a.refused_bytes)
            )
        };
        text += &format!(
            "  time {ms:.1} ms, at most {:.1} ms and {} in a window; quota used up {} times\n",
            ms_of(a.max_window_ns),
            bytes(a.max_window_bytes),
            a.quota_exceeds,
        );
        for (errno, refused) in &a.refused_errno {
            text += &format!("  refused: {} ({})\n", bytes(*refused), verdict::refusal(*errno));
        }
        let known: u64 = a.refused_errno.values().sum();
        let left = a.asked_bytes.saturating_sub(a.done_bytes + a.refused_bytes.max(known));
        if left > 0 && !a.dry_run && a.action == "pageout" {
            text += &format!("  not done: {} ({})\n", bytes(left), verdict::LEFT);
        }
        text += &evidence(a);
        for (why, unreached) in &a.unreached {
            let means = match *why {
                "unmapped" => "no process maps it",
                "shared" => "several processes map it",
                "own" => "Isotherm's own memory",
                _ => "moved or freed meanwhile",
            };
            text += &format!("  unreached: {} ({means})\n", bytes(*unreached));
        }
        text += explained.filter(|_| !a.dry_run).map_or("", String::as_str);
        if let Some(why) = &a.blocked {
            text += &format!("  blocked: {why}\n");
        }
        text
    }
}

/// What the evidence said.
fn evidence(a: &Account) -> String {
    if a.confirmed_bytes + a.refuted_bytes == 0 {
        return String::new();
    }
    format!(
        "  evidence: waited for {} ({} made old by the monitor before, {} by the scheme); \
         then untouched {}, touched {}; kept by filters {}\n",
        bytes(a.waited_bytes),
        bytes(a.adopted_bytes),
        bytes(a.armed_bytes),
        bytes(a.confirmed_bytes),
        bytes(a.refuted_bytes),
        bytes(a.filtered_bytes)
    )
}

#[expect(clippy::cast_precision_loss, reason = "shown with one digit")]
fn ms_of(ns: u64) -> f64 {
    ns as f64 / 1e6
}
