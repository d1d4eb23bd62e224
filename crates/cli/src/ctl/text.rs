//! Replies of the agent, for people.

use isotherm::raw::core::units::{bytes, counted, show_interval, show_share, span};
use isotherm_control::types::{
    Accounts, Context, Fleet, FleetState, Policies, Policy, Snapshot, Snapshots, State, Status,
};

/// Rows as columns, each as wide as its widest cell. The last one is not padded.
pub(super) fn columns(rows: &[Vec<String>]) -> String {
    let count = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |at: usize| rows.iter().filter_map(|r| r.get(at)).map(|c| c.chars().count()).max();
    let widths: Vec<usize> = (0..count).map(|at| width(at).unwrap_or(0)).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            line.push_str(&format!("{cell:<width$}  "));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

pub(super) fn head(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[expect(clippy::cast_precision_loss, reason = "shown with three digits")]
pub(super) fn time(ns: u64) -> String {
    span(ns as f64)
}

pub(super) fn status(status: &Status) -> String {
    #[expect(clippy::cast_precision_loss, reason = "shown with two digits")]
    let cpu = status.cpu_ns as f64 * 100.0 / status.uptime_ns.max(1) as f64;
    let mut text = format!(
        "isotherm {} (process {}), up {}; own cpu {cpu:.2} % of one, own memory {}; {}\n",
        status.version,
        status.pid,
        time(status.uptime_ns),
        bytes(status.rss_bytes),
        counted(status.clients, "client"),
    );
    if status.most_rss_bytes > 0 {
        text += &format!("memory of its own at most {}\n", bytes(status.most_rss_bytes));
    }
    if let Some(short) = &status.short {
        text += &format!("  {short}\n");
    }
    text += &format!("budget {} of one CPU for all policies\n", show_share(status.budget_bp));
    if let Some(history) = &status.history {
        text += &format!(
            "history {} of at most {} in {}\n",
            bytes(history.bytes),
            bytes(history.most_bytes),
            counted(history.records, "record"),
        );
        if let Some(trouble) = &history.trouble {
            text += &format!("  {trouble}\n");
        }
    }
    if let Some(fleet) = &status.fleet {
        text += &format!(
            "fleet data {} in {} below {}; {} written\n",
            bytes(fleet.bytes),
            counted(fleet.parts, "part"),
            fleet.dir,
            counted(fleet.rows, "row"),
        );
        text += &not_written(fleet);
    }
    text += "\n";
    text + &policies(&status.policies)
}

/// What is wrong with the writing of fleet data.
fn not_written(fleet: &Fleet) -> String {
    let mut text = String::new();
    if let Some(state @ (FleetState::Failing | FleetState::Stuck)) = fleet.state {
        let last = match fleet.written_ns {
            Some(ns) => format!("{} ago", time(ns)),
            None => "never".to_owned(),
        };
        let since = time(fleet.state_ns.unwrap_or(0));
        text += &format!("  {} for {since}; last written as a whole: {last}\n", state.name());
    }
    if fleet.lost_rows > 0 {
        text += &format!("  {} lost\n", counted(fleet.lost_rows, "row"));
    }
    if let Some(panics) = fleet.panics.filter(|panics| *panics > 0) {
        text += &format!(
            "  {} (please report them; the log has more)\n",
            counted(panics, "internal error")
        );
    }
    if let Some(trouble) = &fleet.trouble {
        text += &format!("  {trouble}\n");
    }
    text
}

fn policies(policies: &[Policy]) -> String {
    if policies.is_empty() {
        return "no policy; `isotherm ctl commit NAME FILE` makes one\n".to_owned();
    }
    let mut rows = vec![head(&["POLICY", "STATE", "CONTEXTS", "TARGETS", "WORKING SET", "CPU"])];
    let mut notes = String::new();
    for policy in policies {
        let sum = |of: fn(&Context) -> u64| -> u64 { policy.contexts.iter().map(of).sum() };
        let runs = matches!(policy.state, State::Running | State::Paused);
        let held = policy.held.as_ref().filter(|_| runs);
        rows.push(vec![
            policy.name.clone(),
            if held.is_some() { "held" } else { policy.state.name() }.to_owned(),
            policy.contexts.len().to_string(),
            sum(|c| c.targets).to_string(),
            bytes(sum(|c| c.working_set_bytes)),
            time(sum(|c| c.cpu_ns)),
        ]);
        if let Some(held) = held {
            notes += &format!("{}: only watches ({}): {}\n", policy.name, held.by, held.why);
        }
        if let Some(tuned) = &policy.tuned {
            notes += &format!("{}: tuned online: {tuned}\n", policy.name);
        }
        if let Some(why) = &policy.why {
            let retry = match (policy.state, policy.retry_ms) {
                (State::Waiting, Some(ms)) => format!(" (tried again in {} s)", ms.div_ceil(1000)),
                _ => String::new(),
            };
            notes += &format!("{}{retry}: {}\n", policy.name, why.replace('\n', "\n  "));
        }
    }
    let table = columns(&rows);
    if notes.is_empty() { table } else { format!("{table}\n{notes}") }
}

/// How many targets have no place, and for how long the first of them was not watched.
fn waiting(c: &Context) -> String {
    match c.waiting {
        0 => "-".to_owned(),
        nr => format!("{nr}, {}", time(c.longest_wait_ns)),
    }
}

pub(super) fn list(list: &Policies) -> String {
    let mut text = policies(&list.policies);
    let mut rows = vec![head(&[
        "POLICY",
        "CONTEXT",
        "STATE",
        "SET",
        "TARGETS",
        "WAITING",
        "REGIONS",
        "WORKING SET",
        "WINDOW",
        "BUDGET",
        "BLOCKED",
    ])];
    for policy in &list.policies {
        for c in &policy.contexts {
            let blocked = c.blocked.clone().unwrap_or_default().replace('\n', " ");
            rows.push(vec![
                policy.name.clone(),
                c.name.clone(),
                c.state.map_or("-", State::name).to_owned(),
                c.ops.clone(),
                c.targets.to_string(),
                waiting(c),
                c.regions.to_string(),
                bytes(c.working_set_bytes),
                show_interval(c.aggr_us),
                show_share(c.budget_bp),
                blocked,
            ]);
        }
    }
    if rows.len() > 1 {
        text.push('\n');
        text += &columns(&rows);
    }
    text
}

pub(super) fn snapshots(all: &Snapshots) -> String {
    if all.snapshots.is_empty() {
        return "nothing is watched that matches\n".to_owned();
    }
    all.snapshots.iter().map(snapshot).collect::<Vec<_>>().join("\n")
}

fn snapshot(snapshot: &Snapshot) -> String {
    let Snapshot { policy, context, ops, .. } = snapshot;
    let window = time(snapshot.end_ns.saturating_sub(snapshot.start_ns));
    let mut text = format!(
        "{policy} / {context}: working set {}, windows of {window} ({ops})\n",
        bytes(snapshot.working_set_bytes)
    );
    let mut rows = vec![head(&["PID", "NAME", "REGIONS", "HOT", "IDLE", "UNKNOWN", "TOUCHED"])];
    for target in &snapshot.targets {
        let sum = |of: fn(&isotherm_control::types::Region) -> bool| -> String {
            let regions = target.regions.iter().filter(|r| of(r));
            bytes(regions.map(|r| r.end.saturating_sub(r.start)).sum())
        };
        let touched =
            target.touched.iter().map(|t| format!("{} in {}", bytes(t.bytes), time(t.span_ns)));
        rows.push(vec![
            target.pid.to_string(),
            target.name.clone(),
            target.regions.len().to_string(),
            sum(|r| r.resolved && r.nr_accesses > 0),
            sum(|r| r.resolved && r.nr_accesses == 0),
            sum(|r| !r.resolved),
            touched.collect::<Vec<_>>().join(", "),
        ]);
    }
    text += &columns(&rows);
    text
}

pub(super) fn accounts(all: &Accounts) -> String {
    if all.schemes.is_empty() {
        return "no scheme has begun\n".to_owned();
    }
    let mut rows = vec![head(&[
        "POLICY",
        "CONTEXT",
        "SCHEME",
        "ACTION",
        "STATE",
        "TRIED",
        "ASKED",
        "DONE",
        "REFAULTED",
        "TIME",
    ])];
    for a in &all.schemes {
        let state = match (&a.blocked, a.dry_run, a.active) {
            (Some(_), _, _) => "blocked",
            (None, true, _) => "dry run",
            (None, false, true) => "active",
            (None, false, false) => "waits",
        };
        rows.push(vec![
            a.policy.clone(),
            a.context.clone(),
            a.name.clone(),
            a.action.clone(),
            state.to_owned(),
            bytes(a.tried_bytes),
            bytes(a.asked_bytes),
            bytes(a.done_bytes),
            bytes(a.refaulted_bytes),
            time(a.action_ns),
        ]);
    }
    columns(&rows)
}
