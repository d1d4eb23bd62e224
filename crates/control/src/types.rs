//! The types of the interface. [`INTERFACE`](crate::INTERFACE) says what each field is.

#![expect(missing_docs, reason = "the interface's description says what each field is")]

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What a policy is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It is being checked, and its sets are being tested.
    #[default]
    Starting,
    /// All its contexts run.
    Running,
    /// Its contexts keep what they know, and neither look nor act.
    Paused,
    /// Somebody asked for that.
    Stopped,
    /// It is tried again later.
    Waiting,
    /// Its text is no policy.
    Invalid,
}

impl State {
    /// Its name in the interface.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Stopped => "stopped",
            Self::Waiting => "waiting",
            Self::Invalid => "invalid",
        }
    }
}

/// Whether fleet data is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FleetState {
    /// All of the last interval was.
    Writing,
    /// Some of the last interval was not.
    Failing,
    /// The thread that writes has not come back for a minute.
    Stuck,
}

impl FleetState {
    /// Its name in the interface.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Writing => "writing",
            Self::Failing => "failing",
            Self::Stuck => "stuck",
        }
    }
}

macro_rules! types {
    ($($(#[$doc:meta])* $name:ident { $($field:ident: $type:ty,)* })*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
        pub struct $name { $(pub $field: $type,)* }
    )*};
}

types! {
    /// A context of a policy that runs.
    Context {
        name: String,
        ops: String,
        targets: u64,
        waiting: u64,
        longest_wait_ns: u64,
        regions: u64,
        working_set_bytes: u64,
        sample_us: u64,
        aggr_us: u64,
        budget_bp: u64,
        cpu_ns: u64,
        blocked: Option<String>,
        state: Option<State>,
    }
    /// What keeps a policy from acting.
    Held {
        by: String,
        why: String,
    }
    /// A policy.
    Policy {
        name: String,
        state: State,
        file: Option<String>,
        why: Option<String>,
        tries: u64,
        retry_ms: Option<u64>,
        commits: u64,
        tuned: Option<String>,
        held: Option<Held>,
        contexts: Vec<Context>,
    }
    /// The records that the agent keeps.
    History {
        bytes: u64,
        most_bytes: u64,
        records: u64,
        dropped_records: u64,
        trouble: Option<String>,
    }
    /// The fleet data that the agent writes.
    Fleet {
        dir: String,
        session: String,
        bytes: u64,
        parts: u64,
        rows: u64,
        lost_rows: u64,
        dropped_parts: u64,
        trouble: Option<String>,
        state: Option<FleetState>,
        state_ns: Option<u64>,
        written_ns: Option<u64>,
        failures: Option<u64>,
        panics: Option<u64>,
    }
    /// What a scheme did since it started.
    Account {
        policy: String,
        context: String,
        name: String,
        action: String,
        active: bool,
        dry_run: bool,
        blocked: Option<String>,
        windows: u64,
        tried_bytes: u64,
        asked_bytes: u64,
        done_bytes: u64,
        refused_bytes: u64,
        refaulted_bytes: u64,
        pretended_bytes: u64,
        confirmed_bytes: u64,
        refuted_bytes: u64,
        quota_exceeds: u64,
        action_ns: u64,
    }
    /// A region of a snapshot.
    Region {
        start: u64,
        end: u64,
        nr_accesses: u64,
        age: u64,
        lo: f32,
        hi: f32,
        resolved: bool,
    }
    /// How much was touched within a span.
    Touched {
        span_ns: u64,
        bytes: u64,
        lo: u64,
        hi: u64,
        measured_bytes: u64,
    }
    /// A target of a snapshot.
    Target {
        pid: u64,
        name: String,
        watched_bytes: u64,
        touched: Vec<Touched>,
        regions: Vec<Region>,
    }
    /// How much memory has been idle for how long.
    Idle {
        idle_ms: u64,
        bytes: u64,
    }
    /// What the targets in one cgroup use.
    Cgroup {
        policy: String,
        context: String,
        cgroup: String,
        processes: u64,
        waiting: u64,
        hot_bytes: u64,
        warm_bytes: u64,
        cold_bytes: u64,
        unresolved_bytes: u64,
        working_set_bytes: u64,
        touched: Vec<Touched>,
        idle: Vec<Idle>,
        look_age_ns: u64,
        watched_ns: Option<u64>,
    }
    /// What one window showed.
    Snapshot {
        policy: String,
        context: String,
        ops: String,
        method: String,
        seq: u64,
        sample_us: u64,
        aggr_us: u64,
        start_ns: u64,
        end_ns: u64,
        max_nr_accesses: u64,
        working_set_bytes: u64,
        targets: Vec<Target>,
    }
    /// Something that happened in a context.
    Event {
        policy: String,
        context: String,
        t_ns: u64,
        event: String,
        data: Value,
    }
    /// The reply of `Status`.
    Status {
        version: String,
        pid: u64,
        uptime_ns: u64,
        cpu_ns: u64,
        rss_bytes: u64,
        most_rss_bytes: u64,
        short: Option<String>,
        budget_bp: u64,
        clients: u64,
        may_act: bool,
        history: Option<History>,
        fleet: Option<Fleet>,
        policies: Vec<Policy>,
    }
    /// The reply of `List`.
    Policies {
        policies: Vec<Policy>,
    }
    /// The reply of `Commit`.
    Committed {
        contexts: u64,
        schemes: u64,
    }
    /// The reply of `Show`.
    Text {
        text: String,
        file: Option<String>,
    }
    /// The reply of `Snapshot`.
    Snapshots {
        snapshots: Vec<Snapshot>,
    }
    /// The reply of `Account`.
    Accounts {
        schemes: Vec<Account>,
    }
    /// The reply of `Cgroups`.
    Cgroups {
        cgroups: Vec<Cgroup>,
    }
    /// A reply of `Follow`. One of the fields is set.
    Followed {
        snapshot: Option<Snapshot>,
        event: Option<Event>,
        accounts: Option<Vec<Account>>,
        lost: Option<u64>,
    }
    /// A reply that says nothing.
    Nothing {}
}

macro_rules! arguments {
    ($($(#[$doc:meta])* $name:ident { $($(#[$attr:meta])* $field:ident: $type:ty,)* })*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct $name { $($(#[$attr])* pub $field: $type,)* }
    )*};
}

arguments! {
    /// Arguments of `Status` and `List`.
    NoArguments {}
    /// Arguments of `Remove` and `Show`.
    OfPolicy {
        policy: String,
    }
    /// Arguments of `Start`, `Stop`, `Pause` and `Resume`.
    OfContext {
        policy: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        context: Option<String>,
    }
    /// Arguments of `Account`.
    OfAny {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        policy: Option<String>,
    }
    /// Arguments of `Cgroups`.
    WhichCgroups {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        policy: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pattern: Option<String>,
    }
    /// Arguments of `Commit`.
    Commit {
        policy: String,
        text: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        check: Option<bool>,
    }
    /// Arguments of `Snapshot`.
    Which {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        policy: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        context: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pid: Option<u32>,
    }
    /// Arguments of `Follow`.
    Follow {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        snapshots: Option<bool>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        events: Option<bool>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        accounts: Option<bool>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        policy: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        every_ms: Option<u64>,
    }
}
