//! Acting on physical memory: evidence at the frame, the action through the process that maps it, proof there.
//!
//! ```text
//! Request (frames) -> marks set, wait, marks read -> filters on flags, mark and charge -> reverse map
//!         -> per process: pages that are still there and nobody else's -> act -> look again: done? came back?
//! ```
//!
//! The evidence is that of processes ([`Evidence`]), over physical addresses and the bitmap of idle pages instead of
//! page tables: a folio is idle or not as a whole, whoever touched it. Marking for evidence takes accessed bits from the
//! monitor, too: a page that it watches and that was touched since its last look reads idle once. That errs by one
//! sample per page and confirm time.
//!
//! What no process maps (page cache) or several do cannot be acted on from user space; it is counted, and told once:
//! `memory.reclaim` or the kernel's DAMON reach it. `lru_prio` and `lru_deprio` only the kernel can do.
//!
//! The reverse map costs a pass over the page tables of all processes, so it is made at most so often that it takes one part
//! in [`PATIENCE`] of the time.

mod filter;
mod owners;
mod view;

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use isotherm_core::addr::PAGE_SIZE;
use isotherm_core::scheme::{Action, Scheme};
use isotherm_core::{AddrRange, Applied, Request, TargetId, Time};

use self::filter::FrameFilter;
use self::owners::{Presence, Unreached};
use self::view::{Seg, granules_of, view};
use super::budget::Budget;
use super::confirm::rules;
use super::evidence::{Evidence as Armed, Next, Rules};
use super::held::Held;
use super::pages::{Bits, granules};
use super::{Actor, Evidence, Job, Settings, all_of, later};
use crate::act::Process;
use crate::clock::now;
use crate::frames::{FrameFile, Which, by_frame};
use crate::idle::IdleOps;
use crate::paddr::rmap;
use crate::proc::Proc;

/// Bytes that are marked or looked at in one request.
const STEP: u64 = 128 << 20;
/// CPU time that marking may take, in ns per second, and what of that may be saved up. Marking all of 24 GiB takes
/// 0.3 s; this is for some GiB that turn cold together.
const MARK_NS_PER_S: u64 = 20_000_000;
const MARK_MOST_NS: u64 = 200_000_000;
/// The reverse map takes at most one part in so many of the time.
const PATIENCE: u64 = 10;

/// One target in physical memory.
#[derive(Debug)]
pub(super) struct Physical {
    /// By scheme, over physical addresses.
    evidence: Vec<Armed>,
    /// Processes that were acted on, by pid: what was done may come back.
    owners: BTreeMap<u32, Held>,
    flags: Option<FrameFile>,
    charges: Option<FrameFile>,
    /// When the next reverse map may be made.
    next_map: Time,
    marking: Budget,
    /// What marking a MiB takes, in ns.
    mark_ns_per_mib: u64,
}

impl Default for Physical {
    fn default() -> Self {
        Self {
            evidence: Vec::new(),
            owners: BTreeMap::new(),
            flags: None,
            charges: None,
            next_map: Time::default(),
            marking: Budget::new(MARK_NS_PER_S, MARK_MOST_NS),
            // High at first, so that the first piece is small and shows what it takes.
            mark_ns_per_mib: 25_000_000,
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

    pub(super) fn clear_evidence(&mut self) {
        self.evidence.clear();
    }

    fn see(&mut self, idle: &mut IdleOps, range: AddrRange) -> Result<Vec<Seg>, String> {
        let flags = opened(&mut self.flags, Which::Flags)?;
        let frames = range.start / PAGE_SIZE..range.end / PAGE_SIZE;
        view(idle.folios().bitmap(), flags, frames).map_err(|e| said("read marks and flags", &e))
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

    /// Whether a target is physical memory.
    #[must_use]
    pub fn is_memory(&self, id: TargetId) -> bool {
        self.physical.contains_key(&id)
    }

    /// Does what a scheme wishes with physical memory.
    pub fn apply_to_memory(
        &mut self,
        idle: Option<&mut IdleOps>,
        request: &Request,
        scheme: &Scheme,
    ) -> Applied {
        let begin = now();
        let job = Job { request, scheme, now: begin };
        let mut applied = match self.physical.remove(&request.target) {
            None => all_of(request),
            Some(mut physical) => {
                let done = match idle {
                    _ if self.blocked.is_some() => Ok(later(request.range.len())),
                    Some(idle) => self.on_memory(idle, &mut physical, job),
                    None => Err("this operations set has no marks of single frames, so nothing is known of them: no \
                                 action is taken\n  hint:  use operations set `idle`, or let the kernel act (`kdamond`)"
                        .to_owned()),
                };
                let applied = done.unwrap_or_else(|why| {
                    self.trouble(request.scheme, 0, &why);
                    later(request.range.len())
                });
                self.physical.insert(request.target, physical);
                applied
            }
        };
        applied.ns = now().since(begin);
        if let Some(account) = self.accounts.get_mut(request.scheme) {
            account.action_ns += applied.ns;
        }
        applied.ns += std::mem::take(&mut self.pretended_ns);
        applied
    }

    fn on_memory(
        &mut self,
        idle: &mut IdleOps,
        physical: &mut Physical,
        job: Job<'_>,
    ) -> Result<Applied, String> {
        let request = job.request;
        let Some(settings) = self.settings.get(request.scheme) else { return Ok(all_of(request)) };
        let (evidence, dry_run) = (settings.evidence, settings.dry_run);
        let range = AddrRange::new(
            request.range.start,
            request.range.end.min(request.range.start.saturating_add(STEP)),
        );
        match request.action {
            Action::Stat if job.scheme.filters.ops.is_empty() => {
                return Ok(Applied { asked: request.range.len(), ..all_of(request) });
            }
            Action::Stat => {
                let passed =
                    self.pass(idle, physical, job, range)?.iter().map(|f| f.len << 12).sum();
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
            return self.frames(idle, physical, job, range, None);
        };
        if request.action == Action::MigrateHot {
            return self.frames(idle, physical, job, range, None);
        }
        let rules = rules(self.settings.get(request.scheme), us);
        match physical.evidence(request.scheme).next(range, STEP, rules, job.now) {
            Next::Wait(range) => Ok(later(range.len())),
            Next::Arm(range) => self.mark(idle, physical, job, range),
            Next::Look(range) => self.frames(idle, physical, job, range, Some(rules)),
        }
    }

    /// Marks the frames of a range.
    fn mark(
        &mut self,
        idle: &mut IdleOps,
        physical: &mut Physical,
        job: Job<'_>,
        mut range: AddrRange,
    ) -> Result<Applied, String> {
        let left_ns = physical.marking.left(job.now);
        if left_ns < physical.mark_ns_per_mib {
            return Ok(later(job.request.range.len()));
        }
        // What it takes is not known at first, so a short time limit must not keep the first piece from being tried.
        let bytes = (left_ns.min(job.request.max_ns) / physical.mark_ns_per_mib.max(1)) << 20;
        range.end = range.end.min(range.start + bytes.max(super::pages::GRANULE));
        let begin = now();
        let frames = range.start / PAGE_SIZE..range.end / PAGE_SIZE;
        idle.folios().bitmap().mark_range(frames).map_err(|e| said("mark frames idle", &e))?;
        let seen: BTreeMap<u64, _> = granules_of(&physical.see(idle, range)?).into_iter().collect();
        let (at, evidence) = (now(), physical.evidence(job.request.scheme));
        for (start, part) in granules(range) {
            evidence.arm(start, part, seen.get(&start).copied().unwrap_or_default(), at);
        }
        let took = at.since(begin);
        physical.marking.spend(took);
        // Follows what it really takes, slowly.
        let per_mib = took / (range.len() >> 20).max(1);
        physical.mark_ns_per_mib = (physical.mark_ns_per_mib * 3 + per_mib) / 4;
        self.account(job.request.scheme).armed_bytes += range.len();
        Ok(later(range.len()))
    }

    /// The folios of a range that the filters let in.
    fn pass(
        &mut self,
        idle: &mut IdleOps,
        physical: &mut Physical,
        job: Job<'_>,
        range: AddrRange,
    ) -> Result<Vec<Seg>, String> {
        let filters = &job.scheme.filters;
        let mut folios = physical.see(idle, range)?;
        folios.retain(Seg::is_movable);
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

    /// Acts on the frames of a range: with rules on those that stayed idle, else on all that are let in.
    fn frames(
        &mut self,
        idle: &mut IdleOps,
        physical: &mut Physical,
        job: Job<'_>,
        range: AddrRange,
        rules: Option<Rules>,
    ) -> Result<Applied, String> {
        if job.now < physical.next_map {
            return Ok(later(job.request.range.len()));
        }
        let scheme = job.request.scheme;
        let all = physical.see(idle, range)?;
        let mut undecided: Option<u64> = None;
        let mut quiet: BTreeMap<u64, Bits> = BTreeMap::new();
        for (start, seen) in granules_of(&all) {
            let Some((_, part)) =
                granules(AddrRange::new(start.max(range.start), range.end)).next()
            else {
                continue;
            };
            let pages = match rules {
                None => Some(seen.present),
                Some(rules) => physical.evidence(scheme).confirm(start, part, seen, rules, job.now),
            };
            match pages {
                None => {
                    undecided.get_or_insert(part.start);
                }
                Some(pages) => {
                    quiet.insert(start, pages);
                }
            }
        }
        let passed = self.pass(idle, physical, job, range)?;
        let (mut frames, mut cut_at) = (Vec::new(), None);
        for folio in &passed {
            let whole =
                AddrRange::new(folio.head * PAGE_SIZE, (folio.head + folio.len) * PAGE_SIZE);
            let is_quiet = granules(whole).all(|(start, part)| {
                let bits = Bits::of(start, part);
                quiet.get(&start).is_some_and(|quiet| quiet.and(bits) == bits)
            });
            if !is_quiet {
                continue;
            }
            if (frames.len() as u64 + folio.len) * PAGE_SIZE > job.request.max_bytes
                && !frames.is_empty()
            {
                cut_at = Some(whole.start);
                break;
            }
            frames.extend(folio.head..folio.head + folio.len);
        }
        let (asked, done) = self.through_owners(physical, job, &frames)?;
        let evidence = physical.evidence(scheme);
        let end = cut_at.unwrap_or(range.end);
        for (start, part) in granules(AddrRange::new(range.start, end)) {
            if quiet.contains_key(&start) {
                evidence.forget(part);
            }
        }
        let settled = undecided.unwrap_or(end).min(end).saturating_sub(range.start);
        Ok(Applied {
            covered: settled,
            skip: if settled == 0 { range.len() } else { 0 },
            asked,
            applied: done,
            passed: frames.len() as u64 * PAGE_SIZE,
            ns: 0,
        })
    }

    /// Acts on frames through the processes that map them. Returns the bytes asked for and done.
    fn through_owners(
        &mut self,
        physical: &mut Physical,
        job: Job<'_>,
        frames: &[u64],
    ) -> Result<(u64, u64), String> {
        if frames.is_empty() {
            return Ok((0, 0));
        }
        let begin = now();
        let found =
            rmap::find(&Proc::default(), frames).map_err(|e| said("find who maps frames", &e))?;
        let end = now();
        physical.next_map = end + end.since(begin).saturating_mul(PATIENCE);
        // The map is made for all of it, so what it took must not leave the action without time.
        let job = Job { now: end, ..job };
        let mut unreached = Unreached::default();
        let (mut asked, mut all_done) = (0, 0);
        for (pid, pages) in owners::by_process(frames, &found, &mut unreached) {
            let bytes = pages.len() as u64 * PAGE_SIZE;
            let known = physical.owners.remove(&pid).filter(|held| !held.process.is_gone());
            let held = known.map_or_else(
                || Process::open(pid).map(|process| Held::new(TargetId(pid), process)),
                Ok,
            );
            let (Ok(mut held), Ok(mut look)) = (held, Presence::of(pid)) else {
                unreached.gone += bytes;
                continue;
            };
            let chosen = owners::chosen(&held.process, pages, &mut unreached);
            let (did, done) = self.carry_out(&mut look, &mut held, job, &chosen);
            asked += did.outcome.asked_bytes;
            all_done += done;
            physical.owners.insert(pid, held);
        }
        self.tell_unreached(job, unreached);
        Ok((asked, all_done))
    }

    fn tell_unreached(&mut self, job: Job<'_>, unreached: Unreached) {
        let scheme = job.request.scheme;
        let account = self.account(scheme);
        account.unreached_bytes += unreached.unmapped + unreached.shared + unreached.gone;
        if unreached.unmapped > 0 {
            let why = "idle page cache that no process maps is left alone: it cannot be reached from user space, \
                       and counts as unreached\n  hint:  `memory_reclaim` asks a cgroup for it; operations set \
                       `kdamond` reaches it";
            self.trouble(scheme, 0, why);
        }
        if unreached.shared > 0 {
            let why = "idle memory that several processes map is left alone, and counts as unreached: the kernel \
                       takes it from none of them by advice";
            self.trouble(scheme, 0, why);
        }
    }

    /// Looks again at what was acted on in physical memory. Call it often; it does something once per second.
    pub fn sweep_memory(&mut self) {
        let now = now();
        if self.physical.is_empty() || now.since(self.swept) < super::SWEEP_NS {
            return;
        }
        self.swept = now;
        let (settings, accounts) = (&self.settings, &mut self.accounts);
        for physical in self.physical.values_mut() {
            for (evidence, settings) in physical.evidence.iter_mut().zip(settings) {
                if let Evidence::Confirm(us) = settings.evidence {
                    evidence.sweep(rules(Some(settings), us), now);
                }
            }
            physical.owners.retain(|pid, held| {
                let Ok(mut look) = Presence::of(*pid) else { return false };
                let terms =
                    |scheme: usize| settings.get(scheme).map(Settings::terms).unwrap_or_default();
                let id = held.id;
                held.proof.sweep(&mut look, id, now, terms, |scheme, bytes| {
                    if let Some(account) = accounts.get_mut(scheme) {
                        account.refaulted(bytes, now);
                    }
                });
                !held.proof.is_empty()
            });
        }
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
