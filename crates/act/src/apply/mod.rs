//! Acting on real processes: evidence before, proof after (DESIGN §5).
//!
//! [`Actor`] does what the schemes of a context wish for:
//!
//! ```text
//! Request -> evidence (arm, wait, look) -> filters -> act, in batches -> look again: done?
//!                                                                    '-> later: touched again?
//! ```
//!
//! Invariants: bytes count as done only if a look afterwards shows it. A blocked actor (one whose
//! operations set stopped seeing accesses) does nothing at all. A huge page is acted on as a whole
//! or not at all. This module does not decide which region a scheme applies to, nor how much may be
//! done: the core does.

mod acting;
mod actions;
mod budget;
mod event;
mod evidence;
mod filters;
mod levels;
mod measures;
mod memory;
mod pages;
mod placed;
mod proof;
mod settings;
mod target;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use isotherm_core::addr::PAGE_SIZE;
use isotherm_core::scheme::{Action, Counters, Scheme};
use isotherm_core::{AddrRange, Applied, PageBits, Request, TargetId, Time, UnitCheck};

pub use self::proof::account::Account;
pub use self::proof::paged::PagedOut;
pub use acting::Acting;
pub use event::ActEvent;
pub use filters::refuse_anon;
pub use placed::{Placed, Placement};
pub use settings::{Evidence, Reclaim, ReclaimFrom, Settings};

use isotherm_host::metrics::Metrics;
use isotherm_ops::set::PageView;
use isotherm_pages::places::Places;
use isotherm_pages::tables::PageTables;
use isotherm_sys::clock::now;

pub use self::actions::given::{Given, Notes, Whose};
pub use self::actions::prove::Split;
use self::actions::swap::Swap;
pub use self::actions::undo::Undone;
use self::budget::Budget;
use self::evidence::look::{ByTables, Look, Seen};
use self::evidence::marks::{MARK_MOST_NS, MARK_NS_PER_MIB, MARK_NS_PER_S, Marks};
use self::evidence::translations::Translations;
use self::filters::MemcgIds;
use self::levels::Levels;
use self::placed::{Moved, Tables};
use self::proof::paged::Ledger;
use self::target::TargetState;
use crate::cgroup::OwnCgroups;
use crate::{ActError, Outcome, Process};

/// CPU time that gathering evidence may take, in ns per second: half of the default budget of 1 %.
const ARM_NS_PER_S: u64 = 5_000_000;
/// How much unused time may be saved up, in ns. It is enough to arm a few GiB at once when they
/// turn cold together.
const ARM_MOST_NS: u64 = 100_000_000;
/// How long one pass over the regions may take, in ns. The monitor takes no samples during a pass.
const PASS_NS: u64 = 50_000_000;
/// Requests that are no further apart than this, in ns, belong to one pass. It is less than the
/// shortest useful sample interval, and far more than the time between two regions of a pass.
const SAME_PASS_NS: u64 = 1_000_000;
/// How often acted-on memory is looked at again, in ns.
const SWEEP_NS: u64 = 1_000_000_000;
/// The most events that are kept until the caller takes them. Further events are only counted.
const MAX_EVENTS: usize = 4096;
/// The most troubles that are remembered as reported. Beyond that the memory is emptied, and all of
/// them may be reported once more.
const MAX_REPORTED: usize = 4096;

/// Acts on the targets of one context.
#[derive(Debug)]
pub struct Actor {
    settings: Vec<Settings>,
    accounts: Vec<Account>,
    /// The same for paging out, by target.
    ledger: Ledger,
    targets: BTreeMap<TargetId, TargetState>,
    physical: BTreeMap<TargetId, memory::Physical>,
    events: Vec<ActEvent>,
    /// Events that were dropped since events were taken.
    lost_events: u64,
    /// Troubles that were reported: by name of the scheme, process (0: the machine) and text.
    reported: BTreeSet<(String, u32, String)>,
    blocked: Option<String>,
    swap: Swap,
    metrics: Metrics,
    memcgs: MemcgIds,
    /// The cgroups that schemes ask to reclaim.
    own_cgroups: OwnCgroups,
    /// Which frame is on which node, for schemes that are told a node to take from.
    places: Places,
    /// How full the nodes are that schemes move memory between.
    levels: Levels,
    /// Where the targets' memory is, if a scheme takes from one node.
    placement: Option<Placement>,
    /// Whether something was marked since translations were dropped.
    unflushed: bool,
    translations: Translations,
    arming: Budget,
    arm_ns_per_s: u64,
    /// What arming a MiB takes, in ns.
    arm_ns_per_mib: u64,
    /// What arming a MiB by marks of idle pages takes, in ns. Marks have a budget of their own.
    marking: Budget,
    mark_ns_per_mib: u64,
    /// Time that evidence by marks took in the request under way, in ns. It is not charged to the
    /// scheme.
    evidence_ns: u64,
    swept: Time,
    /// When the last request was over.
    last_end: Time,
    /// Time that the pass under way has taken, in ns.
    pass_ns: u64,
    /// The same, scheme by scheme.
    pass_ns_of: Vec<u64>,
    /// Estimated time of the actions that a dry run only pretended, in ns, as far as it is not
    /// charged yet.
    pretended_ns: u64,
    /// Where advice is noted before it is given.
    notes: Option<Arc<dyn Notes>>,
    /// Whether huge pages are split when there are no schemes any more.
    undo_huge: bool,
}

/// One request, with what belongs to it.
#[derive(Debug, Clone, Copy)]
struct Job<'a> {
    request: &'a Request,
    scheme: &'a Scheme,
    now: Time,
}

impl Actor {
    /// An actor without schemes or targets.
    #[must_use]
    pub fn new() -> Self {
        Self {
            settings: Vec::new(),
            accounts: Vec::new(),
            ledger: Ledger::default(),
            targets: BTreeMap::new(),
            physical: BTreeMap::new(),
            events: Vec::new(),
            lost_events: 0,
            reported: BTreeSet::new(),
            blocked: None,
            swap: Swap::default(),
            metrics: Metrics::default(),
            memcgs: MemcgIds::default(),
            own_cgroups: OwnCgroups::default(),
            places: Places::default(),
            levels: Levels::default(),
            placement: None,
            unflushed: false,
            translations: Translations::default(),
            arming: Budget::new(ARM_NS_PER_S, ARM_MOST_NS),
            arm_ns_per_s: ARM_NS_PER_S,
            arm_ns_per_mib: 100_000,
            marking: Budget::new(MARK_NS_PER_S, MARK_MOST_NS),
            mark_ns_per_mib: MARK_NS_PER_MIB,
            evidence_ns: 0,
            swept: Time::default(),
            last_end: Time::default(),
            pass_ns: 0,
            pass_ns_of: Vec::new(),
            pretended_ns: 0,
            notes: None,
            undo_huge: false,
        }
    }

    /// How each scheme of the context is carried out, by index. Accounts stay; evidence is gathered
    /// anew.
    pub fn set_schemes(&mut self, settings: Vec<Settings>) {
        self.accounts.resize_with(settings.len(), Account::default);
        let arm_ns = settings.iter().map(|s| s.evidence_us_per_s.saturating_mul(1000)).max();
        self.set_arming(arm_ns.unwrap_or(ARM_NS_PER_S));
        if self.settings != settings {
            for state in self.targets.values_mut() {
                state.evidence.clear();
            }
            self.physical.values_mut().for_each(memory::Physical::clear_evidence);
            self.ledger.forget_schemes();
            self.end_trials();
        }
        self.settings = settings;
        if self.undo_huge && self.settings.is_empty() {
            self.split_made();
        }
    }

    /// How much time gathering evidence may take, in ns per second.
    fn set_arming(&mut self, ns_per_s: u64) {
        if self.arm_ns_per_s != ns_per_s {
            self.arm_ns_per_s = ns_per_s;
            self.arming = Budget::new(ns_per_s, ARM_MOST_NS.max(ns_per_s));
        }
    }

    /// Which frame is on which node, and between which nodes schemes move memory. Schemes that take
    /// from one node need it.
    pub fn set_places(&mut self, places: Places, nodes: Vec<u32>) {
        self.places = places;
        if self.placement.as_ref().map(Placement::nodes) != Some(&nodes) {
            self.placement = (!nodes.is_empty()).then(|| Placement::new(nodes));
        }
    }

    /// How each scheme is carried out.
    #[must_use]
    pub fn settings(&self) -> &[Settings] {
        &self.settings
    }

    /// The account of each scheme: what became of its requests.
    #[must_use]
    pub fn accounts(&self) -> &[Account] {
        &self.accounts
    }

    /// Where advice is noted before it is given; none: nowhere.
    pub fn set_notes(&mut self, notes: Option<Arc<dyn Notes>>) {
        self.notes = notes;
    }

    /// Takes hold of a target.
    ///
    /// # Errors
    ///
    /// The target may not be acted on, by this process or at all. It is left alone then.
    pub fn add_target(&mut self, id: TargetId, pid: u32) -> Result<(), ActError> {
        let process = Process::open(pid)?;
        process.may_advise()?;
        self.targets.insert(id, TargetState::new(id, process));
        Ok(())
    }

    /// Lets go of a target. A later process with the same pid is another one, and its troubles are
    /// reported anew.
    pub fn remove_target(&mut self, id: TargetId) {
        let mut gone = Vec::new();
        self.ledger.forget(id);
        gone.extend(self.targets.remove(&id).map(|state| state.process.pid()));
        let physical = self.physical.remove(&id);
        gone.extend(physical.into_iter().flat_map(|physical| physical.owners.into_keys()));
        self.forget_reports(&gone);
    }

    /// Whether letting go of a target now would forget something that has still to be done: advice
    /// that is to be taken back, pages that were moved, and pages that may yet come back within the
    /// refault window, which the brake and the accounts count.
    #[must_use]
    pub fn owes(&self, id: TargetId) -> bool {
        self.physical.contains_key(&id)
            || self.targets.get(&id).is_some_and(|state| {
                !(state.proof.is_empty()
                    && state.hinted.is_empty()
                    && state.pretended.is_empty()
                    && state.moved.is_empty())
            })
    }

    fn forget_reports(&mut self, gone: &[u32]) {
        self.reported.retain(|(_, pid, _)| !gone.contains(pid));
    }

    /// Takes the events since the last call. If there were more than could be kept, the last event
    /// says how many were dropped.
    pub fn take_events(&mut self) -> Vec<ActEvent> {
        let mut events = std::mem::take(&mut self.events);
        if self.lost_events > 0 {
            let lost = std::mem::take(&mut self.lost_events);
            events.push(ActEvent::Lost { at: now(), events: lost });
        }
        events
    }

    /// Takes what was paged out since the last call, by target, without dry runs. Of a target that
    /// is gone nothing is known any more.
    pub fn take_paged_out(&mut self) -> BTreeMap<TargetId, PagedOut> {
        self.ledger.take()
    }

    /// Blocks the actor: it does nothing any more, and reports the reason.
    pub fn block(&mut self, why: &str) {
        if self.blocked.is_none() {
            self.blocked = Some(why.to_owned());
            self.tell(ActEvent::Blocked { at: now(), text: why.to_owned() });
        }
    }

    /// Why the actor is blocked; none if it is not.
    #[must_use]
    pub fn blocked(&self) -> Option<&str> {
        self.blocked.as_deref()
    }

    /// Ends the block. All evidence is dropped, because it was gathered before the block.
    pub fn unblock(&mut self) {
        self.blocked = None;
        self.physical.values_mut().for_each(memory::Physical::clear_evidence);
        for state in self.targets.values_mut() {
            state.evidence.clear();
        }
    }

    /// Carries out a scheme's request, by what the operations set sees of single pages.
    pub fn apply(
        &mut self,
        view: Option<PageView<'_>>,
        request: &Request,
        scheme: &Scheme,
    ) -> Applied {
        if self.physical.contains_key(&request.target) {
            return self.apply_to_memory(view.and_then(PageView::marks), request, scheme);
        }
        let Some(state) = self.targets.get(&request.target) else { return all_of(request) };
        match view {
            Some(PageView::Marks(folios)) => {
                let mut marks = Marks::new(folios, Arc::clone(&state.process));
                self.apply_by(Some(&mut marks), request, scheme)
            }
            Some(PageView::Tables(pages)) => {
                let applied = self.apply_by(Some(&mut ByTables(pages)), request, scheme);
                self.note_placed(request, scheme, &applied);
                applied
            }
            None => self.apply_by(None, request, scheme),
        }
    }

    fn apply_by(
        &mut self,
        look: Option<&mut dyn Look>,
        request: &Request,
        scheme: &Scheme,
    ) -> Applied {
        if now().since(self.last_end) > SAME_PASS_NS {
            self.pass_ns = 0;
            self.pass_ns_of.clear();
            self.begin_evidence();
        }
        let begin = now();
        let left_ns = self.left_in_pass(request.scheme);
        let request = &Request { max_ns: request.max_ns.min(left_ns), ..*request };
        let job = Job { request, scheme, now: begin };
        let mut applied = match (self.targets.remove(&request.target), &self.blocked) {
            (None, _) => all_of(request),
            (Some(state), why) if why.is_some() || left_ns == 0 => {
                self.targets.insert(request.target, state);
                later(request.range.len())
            }
            (Some(mut state), _) => {
                let applied = self.act(look, &mut state, job);
                self.targets.insert(request.target, state);
                applied
            }
        };
        self.last_end = now();
        applied.ns = self.last_end.since(begin);
        self.pass_ns += applied.ns;
        if let Some(ns) = self.pass_ns_of.get_mut(request.scheme) {
            *ns += applied.ns;
        }
        if let Some(account) = self.accounts.get_mut(request.scheme) {
            account.counters.action_ns += applied.ns;
        }
        // Evidence by marks has a budget of its own. If its time were charged to the scheme, it
        // would use up the quota; the quota would then move on to other memory, and no evidence
        // would ever be complete.
        applied.ns = applied.ns.saturating_sub(std::mem::take(&mut self.evidence_ns));
        // A dry run is charged the time that the real run would take, so that a time quota limits
        // both alike.
        applied.ns += std::mem::take(&mut self.pretended_ns);
        applied
    }

    /// What is left of a pass for a scheme, in ns. Each scheme has its share, so that a scheme that
    /// looks at much memory and finds nothing does not keep the others from their work.
    fn left_in_pass(&mut self, scheme: usize) -> u64 {
        let nr = self.settings.len().max(scheme + 1);
        self.pass_ns_of.resize(nr, 0);
        let share = (PASS_NS / nr as u64).saturating_sub(self.pass_ns_of[scheme]);
        PASS_NS.saturating_sub(self.pass_ns).min(share)
    }

    fn act(
        &mut self,
        look: Option<&mut dyn Look>,
        state: &mut TargetState,
        job: Job<'_>,
    ) -> Applied {
        let request = job.request;
        let Some(settings) = self.settings.get(request.scheme) else { return all_of(request) };
        let (evidence, dry_run) = (settings.evidence, settings.dry_run);
        let proves_pages_idle = settings.proves_pages_idle(request.action);
        if request.action == Action::Stat && job.scheme.filters.ops.is_empty() {
            return Applied { asked: request.range.len(), ..all_of(request) };
        }
        if let Some(why) = self.why_not(dry_run, job) {
            self.trouble(request.scheme, 0, &why);
            return later(request.range.len());
        }
        let Some(look) = look else {
            let why = "the operations set cannot look at single pages, so nothing is known of them: \
                       no action is taken";
            self.trouble(request.scheme, 0, why);
            return later(request.range.len());
        };
        match (request.action, evidence) {
            (Action::Stat, _) => self.stat(look, state, job),
            // Without proof the region's numbers would decide, and it does not match.
            _ if request.idle_us.is_some() && !proves_pages_idle => later(request.range.len()),
            (Action::Pageout | Action::Cold | Action::MigrateCold, Evidence::Confirm(us)) => {
                self.with_evidence(look, state, job, us)
            }
            (
                Action::Pageout
                | Action::Cold
                | Action::Willneed
                | Action::MigrateHot
                | Action::MigrateCold,
                _,
            ) => self.plain(look, state, job),
            (Action::Collapse, _) => self.collapse(look, state, job),
            (Action::Hugepage | Action::Nohugepage, _) => self.hint(look, state, job),
            (Action::LruPrio | Action::LruDeprio, _) => {
                let name = request.action.name();
                let why = format!("action {name} is not possible on another process's memory");
                self.trouble(request.scheme, 0, &why);
                all_of(request)
            }
        }
    }

    /// The reason, if any, why this machine cannot carry out the action at present.
    fn why_not(&mut self, dry_run: bool, job: Job<'_>) -> Option<String> {
        let needs_swap =
            job.request.action == Action::Pageout && !dry_run && !refuse_anon(&job.scheme.filters);
        if needs_swap { self.swap.why_not(job.now) } else { None }
    }

    /// Goes on with trials, and looks again at what was acted on. Call it often; the latter is done
    /// once per second.
    pub fn sweep(&mut self, mut view: PageView<'_>) {
        self.prove(&mut view);
        self.begin_evidence();
        let now = now();
        if now.since(self.swept) < SWEEP_NS {
            return;
        }
        self.swept = now;
        match view {
            PageView::Tables(pages) => {
                let look = &mut ByTables(pages);
                let (settings, accounts) = (&self.settings, &mut self.accounts);
                for state in self.targets.values_mut() {
                    sweep_one(state, look, settings, (accounts, &mut self.ledger), now);
                }
            }
            PageView::Marks(folios) => {
                self.sweep_memory(folios, now);
                let (settings, accounts) = (&self.settings, &mut self.accounts);
                for state in self.targets.values_mut() {
                    let mut marks = Marks::new(folios, Arc::clone(&state.process));
                    sweep_one(state, &mut marks, settings, (accounts, &mut self.ledger), now);
                }
            }
        }
    }

    /// After marking: makes all processors drop their TLB entries. From then on marks show every
    /// access.
    fn begin_evidence(&mut self) {
        if !std::mem::replace(&mut self.unflushed, false) {
            return;
        }
        match self.translations.flush() {
            Ok(()) => {
                let now = now();
                self.physical.values_mut().for_each(|physical| physical.begin(now));
                let all = self.targets.values_mut().flat_map(|state| &mut state.evidence);
                all.for_each(|evidence| evidence.begin(now));
            }
            Err(why) => {
                self.unflushed = true;
                self.trouble(0, 0, &why);
            }
        }
    }

    /// Records that the monitor made a unit old. `cleared`: its pages that were young before.
    /// `is_proof`: a page that stays old from now on was not touched.
    pub fn note_unit_made_old(&mut self, check: &UnitCheck, cleared: PageBits, is_proof: bool) {
        if is_proof
            && !self.settings.is_empty()
            && let Some(state) = self.targets.get_mut(&check.target)
        {
            state.monitored.made_old(check, now());
        }
        cleared.runs(|first, behind| {
            let start = check.start + first * PAGE_SIZE;
            self.note_range_touched(check.target, start, (behind - first) * PAGE_SIZE);
        });
    }

    /// Records what the monitor has seen of a unit.
    pub fn note_unit_looked_at(&mut self, check: &UnitCheck) {
        if check.answered
            && !self.settings.is_empty()
            && let Some(state) = self.targets.get_mut(&check.target)
        {
            state.monitored.looked(check, now());
        }
    }

    /// Records that the monitor made a page old that it had found young.
    pub fn note_touched(&mut self, target: TargetId, addr: u64, leaf_shift: u8) {
        let len = 1 << leaf_shift;
        self.note_range_touched(target, addr & !(len - 1), len);
    }

    fn note_range_touched(&mut self, target: TargetId, addr: u64, len: u64) {
        if let Some(physical) = self.physical.get_mut(&target) {
            return physical.touched(addr, len);
        }
        let Some(state) = self.targets.get_mut(&target) else { return };
        for evidence in &mut state.evidence {
            evidence.touched(addr, len);
        }
        let (settings, accounts, now) = (&self.settings, &mut self.accounts, now());
        let ledger = &mut self.ledger;
        let terms = |scheme: usize| settings.get(scheme).map(Settings::terms).unwrap_or_default();
        state.proof.touched(addr, len, now, terms, |scheme, bytes| {
            ledger.refaulted(scheme, target, bytes);
            if let Some(account) = accounts.get_mut(scheme) {
                account.refaulted(bytes, now);
            }
        });
    }

    /// Where the targets' memory is; none if no scheme takes from one node.
    #[must_use]
    pub const fn placement(&self) -> Option<&Placement> {
        self.placement.as_ref()
    }

    const fn placement_mut(&mut self) -> Option<&mut Placement> {
        self.placement.as_mut()
    }

    /// Looks up where memory is, as much as there is time for.
    fn look_at_places(&mut self, walk: &mut PageTables) {
        let mut tables = Tables { walk, places: &self.places };
        if let Some(placement) = &mut self.placement {
            placement.look(&mut tables);
        }
    }

    /// Remembers what applying a scheme has changed about where memory is, until that memory is
    /// looked up again.
    fn note_placed(&mut self, request: &Request, scheme: &Scheme, applied: &Applied) {
        let (Some(from), Some(placement)) = (scheme.source_nid, &mut self.placement) else {
            return;
        };
        let AddrRange { start, end } = request.range;
        let covered = AddrRange::new(start, start.saturating_add(applied.covered).min(end));
        let (bytes, asked) = (applied.applied, applied.asked > 0);
        placement.acted(
            request.target,
            covered,
            &Moved { from, to: scheme.target_nid, bytes, asked },
        );
    }

    /// What a scheme sees of `range`, granule by granule. A scheme that takes from one node sees
    /// only the pages on that node that were not moved a short time ago.
    fn see(
        &self,
        look: &mut dyn Look,
        state: &TargetState,
        scheme: usize,
        range: AddrRange,
    ) -> BTreeMap<u64, Seen> {
        let settings = self.settings.get(scheme);
        let Some((node, hold_us)) = settings.and_then(|s| Some((s.only_on?, s.hold_us))) else {
            return state.see(look, range);
        };
        let (mut all, now) = (BTreeMap::new(), now());
        // A process that cannot be looked at has ended, so it has no memory there.
        look.on_node(state.id, range, &self.places, node, &mut |start, mut seen, pages| {
            let pages = pages.minus(state.moved.held(start, hold_us.saturating_mul(1000), now));
            (seen.present, seen.young) = (seen.present.and(pages), seen.young.and(pages));
            if !seen.present.is_empty() {
                all.insert(start, seen);
            }
        })
        .ok();
        all
    }

    fn account(&mut self, scheme: usize) -> &mut Account {
        if self.accounts.len() <= scheme {
            self.accounts.resize_with(scheme + 1, Account::default);
        }
        &mut self.accounts[scheme]
    }

    fn counters(&mut self, scheme: usize) -> &mut Counters {
        &mut self.account(scheme).counters
    }

    /// Reacts to what an outcome says besides its numbers.
    fn note_outcome(&mut self, job: Job<'_>, state: &TargetState, outcome: &Outcome) {
        self.account(job.request.scheme).acted(outcome);
        if outcome.denied {
            let why = "the right to act on it was lost (permission denied); it needs CAP_SYS_NICE and \
                       CAP_SYS_PTRACE";
            self.trouble(job.request.scheme, state.process.pid(), why);
        }
    }

    fn trouble(&mut self, scheme: usize, pid: u32, text: &str) {
        if self.reported.len() >= MAX_REPORTED {
            self.reported.clear();
        }
        let scheme = self.name(scheme);
        if self.reported.insert((scheme.clone(), pid, text.to_owned())) {
            self.tell(ActEvent::Trouble { at: now(), scheme, pid, text: text.to_owned() });
        }
    }

    /// The name of the scheme that has this index now.
    fn name(&self, scheme: usize) -> String {
        self.settings.get(scheme).map(|s| s.name.clone()).unwrap_or_default()
    }

    fn tell(&mut self, event: ActEvent) {
        if self.events.len() < MAX_EVENTS {
            self.events.push(event);
        } else {
            self.lost_events += 1;
        }
    }
}

impl Default for Actor {
    fn default() -> Self {
        Self::new()
    }
}

/// Looks again at what was acted on in one target, and drops evidence that is too old.
fn sweep_one(
    state: &mut TargetState,
    look: &mut dyn Look,
    settings: &[Settings],
    (accounts, ledger): (&mut [Account], &mut Ledger),
    now: Time,
) {
    for (evidence, settings) in state.evidence.iter_mut().zip(settings) {
        if let Evidence::Confirm(us) = settings.evidence {
            evidence.sweep(evidence::confirm::rules(Some(settings), us), now);
        }
    }
    state.monitored.sweep(now);
    let terms = |scheme: usize| settings.get(scheme).map(Settings::terms).unwrap_or_default();
    let target = state.id;
    state.proof.sweep(look, target, now, terms, |scheme, bytes| {
        ledger.refaulted(scheme, target, bytes);
        if let Some(account) = accounts.get_mut(scheme) {
            account.refaulted(bytes, now);
        }
    });
}

/// The answer when nothing is done, now or later: the whole region is settled.
fn all_of(request: &Request) -> Applied {
    Applied { covered: request.range.len(), ..Applied::default() }
}

/// The answer when nothing is done to the first `bytes` bytes for now.
fn later(bytes: u64) -> Applied {
    Applied { skip: bytes, ..Applied::default() }
}

/// When to stop between two batches, and never before the first one. Otherwise nothing would ever
/// be done where the look alone uses up all of the time.
fn until(job: Job<'_>) -> impl FnMut() -> bool {
    let (begin, most, mut first) = (job.now, job.request.max_ns, true);
    move || !std::mem::take(&mut first) && now().since(begin) >= most
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_end_with_their_process() {
        let mut actor = Actor::new();
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let pid = child.id();
        for turn in 1..=3 {
            let process = Process::open(pid).unwrap();
            actor.targets.insert(TargetId(turn), TargetState::new(TargetId(turn), process));
            for _ in 0..5 {
                actor.trouble(0, pid, "locked");
                actor.trouble(0, 0, "no swap");
            }
            actor.remove_target(TargetId(turn));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let told = actor.take_events();
        assert_eq!(told.len(), 4, "three processes and the machine: {told:?}");
        assert_eq!(actor.reported.len(), 1, "only the machine's is remembered");
    }

    /// As when a policy is committed before the last window's events were taken.
    #[test]
    fn an_event_keeps_the_name_that_its_scheme_had() {
        let named = |name: &str| Settings { name: name.to_owned(), ..Settings::default() };
        let mut actor = Actor::new();
        for names in [&["old", "second"][..], &["new", "old"]] {
            actor.set_schemes(names.iter().map(|name| named(name)).collect());
            actor.trouble(0, 0, "no swap");
        }
        // The same trouble of the same scheme, which has another index now.
        actor.trouble(1, 0, "no swap");
        let name = |event: ActEvent| match event {
            ActEvent::Trouble { scheme, .. } => scheme,
            event => panic!("{event:?}"),
        };
        let names: Vec<_> = actor.take_events().into_iter().map(name).collect();
        assert_eq!(names, ["old", "new"]);
    }

    #[test]
    fn events_that_nobody_takes_are_counted() {
        let mut actor = Actor::new();
        for nr in 0..MAX_EVENTS + 10 {
            actor.trouble(0, 0, &format!("text {nr}"));
        }
        let events = actor.take_events();
        assert_eq!(events.len(), MAX_EVENTS + 1);
        assert!(matches!(events.last(), Some(ActEvent::Lost { events: 10, .. })));
        assert_eq!(actor.take_events(), []);
        // The memory of what was reported is bounded, too.
        assert!(actor.reported.len() <= MAX_REPORTED);
    }
}
