//! What a round found.

use super::table::Row;

/// How it was found out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// By the kernel's bitmap of idle pages: all memory of users.
    Bitmap,
    /// By page tables: memory that processes have mapped.
    PageWalk,
}

/// One report.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// How it was found out.
    pub method: Method,
    /// The number of whole intervals since the begin.
    pub round: u64,
    /// All cgroups, parents before children, and the memory that belongs to none.
    pub rows: Vec<Row>,
    /// The smallest part of memory that was looked at in any piece; 1 for all of it. By page
    /// tables: the part of which it is known whether it was touched. What [`Unknown`] counts is
    /// left out.
    pub share: f64,
    /// The shortest and the longest time from a mark to the look at it, in ns.
    pub shortest_ns: u64,
    /// See `shortest_ns`.
    pub longest_ns: u64,
    /// CPU time of this process in the round, in ns.
    pub cpu_ns: u64,
    /// Bytes of memory that were looked at or stand for what was.
    pub memory: u64,
    /// Bytes that somebody else had marked before the first round.
    pub others: u64,
    /// What could not be looked at; page tables only.
    pub unknown: Option<Unknown>,
}

/// What the page tables did not tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Unknown {
    /// Bytes of pages whose accessed bits cannot be cleared. They count as not idle.
    pub unresolved: u64,
    /// Processes that were looked at.
    pub processes: u64,
    /// Processes that could not be looked at.
    pub refused: u64,
    /// Processes that another program watches, so that nothing of them was made old.
    pub watched_processes: u64,
    /// Bytes of pages that these map. They count as not idle.
    pub watched: u64,
    /// Accessed bits that were cleared and that programs had to set again, at some 0.5 µs each.
    pub set_again: u64,
}
