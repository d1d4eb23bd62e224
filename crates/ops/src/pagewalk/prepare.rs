//! Making pages old: what is young is cleared, looked at again, and judged.

use isotherm_core::{AddrRange, Check, PageState, Time};
use isotherm_host::proc::{Proc, read_monitored_ranges};
use isotherm_pages::tables::{Dense, PageKey, Query, Space};
use isotherm_sys::clock::{now, thread_cpu_ns};
use isotherm_sys::lru::drain_lru_batches;

use super::PageWalk;
use super::fallback::Asked;

/// Least time between two requests that the kernel put pages on their LRU lists. Each costs all
/// CPUs a little.
const DRAIN_EVERY_NS: u64 = 5_000_000_000;

impl PageWalk {
    /// Goes on from the looks in `self.tables`: clears what is young, within the limit, and writes
    /// into the batch what became of each page.
    pub(super) fn make_old(&mut self, batch: &mut [Check]) {
        let begin = now();
        self.young.clear();
        self.stuck.clear();
        for query in self.tables.queries() {
            let check = &mut batch[query.nr as usize];
            check.state = self.seen(query, begin);
            check.leaf_shift = query.entry.leaf_shift();
            match check.state {
                PageState::Young => self.young.push(*query),
                PageState::Unresolved => self.stuck.push(*query),
                _ => {}
            }
        }
        if self.young.is_empty() && self.stuck.is_empty() {
            return;
        }
        thin_out(&mut self.young, self.max_clears);
        let mut young = std::mem::take(&mut self.young);
        for of_space in young.chunk_by_mut(|a, b| a.page.slot() == b.page.slot()) {
            self.clear_space(of_space, batch, begin);
        }
        young.clear();
        self.young = young;
        if !self.stuck.is_empty() {
            self.resort_to_fallback(batch, begin);
        }
        self.counters.clear_ns += now().since(begin);
    }

    /// Clears young leaves of one address space.
    fn clear_space(&mut self, young: &mut [Query], batch: &mut [Check], at: Time) {
        let Some(slot) = young.first().map(|query| query.page.slot()) else { return };
        let fallback = self.fallback(slot);
        for query in young.iter() {
            fallback.take(query.leaf());
        }
        let Some(space) = self.tables.space(slot) else { return };
        let cleared = self.clearer.clear(space, young);
        match &cleared {
            Ok(ranges) => self.counters.flushes += *ranges as u64,
            Err(err) => self.note_refusal(slot, err),
        }
        if cleared.is_err() || self.tables.look_again(young).is_err() {
            // The process has just ended, or we lost the right: nothing is known.
            for query in young {
                batch[query.nr as usize].state = PageState::Unknown;
            }
            return;
        }
        self.clear_again(young, at);
        let mut last = None;
        for query in young {
            let state = self.after_clear(query, at);
            let first_of_leaf = last != Some(query.leaf());
            last = Some(query.leaf());
            match state {
                PageState::Cleared => self.counters.clears += u64::from(first_of_leaf),
                PageState::Unresolved => {
                    self.counters.unresolved += 1;
                    self.stuck.push(*query);
                }
                _ => {}
            }
            batch[query.nr as usize].state = state;
        }
    }

    /// A page that was touched for the first time just now may not be on an LRU list yet, and is
    /// skipped then. That looks like a page in use; so now and then the kernel is made to catch up,
    /// and what is still young is cleared once more.
    fn clear_again(&mut self, young: &mut [Query], at: Time) {
        let still_young = |query: &&Query| query.entry.is_young();
        if at < self.next_drain || !young.iter().any(|query| still_young(&query)) {
            return;
        }
        self.next_drain = at + DRAIN_EVERY_NS;
        let again: Vec<Query> = young.iter().filter(still_young).copied().collect();
        let space = again.first().and_then(|query| self.tables.space(query.page.slot()));
        let Some(space) = space else { return };
        // Without it, the pages stay as they are, which the next look shows.
        if drain_lru_batches().is_ok()
            && let Ok(ranges) = self.clearer.clear(space, &again)
        {
            self.counters.flushes += ranges as u64;
            self.tables.look_again(young).ok();
        }
    }

    /// What became of one page that was young and then advised cold.
    ///
    /// A page that is still young either was not cleared, or was cleared and touched again in the
    /// microseconds since. For anonymous pages the kernel's flags tell which: the kernel clears
    /// those that one process maps, and skips those that several map. It may skip pages of files
    /// (large folios), so there a number of failures in a row decides.
    fn after_clear(&mut self, query: &Query, at: Time) -> PageState {
        let leaf = query.leaf();
        if !query.entry.is_present() {
            return PageState::Absent;
        }
        if !query.entry.is_young() {
            self.unresolved.cleared(leaf);
            return PageState::Cleared;
        }
        if self.clearer.has_refused(query) {
            self.unresolved.insert(leaf, at);
            return PageState::Unresolved;
        }
        let space = self.tables.space(query.page.slot());
        match space.and_then(|s| s.page_flags(query.page.addr())) {
            Some(flags) if flags.exclusive && !flags.file => PageState::Cleared,
            Some(flags) if flags.exclusive => {
                let given_up = self.unresolved.failed(leaf, at);
                if given_up { PageState::Unresolved } else { PageState::Young }
            }
            Some(_) => {
                self.unresolved.insert(leaf, at);
                PageState::Unresolved
            }
            None => PageState::Unknown,
        }
    }

    /// Makes old what could not be cleared: by the pages' frames if that is possible, else by
    /// clearing all bits of their processes where that is allowed now.
    fn resort_to_fallback(&mut self, batch: &mut [Check], at: Time) {
        let mut stuck = std::mem::take(&mut self.stuck);
        self.mark_stuck(&mut stuck, batch);
        stuck.sort_unstable_by_key(|query| query.page);
        for of_space in stuck.chunk_by_mut(|a, b| a.page.slot() == b.page.slot()) {
            let slot = of_space.first().map_or(0, |query| query.page.slot());
            // The few pages that are asked about stand for many.
            let done = self.clear_whole_space(slot, Asked::ALL, at);
            if done.is_none() || self.tables.look_again(of_space).is_err() {
                continue;
            }
            let mut of_use = false;
            for query in of_space {
                self.fallback(slot).take(query.leaf());
                if query.entry.is_present() && !query.entry.is_young() {
                    of_use = true;
                    self.unresolved.cleared(query.leaf());
                    batch[query.nr as usize].state = PageState::Cleared;
                }
            }
            // Not even this clears hugetlb pages.
            if !of_use {
                self.fallback(slot).put_off(at);
            }
        }
        stuck.clear();
        self.stuck = stuck;
    }

    /// Whether all bits of an address space may be cleared at all, now or later.
    pub(super) fn may_clear_whole_space(&mut self, slot: u16, at: Time) -> bool {
        let limit = self.fallback_limit;
        let Some(pid) = self.tables.space(slot).map(Space::pid) else { return false };
        let is_allowed = self.fallback(slot).is_allowed(pid, limit, at);
        self.close_if_many(slot);
        is_allowed
    }

    /// Clears all bits of an address space if that is allowed now, for the sake of so many leaves.
    /// What was young is kept in mind. Returns when it was done; `None` if it was not.
    pub(super) fn clear_whole_space(&mut self, slot: u16, asked: Asked, at: Time) -> Option<Time> {
        if !self.may_clear_whole_space(slot, at) {
            return None;
        }
        let is_due = self.fallback(slot).is_due(asked, at);
        if !is_due && !self.fallback(slot).is_worth_counting(asked, at) {
            return None;
        }
        let begin = thread_cpu_ns();
        let young = self.young_leaves(slot);
        if let Some(young) = young.as_ref().filter(|_| !is_due) {
            self.fallback(slot).note_touched(young.len() as u64, at);
            if !self.fallback(slot).is_due(asked, at) {
                return None;
            }
        }
        let pid = self.tables.space(slot)?.pid();
        // The file is opened by number, so the process must still be the same afterwards. If it is
        // not, the bits of another process were cleared, and nothing is called cleared.
        let cleared = match young.map(|young| self.fallback(slot).clear(pid, young, begin)) {
            Some(Err(err)) => {
                self.note_shared_refusal(slot, &err);
                None
            }
            cleared => cleared.and_then(Result::ok),
        };
        let same = self.tables.space(slot).is_some_and(|space| !space.has_exited());
        let done = cleared.filter(|_| same);
        if done.is_some() {
            self.counters.whole_clears += 1;
        } else {
            self.fallback(slot).put_off(at);
        }
        done
    }

    /// All leaves of an address space that are young, sorted. `None`: they could not all be read.
    fn young_leaves(&mut self, slot: u16) -> Option<Vec<PageKey>> {
        let space = self.tables.space(slot).filter(|space| !space.has_exited())?;
        let mut ranges = Vec::new();
        read_monitored_ranges(&Proc::default(), space.pid(), &mut self.text, &mut ranges).ok()?;
        let mut young = Vec::new();
        let mut note = |start, found: Dense<'_>| note_young(slot, start, &found, &mut young);
        let read = |range: &AddrRange| self.tables.dense_space(slot, *range, &mut note).is_ok();
        ranges.iter().all(read).then_some(young)
    }
}

fn note_young(slot: u16, start: u64, found: &Dense<'_>, young: &mut Vec<PageKey>) {
    match found {
        Dense::Huge(entry) if entry.is_young() => young.push(PageKey::new(slot, start)),
        Dense::Huge(_) => {}
        Dense::Table(table) => {
            let addrs = (start..).step_by(4096);
            let pages = table.entries().zip(addrs).filter(|(entry, _)| entry.is_young());
            young.extend(pages.map(|(_, addr)| PageKey::new(slot, addr)));
        }
    }
}

/// Keeps `max` of the queries, evenly spread, so that low addresses are not preferred.
fn thin_out(queries: &mut Vec<Query>, max: usize) {
    let (nr, mut at) = (queries.len(), 0);
    if nr > max {
        queries.retain(|_| {
            at += 1;
            at * max / nr > (at - 1) * max / nr
        });
    }
}
