//! Acting on physical memory. Evidence is gathered at the frame. The action goes through the
//! process that maps the frame, and so does the proof.
//!
//! ```text
//! Request (frames)
//!     -> marks set, translations dropped, wait, marks read
//!     -> filters on flags, mark and charge
//!     -> reverse map
//!     -> per process: pages that are still there and nobody else's -> act
//!     -> look again: done? came back?
//! ```
//!
//! The evidence has the same rules as for processes ([`Evidence`]), but over physical addresses,
//! and from the bitmap of idle pages instead of page tables. A folio is idle or not as a whole,
//! whichever process touched it. Marking for evidence also clears accessed bits that the monitor
//! has not read yet: a page that it watches, and that was touched since its last look, reads idle
//! once. The error is one sample per page and confirm time.
//!
//! Memory that no process maps (page cache), or that several processes map, cannot be acted on from
//! user space. It is counted, and reported once; `memory.reclaim` or the kernel's DAMON can reach
//! it. Only the kernel can carry out `lru_prio` and `lru_deprio`.
//!
//! Gathering evidence has a budget of its own and is not charged to the scheme's quota: when a
//! quota is used up, the scheme moves on to other memory, and evidence that was begun would never
//! be completed. The reverse map costs a pass over the page tables of all processes, so one map
//! serves many frames, and it is made at most so often that it takes one part in [`PATIENCE`] of
//! the time.

mod evidence;
mod filter;
mod frames;
mod owners;
mod view;

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

use isotherm_core::addr::PAGE_SIZE;
use isotherm_core::scheme::{Action, Scheme};
use isotherm_core::{AddrRange, Applied, Request, TargetId, Time};
use isotherm_pages::frames::{FrameFile, Which, by_frame};
use isotherm_pages::idle::Folios;
use isotherm_sys::clock::now;

use self::evidence::Hand;
use self::filter::FrameFilter;
use self::owners::OwnerMap;
use self::view::{Seg, view};
use crate::apply::budget::Budget;
use crate::apply::evidence::armed::{Evidence as Armed, Next};
use crate::apply::evidence::confirm::rules;
use crate::apply::evidence::marks::{MARK_MOST_NS, MARK_NS_PER_MIB, MARK_NS_PER_S, Marks};
use crate::apply::pages::GRANULE;
use crate::apply::target::TargetState;
use crate::apply::{Actor, Evidence, Job, SAME_PASS_NS, all_of, later};

/// Bytes that are marked or looked at in one request.
const STEP: u64 = 64 << 20;
/// How long one pass may gather evidence, in ns. The monitor takes no samples during a pass.
const PASS_NS: u64 = 100_000_000;
/// Frames that one reverse map is made for beside those that are needed at once: 512 MiB.
const MAP_FRAMES: usize = 128 << 10;
/// How long a reverse map is used, in ns. Each page is looked up once more before it is acted on.
const MAP_NS: u64 = 10_000_000_000;
/// Assumed time to read the flags of a MiB, in ns, before it is measured.
const LOOK_NS_PER_MIB: u64 = 100_000;
/// Making reverse maps takes at most one part in this many of the time.
const PATIENCE: u64 = 10;

/// One target in physical memory.
#[derive(Debug)]
pub(super) struct Physical {
    /// By scheme, over physical addresses.
    evidence: Vec<Armed>,
    /// Processes that were acted on, by pid. They are watched for refaults.
    pub(super) owners: BTreeMap<u32, TargetState>,
    flags: Option<FrameFile>,
    charges: Option<FrameFile>,
    /// Where marking goes on, by scheme.
    hands: Vec<Hand>,
    map: OwnerMap,
    /// When the next reverse map may be made.
    next_map: Time,
    marking: Budget,
    /// When the pass under way began, as far as can be told.
    pass: Time,
    /// When the last request was over.
    last_end: Time,
    /// Time that the action took in the request under way, in ns.
    action_ns: u64,
    /// What it takes to read the flags of a MiB, and to mark it, in ns.
    look_ns_per_mib: u64,
    mark_ns_per_mib: u64,
}

impl Default for Physical {
    fn default() -> Self {
        Self {
            evidence: Vec::new(),
            owners: BTreeMap::new(),
            flags: None,
            charges: None,
            hands: Vec::new(),
            map: OwnerMap::default(),
            next_map: Time::default(),
            pass: Time::default(),
            last_end: Time::default(),
            action_ns: 0,
            marking: Budget::new(MARK_NS_PER_S, MARK_MOST_NS),
            look_ns_per_mib: LOOK_NS_PER_MIB,
            mark_ns_per_mib: MARK_NS_PER_MIB,
        }
    }
}

impl Physical {
    fn evidence(&mut self, scheme: usize) -> &mut Armed {
        if self.evidence.len() <= scheme {
            self.evidence.resize_with(scheme + 1, Armed::default);
        }
        &mut self.evidence[scheme]
    }

    fn hand(&mut self, scheme: usize) -> &mut Hand {
        if self.hands.len() <= scheme {
            self.hands.resize_with(scheme + 1, Hand::default);
        }
        &mut self.hands[scheme]
    }

    pub(super) fn clear_evidence(&mut self) {
        self.evidence.clear();
        self.hands.clear();
    }

    /// Records that all TLB entries were dropped: the waiting time of everything marked before
    /// begins.
    pub(super) fn begin(&mut self, now: Time) {
        self.evidence.iter_mut().for_each(|evidence| evidence.begin(now));
    }

    /// Records that the monitor marked a page that had been touched.
    pub(super) fn touched(&mut self, addr: u64, len: u64) {
        self.evidence.iter_mut().for_each(|evidence| evidence.touched(addr, len));
    }

    fn others(&mut self, scheme: usize, mut each: impl FnMut(&mut Armed)) {
        let others = self.evidence.iter_mut().enumerate().filter(|(nr, _)| *nr != scheme);
        others.for_each(|(_, evidence)| each(evidence));
    }

    fn is_wanted_by_others(&mut self, scheme: usize) -> bool {
        let mut wanted = false;
        self.others(scheme, |evidence| wanted |= !evidence.is_empty());
        wanted
    }

    fn see(&mut self, marks: &mut Folios, range: AddrRange) -> Result<Vec<Seg>, String> {
        let flags = opened(&mut self.flags, Which::Flags)?;
        let frames = range.start / PAGE_SIZE..range.end / PAGE_SIZE;
        view(marks.bitmap(), flags, frames).map_err(|e| said("read marks and flags", &e))
    }
}

fn opened(file: &mut Option<FrameFile>, which: Which) -> Result<&mut FrameFile, String> {
    if file.is_none() {
        *file = Some(FrameFile::open(Path::new("/proc"), which).map_err(|e| e.to_string())?);
    }
    file.as_mut().ok_or_else(String::new)
}

fn said(tried: &str, err: &io::Error) -> String {
    format!("physical memory cannot be looked at, so nothing is done\n  tried: {tried}: {err}")
}

impl Actor {
    /// Takes hold of a target in physical memory.
    pub fn add_memory(&mut self, id: TargetId) {
        self.physical.insert(id, Physical::default());
    }

    /// Carries out a scheme's request on physical memory.
    pub(super) fn apply_to_memory(
        &mut self,
        marks: Option<&mut Folios>,
        request: &Request,
        scheme: &Scheme,
    ) -> Applied {
        let pass_is_new = |p: &Physical| now().since(p.last_end) > SAME_PASS_NS;
        if self.physical.get(&request.target).is_some_and(pass_is_new) {
            self.begin_evidence();
        }
        let begin = now();
        let job = Job { request, scheme, now: begin };
        let mut action_ns = 0;
        let mut applied = match self.physical.remove(&request.target) {
            None => all_of(request),
            Some(mut physical) => {
                if begin.since(physical.last_end) > SAME_PASS_NS {
                    physical.pass = begin;
                }
                let done = match marks {
                    _ if self.blocked.is_some() => Ok(later(request.range.len())),
                    Some(marks) => self.on_memory(marks, &mut physical, job),
                    None => Err("this operations set has no marks of single frames, so nothing is known of them: no \
                                 action is taken\n  hint:  use operations set `idle`, or let the kernel act (`kdamond`)"
                        .to_owned()),
                };
                let applied = done.unwrap_or_else(|why| {
                    self.trouble(request.scheme, 0, &why);
                    later(request.range.len())
                });
                action_ns = std::mem::take(&mut physical.action_ns);
                physical.last_end = now();
                self.physical.insert(request.target, physical);
                applied
            }
        };
        if let Some(account) = self.accounts.get_mut(request.scheme) {
            account.counters.action_ns += now().since(begin);
        }
        // Evidence has a budget of its own.
        applied.ns = action_ns;
        applied.ns += std::mem::take(&mut self.pretended_ns);
        applied
    }

    fn on_memory(
        &mut self,
        marks: &mut Folios,
        physical: &mut Physical,
        job: Job<'_>,
    ) -> Result<Applied, String> {
        let request = job.request;
        let Some(settings) = self.settings.get(request.scheme) else { return Ok(all_of(request)) };
        let (evidence, dry_run) = (settings.evidence, settings.dry_run);
        let end = request.range.start.saturating_add(STEP) / GRANULE * GRANULE;
        let range = AddrRange::new(request.range.start, request.range.end.min(end));
        physical.hand(request.scheme).pass(request.range.start);
        match request.action {
            Action::Stat if job.scheme.filters.ops.is_empty() => {
                return Ok(Applied { asked: request.range.len(), ..all_of(request) });
            }
            Action::Stat => {
                let mut folios = physical.see(marks, range)?;
                folios.retain(Seg::is_movable);
                let passed = self.pass(physical, job, folios)?.iter().map(|f| f.len << 12).sum();
                return Ok(Applied {
                    covered: range.len(),
                    asked: range.len(),
                    passed,
                    ..Applied::default()
                });
            }
            Action::Pageout | Action::MigrateCold | Action::MigrateHot => {}
            action => {
                self.trouble(request.scheme, 0, &not_here(action));
                return Ok(all_of(request));
            }
        }
        if let Some(why) = self.why_not(dry_run, job) {
            self.trouble(request.scheme, 0, &why);
            return Ok(later(request.range.len()));
        }
        let Evidence::Confirm(us) = evidence else {
            return self.frames(marks, physical, job, range, None);
        };
        if request.action == Action::MigrateHot {
            return self.frames(marks, physical, job, range, None);
        }
        if job.now.since(physical.pass) > PASS_NS {
            return Ok(later(request.range.len()));
        }
        let rules = rules(self.settings.get(request.scheme), us);
        match physical.evidence(request.scheme).next(range, STEP, rules, job.now) {
            Next::Wait(range) => Ok(later(range.len())),
            Next::Arm(range) => self.mark(marks, physical, job, range),
            Next::Look(range) => self.frames(marks, physical, job, range, Some(rules)),
        }
    }

    /// Selects the folios that the filters let in.
    fn pass(
        &mut self,
        physical: &mut Physical,
        job: Job<'_>,
        mut folios: Vec<Seg>,
    ) -> Result<Vec<Seg>, String> {
        let filters = &job.scheme.filters;
        if filters.ops.is_empty() || job.request.bypass_filters {
            return Ok(folios);
        }
        let mut filter = FrameFilter { filters: Some(filters.clone()), ..FrameFilter::default() };
        if filter.asks_charges() {
            let paths =
                self.settings.get(job.request.scheme).map_or(&[][..], |s| s.cgroups.as_slice());
            filter.memcgs = paths.iter().map(|p| self.memcgs.of(p, job.now)).collect();
            let heads: Vec<u64> = folios.iter().map(|f| f.head).collect();
            let charges = opened(&mut physical.charges, Which::Cgroup)?;
            filter.charged = by_frame(charges, &heads).map_err(|e| said("read charges", &e))?;
        }
        let mut unknown = None;
        folios.retain(|folio| match filter.lets_in(folio) {
            Ok(is_in) => is_in,
            Err(why) => {
                unknown = Some(why);
                false
            }
        });
        if let Some(why) = unknown {
            self.trouble(job.request.scheme, 0, &why);
        }
        Ok(folios)
    }

    /// Looks again at what was acted on in physical memory.
    pub(super) fn sweep_memory(&mut self, marks: &mut Folios, now: Time) {
        let (settings, accounts) = (&self.settings, &mut self.accounts);
        let mut gone = Vec::new();
        for physical in self.physical.values_mut() {
            for (evidence, settings) in physical.evidence.iter_mut().zip(settings) {
                if let Evidence::Confirm(us) = settings.evidence {
                    evidence.sweep(rules(Some(settings), us), now);
                }
            }
            physical.owners.retain(|pid, state| {
                if state.process.is_gone() {
                    gone.push(*pid);
                }
                let mut look = Marks::new(marks, Arc::clone(&state.process));
                crate::apply::sweep_one(
                    state,
                    &mut look,
                    settings,
                    (&mut *accounts, &mut self.ledger),
                    now,
                );
                !state.proof.is_empty()
            });
        }
        self.forget_reports(&gone);
    }
}

/// Why an action cannot be done to physical memory here.
fn not_here(action: Action) -> String {
    let name = action.name();
    match action {
        Action::LruPrio | Action::LruDeprio => format!(
            "action {name} moves frames between the kernel's lists, which only the kernel can do\n  hint:  use \
             operations set `kdamond`"
        ),
        _ => format!(
            "action {name} is for the memory of processes, not for physical memory\n  hint:  name processes as \
             targets"
        ),
    }
}
