//! `sessions`: the host and the agent, a row at the start and one per interval.

use crate::cells::{Null, UnixNs, rows};

rows! {
    /// The host and the agent at one time.
    SessionRow {
        time: UnixNs,
        session: String,
        boot: Null<String>,
        started: UnixNs,
        kernel: String,
        version: String,
        commit: Null<String>,
        policy: Null<String>,
        policy_hash: Null<String>,
        cpus: u32,
        mem_total: u64,
        mem_available: u64,
        swap_total: u64,
        swap_used: u64,
        swap_kind: Null<String>,
        page_size: u32,
        service: Null<String>,
        node_class: Null<String>,
        clock_synced: Null<bool>,
        clock_offset_ns: Null<i64>,
        budget: f64,
        own_cpu: f64,
        own_rss: u64,
        psi_some_us: Null<u64>,
        acting: bool,
        killed: bool,
        canary: bool,
        rows: u64,
        late_windows: u64,
    }
}
