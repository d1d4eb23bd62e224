//! One pass over a record. It keeps track of targets and mappings, and passes on the snapshots that
//! pass the filter.

use std::collections::BTreeMap;

use isotherm_core::{Late, Lengths, Snapshot, TargetId, TargetInfo};
use isotherm_record::once::Sharing;
use isotherm_record::{Damage, End, Event, Frames, Header, Mapping, Note, Ram, Record, Target};

use crate::error::Error;
use crate::filter::Filter;
use crate::page_maps::PageMaps;

/// A target at the present point of the pass.
#[derive(Debug, Clone, Default)]
pub struct TargetState {
    /// Its id, pid and name. The name changes at an `exec`.
    pub target: Target,
    /// Its mappings, in address order.
    pub mappings: Vec<Mapping>,
    /// Increased whenever `mappings` changes.
    pub mappings_version: u64,
    /// Whether it passes the filter.
    pub wanted: bool,
    /// When it exited.
    pub exited_ns: Option<u64>,
}

impl TargetState {
    /// Its name and pid.
    #[must_use]
    pub fn title(&self) -> String {
        match &self.target.memory {
            Some(memory) => format!("physical memory ({memory})"),
            None => format!("{} (pid {})", self.target.name, self.target.pid),
        }
    }
}

/// What a pass knows: during the pass up to the present snapshot, after it about the whole record.
#[derive(Debug, Clone, Default)]
pub struct Scan {
    /// Facts about the record.
    pub header: Header,
    /// Every target so far, by its id.
    pub targets: BTreeMap<u32, TargetState>,
    /// Start of the first snapshot of the record: time 0 of the reports.
    pub origin_ns: u64,
    /// Start of the first and end of the last snapshot that passed the filter.
    pub seen_ns: Option<(u64, u64)>,
    /// Snapshots in the record.
    pub snapshots: u64,
    /// Number of snapshots that passed the filter.
    pub taken: u64,
    /// Where the machine's RAM is, if a target is physical memory.
    pub ram: Option<Ram>,
    /// The last look at a sample of page frames.
    pub sample: Frames,
    /// Number of these looks so far.
    pub sample_version: u64,
    /// Page maps as they were known in the last snapshot that is not behind the filter's time.
    pub pages: PageMaps,
    /// How long the windows so far took, those included that do not pass the filter.
    pub lengths: Lengths,
    /// How many of the windows that passed the filter came late.
    pub late: Late,
    /// Whether the pass is behind the filter's time.
    past: bool,
    /// Messages.
    pub notes: Vec<Note>,
    /// The end mark.
    pub end: Option<End>,
    /// What could not be read.
    pub damage: Damage,
}

/// Makes a report of one pass over a record: `add` takes in each snapshot that passes the filter.
pub(crate) fn build<B: Default, R>(
    record: &Record,
    filter: &Filter,
    add: impl Fn(&mut B, &Scan, &Snapshot, &Filter),
    finish: impl FnOnce(B, &Scan) -> R,
) -> Result<R, Error> {
    let mut build = B::default();
    let scan = Scan::run(record, filter, |scan, s| {
        add(&mut build, scan, s, filter);
        Ok(())
    })?;
    Ok(finish(build, &scan))
}

impl Scan {
    /// Reads `record`, and calls `f` for each snapshot whose window passes the filter.
    ///
    /// # Errors
    ///
    /// The errors of reading and of `f`, and [`Error::Nothing`] if no snapshot passed the filter.
    pub fn run(
        record: &Record,
        filter: &Filter,
        mut f: impl FnMut(&Self, &Snapshot) -> Result<(), Error>,
    ) -> Result<Self, Error> {
        let mut reader = record.reader()?;
        let mut scan = Self { header: reader.header().clone(), ..Self::default() };
        let mut versions = 0;
        while let Some(event) = reader.next_event()? {
            match event {
                Event::Target(t) => {
                    let wanted = filter.has_target(t);
                    let state = scan.targets.entry(t.id).or_default();
                    state.target = t.clone();
                    state.wanted = wanted;
                }
                Event::Exec(e) => {
                    let state = scan.targets.entry(e.id).or_default();
                    state.target.name.clone_from(&e.name);
                    state.wanted |= filter.has_target(&state.target);
                    if !scan.past {
                        scan.pages.forget(TargetId(e.id));
                    }
                }
                Event::Exit(e) => {
                    scan.targets.entry(e.id).or_default().exited_ns = Some(e.t_ns);
                }
                Event::Mappings { target, mappings, .. } => {
                    let state = scan.targets.entry(target).or_default();
                    versions += 1;
                    state.mappings_version = versions;
                    state.mappings.clear();
                    state.mappings.extend_from_slice(mappings);
                }
                Event::Snapshot(s) => scan.snapshot(s, filter, &mut f)?,
                Event::Pages(pages) if !scan.past => scan.pages.learn(pages),
                Event::Pages(_) | Event::Cgroups(_) => {}
                Event::Ram(ram) => scan.ram = Some(ram.clone()),
                Event::Frames(frames) => {
                    scan.sample.clone_from(frames);
                    scan.sample_version += 1;
                }
                Event::Note(n) => {
                    scan.lengths.suspended(n.suspended_ns);
                    let at = scan.since_start(n.t_ns);
                    if filter.has_window(at, at.saturating_add(1)) {
                        scan.late.suspended(n.suspended_ns);
                    }
                    scan.notes.push(n.clone());
                }
                Event::End(e) => scan.end = Some(e.clone()),
            }
        }
        scan.damage = reader.damage();
        if scan.taken == 0 {
            return Err(scan.nothing(filter));
        }
        Ok(scan)
    }

    /// What a reader of the report has to know: what could not be read, and what is missing from
    /// the record because windows came late. Empty if nothing.
    #[must_use]
    pub fn caveats(&self) -> String {
        let damage = self.damage.to_string();
        if !self.late.is_worth_telling() {
            return damage;
        }
        let sep = if damage.is_empty() { "" } else { "; " };
        format!("{damage}{sep}{}", self.late)
    }

    /// What the recorder said about others who clear accessed bits; empty if nothing.
    #[must_use]
    pub fn others(&self) -> &str {
        let mut texts = self.notes.iter().map(|note| note.text.as_str());
        texts.rfind(|text| text.starts_with(Note::OTHERS_CLEAR)).unwrap_or_default()
    }

    fn snapshot(
        &mut self,
        s: &Snapshot,
        filter: &Filter,
        f: &mut impl FnMut(&Self, &Snapshot) -> Result<(), Error>,
    ) -> Result<(), Error> {
        if self.snapshots == 0 {
            self.origin_ns = s.start.0;
        }
        self.snapshots += 1;
        self.lengths.note(s);
        // A record whose target frames are damaged still has snapshots that name them.
        for t in &s.targets {
            self.targets.entry(t.id.0).or_insert_with(|| {
                let target = Target { id: t.id.0, ..Target::default() };
                let wanted = filter.has_target(&target);
                TargetState { target, wanted, ..TargetState::default() }
            });
        }
        let window = (self.since_start(s.start.0), self.since_start(s.end.0));
        self.past |= filter.time.is_some_and(|(_, to)| window.0 >= to);
        if !self.past {
            self.pages.advance(s.end);
        }
        if !filter.has_window(window.0, window.1) {
            return Ok(());
        }
        if !filter.targets.is_empty() && !self.wanted(s).any(|_| true) {
            return Ok(());
        }
        self.taken += 1;
        self.late.note(s);
        self.seen_ns = Some((self.seen_ns.map_or(s.start.0, |(a, _)| a), s.end.0));
        if s.targets.iter().all(|t| self.pages.get(t.id).is_none()) {
            return f(self, s);
        }
        let mut told = s.clone();
        self.pages.tell(&mut told);
        f(self, &told)
    }

    /// The targets of a snapshot that pass the filter, with what is known about them.
    pub fn wanted<'a>(
        &'a self,
        s: &'a Snapshot,
    ) -> impl Iterator<Item = (&'a TargetState, &'a TargetInfo)> {
        s.targets.iter().filter_map(|t| {
            let state = self.targets.get(&t.id.0)?;
            state.wanted.then_some((state, t))
        })
    }

    /// Tells what is known of the mappings of the targets in a snapshot.
    pub(crate) fn tell_sharing(&self, s: &Snapshot, sharing: &mut Sharing) {
        if s.targets.len() > 1 {
            for (state, t) in self.wanted(s) {
                sharing.learn(t.id.0, state.mappings_version, &state.mappings);
            }
        }
    }

    /// Names the targets that passed the filter.
    #[must_use]
    pub fn title(&self) -> String {
        let mut wanted = self.targets.values().filter(|t| t.wanted);
        match (wanted.next(), wanted.count()) {
            (None, _) => "no target".into(),
            (Some(t), 0) => t.title(),
            (Some(t), n) => format!("{} and {n} more", t.title()),
        }
    }

    /// Ns from the start to `t_ns`.
    #[must_use]
    pub fn since_start(&self, t_ns: u64) -> u64 {
        t_ns.saturating_sub(self.origin_ns)
    }

    /// Length of the time that was seen, in ns.
    #[must_use]
    pub fn seen_len(&self) -> u64 {
        self.seen_ns.map_or(0, |(a, b)| b.saturating_sub(a))
    }

    fn nothing(&self, filter: &Filter) -> Error {
        if self.snapshots > 0 {
            let mut names: Vec<_> = self.targets.values().map(TargetState::title).collect();
            names.truncate(8);
            let why = if !filter.targets.is_empty() && self.targets.values().all(|t| !t.wanted) {
                format!("no target is called {}", filter.targets.join(" or "))
            } else {
                format!("none of the {} snapshots is inside the filter", self.snapshots)
            };
            let why = format!("{why}; the record holds {}", names.join(", "));
            return Error::Nothing { why, hint: "widen --time, --address or --target" };
        }
        let why = match &self.end {
            Some(end) => {
                format!("the record holds no snapshot; recording ended with: {}", end.reason)
            }
            None => "the record holds no snapshot; its recorder was killed within the first \
                     second"
                .into(),
        };
        let hint = if self.targets.values().any(|t| t.exited_ns.is_some()) {
            "a target must live for at least one aggregation interval; a shorter --aggr helps"
        } else {
            "record for longer"
        };
        Error::Nothing { why, hint }
    }
}
