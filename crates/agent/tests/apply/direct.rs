//! An actor driven by hand: single requests on one target, without a monitor that decides.

use std::time::{Duration, Instant};

use isotherm_act::apply::{ActEvent, Actor, Evidence, Settings};
use isotherm_core::scheme::{Action, Counters, Filter, FilterKind};
use isotherm_core::{AddrRange, Applied, Request, Scheme, TargetId};
use isotherm_host::error::SetKind;
use isotherm_ops::set::PageView;
use isotherm_pages::tables::{Entry, PageTables};

use crate::odd::Odd;
use crate::run::LIMIT;

pub(crate) const ID: TargetId = TargetId(3);
pub(crate) const MIB: u64 = 1 << 20;
/// Where targets map their memory.
pub(crate) const BASE: u64 = 0x2000_0000_0000;

/// So many MiB from so many on.
pub(crate) const fn mib(from: u64, len: u64) -> AddrRange {
    AddrRange::new(BASE + from * MIB, BASE + (from + len) * MIB)
}

/// How many bytes others may have done something to, in a range as large as a control range of
/// which they did it to `in_control` bytes. Their work is random: four times as much, and 16 pages,
/// are within its spread.
pub(crate) const fn others(in_control: u64) -> u64 {
    4 * in_control + (64 << 10)
}

/// A target, an actor that may act on it, and one scheme.
#[derive(Debug)]
pub(crate) struct Direct {
    pub(crate) odd: Odd,
    pub(crate) walk: PageTables,
    pub(crate) actor: Actor,
    pub(crate) scheme: Scheme,
    pub(crate) settings: Settings,
    /// How long one request may take, in ns.
    pub(crate) most_ns: u64,
    pub(crate) events: Vec<ActEvent>,
}

impl Direct {
    /// `None`, with the reason printed, where that is not possible.
    pub(crate) fn start(action: Action) -> Option<Self> {
        let walk = match PageTables::new() {
            Ok(walk) => walk,
            Err(e) if e.kind() == SetKind::Permission => {
                eprintln!("skipped, no permission: {e}");
                return None;
            }
            Err(e) => panic!("{e}"),
        };
        let odd = Odd::start()?;
        let (scheme, settings) = (Scheme { action, ..Scheme::default() }, Settings::default());
        let mut direct = Self {
            odd,
            walk,
            actor: Actor::new(),
            scheme,
            settings,
            most_ns: u64::MAX,
            events: Vec::new(),
        };
        direct.walk.add_target(ID, direct.odd.pid()).unwrap();
        direct.actor.add_target(ID, direct.odd.pid()).unwrap();
        Some(direct)
    }

    /// Filters, in order: kind, matching, allow.
    pub(crate) fn filter(&mut self, filters: &[(FilterKind, bool, bool)]) {
        self.scheme.filters.ops = filters
            .iter()
            .map(|&(kind, matching, allow)| Filter { kind, matching, allow })
            .collect();
    }

    /// One request, without limits but that of time.
    pub(crate) fn apply(&mut self, range: AddrRange) -> Applied {
        if self.actor.settings() != [self.settings.clone()] {
            self.actor.set_schemes(vec![self.settings.clone()]);
        }
        let request = Request {
            scheme: 0,
            action: self.scheme.action,
            target: ID,
            range,
            nr_accesses: 0,
            age: 0,
            idle_us: None,
            by_use: false,
            bypass_filters: false,
            charged: range.len(),
            max_bytes: u64::MAX,
            max_ns: self.most_ns,
        };
        let applied =
            self.actor.apply(Some(PageView::Tables(&mut self.walk)), &request, &self.scheme);
        self.events.extend(self.actor.take_events());
        // Requests next to each other would share the time of one pass.
        std::thread::sleep(Duration::from_millis(2));
        applied
    }

    /// Requests for all of a range, piece by piece, as the core does it in one pass; returns the
    /// sum.
    pub(crate) fn pass(&mut self, range: AddrRange) -> Applied {
        let (mut at, mut sum) = (range.start, Applied::default());
        while at < range.end {
            let one = self.apply(AddrRange::new(at, range.end));
            at += one.covered.max(one.skip).max(4096);
            sum.covered += one.covered;
            sum.asked += one.asked;
            sum.applied += one.applied;
            sum.passed += one.passed;
            sum.ns += one.ns;
        }
        sum
    }

    /// Arms a range, and has waited until it may be acted on.
    pub(crate) fn arm(&mut self, range: AddrRange, confirm_ms: u64) {
        self.settings.evidence = Evidence::Confirm(confirm_ms * 1000);
        let (begin, confirm) = (Instant::now(), Duration::from_millis(confirm_ms));
        // Nothing was armed before `begin`, so nothing may be acted on until the time is over.
        let early = |direct: &Self, what: &str| {
            let in_time = begin.elapsed() < confirm;
            assert!(!in_time || direct.account().asked_bytes == 0, "acted {what}");
        };
        // Arming has a budget: it may take several passes.
        for _ in 0..40 {
            let before = self.account().armed_bytes;
            self.pass(range);
            if before > 0 && self.account().armed_bytes == before {
                break;
            }
            std::thread::sleep(Duration::from_millis(confirm_ms / 40));
        }
        early(self, "without waiting");
        assert!(self.account().armed_bytes > 0, "nothing was armed: {:?}", self.events);
        std::thread::sleep((confirm / 2).saturating_sub(begin.elapsed()));
        self.pass(range);
        early(self, "after half of the time");
        std::thread::sleep(confirm);
    }

    /// Passes, over and over, for so long.
    pub(crate) fn pass_for(&mut self, range: AddrRange, ms: u64) {
        let end = Instant::now() + Duration::from_millis(ms);
        while Instant::now() < end {
            self.pass(range);
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Passes, over and over, until a condition holds, and at least one; returns the bytes applied.
    /// After [`LIMIT`] it returns in any case, and the checks of the test say what is missing.
    pub(crate) fn pass_until(
        &mut self,
        range: AddrRange,
        mut holds: impl FnMut(&Self) -> bool,
    ) -> u64 {
        let begin = Instant::now();
        let mut applied = self.pass(range).applied;
        while !holds(self) && begin.elapsed() < LIMIT {
            std::thread::sleep(Duration::from_millis(20));
            applied += self.pass(range).applied;
        }
        applied
    }

    /// Bytes of young pages.
    pub(crate) fn young(&mut self, range: AddrRange) -> u64 {
        let mut bytes = 0;
        let mut each = |_addr, entry: Entry| {
            bytes += if entry.is_young() { 1 << entry.leaf_shift() } else { 0 };
        };
        self.walk.dense(ID, range, &mut each).unwrap();
        bytes
    }

    pub(crate) fn account(&self) -> Counters {
        self.actor.accounts().first().map(|a| a.counters.clone()).unwrap_or_default()
    }

    /// Troubles that were told, by a part of their text.
    pub(crate) fn told(&self, part: &str) -> usize {
        let is = |e: &&ActEvent| matches!(e, ActEvent::Trouble { text, .. } if text.contains(part));
        self.events.iter().filter(is).count()
    }
}
