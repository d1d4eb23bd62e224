//! The ops filters, page by page (R§4.9).
//!
//! Filters are evaluated one after the other on sets of 512 pages. The kernel is asked for what a
//! filter has to know when the first page reaches that filter, and only for pages that do.
//!
//! Invariants: a page of which the answer cannot be known is refused, and the reason is reported. A
//! huge page passes as a whole or not at all. Unlike the kernel's `young` filter, a filter here
//! does not make pages old, because other schemes rely on the accessed bits.

mod frames;
mod mapping;
mod memcg;

use isotherm_core::AddrRange;
use isotherm_core::scheme::{Action, FilterKind, Filters};

use self::frames::Frames;
use self::mapping::Mappings;
pub(super) use self::memcg::MemcgIds;
use crate::Process;
use crate::apply::evidence::look::Seen;
use crate::apply::pages::Bits;
use crate::apply::target::TargetState;
use crate::apply::{Actor, Job};

/// Whether anonymous memory is certainly refused: then no swap is needed.
#[must_use]
pub fn refuse_anon(filters: &Filters) -> bool {
    for filter in &filters.ops {
        let is_of_kind = match filter.kind {
            FilterKind::Anon => true,
            FilterKind::File | FilterKind::Unmapped => false,
            // Some anonymous memory is of this kind and some is not.
            _ if filter.allow => return false,
            _ => continue,
        };
        if let Some(allow) = filter.decide(is_of_kind) {
            return !allow;
        }
    }
    filters.ops_default_reject()
}

/// Decides about pages of one target, for one request.
#[derive(Debug, Default)]
pub(super) struct PageFilter {
    filters: Option<Filters>,
    facts: Facts,
    /// Whether what only swap can take stays where it is, and whether there was any.
    no_swap: bool,
    kept: bool,
    /// What could not be known, and why.
    unknown: Vec<String>,
}

/// What filters ask about the pages of a request.
#[derive(Debug, Default)]
struct Facts {
    mappings: Mappings,
    /// The inodes of the scheme's cgroups, by number; or why there is none.
    memcgs: Vec<Result<u64, String>>,
    frames: Frames,
}

/// The answer to one filter's question.
#[derive(Debug, Clone, Copy, Default)]
struct Answer {
    is: Bits,
    unknown: Bits,
}

impl Actor {
    /// The scheme's ops filters for this request; lets all in if there are none.
    pub(super) fn page_filter(&mut self, state: &TargetState, job: Job<'_>) -> PageFilter {
        let filters = &job.scheme.filters;
        let mut passes = PageFilter::default();
        if filters.ops.is_empty() || job.request.bypass_filters {
            return passes;
        }
        let asks = |about: fn(&FilterKind) -> bool| filters.ops.iter().any(|f| about(&f.kind));
        let settings = self.settings.get(job.request.scheme);
        // Without swap, shared memory would only be unmapped, and nothing would be freed.
        passes.no_swap = job.request.action == Action::Pageout
            && settings.is_none_or(|s| !s.dry_run)
            && self.swap.why_not(job.now).is_some();
        let by_mapping =
            |kind: &FilterKind| matches!(kind, FilterKind::Shared | FilterKind::Mapping(_));
        if passes.no_swap || asks(by_mapping) {
            let patterns = settings.map_or(&[][..], |s| s.mappings.as_slice());
            passes.facts.mappings = Mappings::read(&state.process, job.request.range, patterns);
        }
        if asks(|kind| matches!(kind, FilterKind::Memcg(_))) {
            let paths = settings.map_or(&[][..], |s| s.cgroups.as_slice());
            passes.facts.memcgs = paths.iter().map(|p| self.memcgs.of(p, job.now)).collect();
        }
        passes.filters = Some(filters.clone());
        passes
    }

    /// Tells what a filter could not know.
    pub(super) fn tell_unknown(&mut self, state: &TargetState, job: Job<'_>, passes: PageFilter) {
        if passes.kept {
            let why =
                "there is no swap for shared memory and files of tmpfs; they stay where they are";
            self.trouble(job.request.scheme, state.process.pid(), why);
        }
        for why in passes.unknown {
            self.trouble(job.request.scheme, state.process.pid(), &why);
        }
    }
}

impl PageFilter {
    /// Those of `pages`, in the granule at `start`, that are let in.
    pub(super) fn of(&mut self, process: &Process, start: u64, pages: Bits, seen: Seen) -> Bits {
        let Some(filters) = &self.filters else { return pages };
        let kept = if self.no_swap {
            self.facts.mappings.in_memory(start).and(pages)
        } else {
            Bits::default()
        };
        self.kept |= !kept.is_empty();
        let (mut rest, mut allowed) = (pages.minus(kept), Bits::default());
        for filter in &filters.ops {
            if rest.is_empty() {
                break;
            }
            let here = Granule { process, start, seen, pages: rest };
            let answer = match self.facts.answer(filter.kind, &here) {
                Ok(answer) => answer,
                Err(why) => {
                    if !self.unknown.contains(&why) {
                        self.unknown.push(why);
                    }
                    Answer { unknown: rest, ..Answer::default() }
                }
            };
            rest = rest.minus(answer.unknown);
            let hit = if filter.matching { rest.and(answer.is) } else { rest.minus(answer.is) };
            if filter.allow {
                allowed = allowed.or(hit);
            }
            rest = rest.minus(hit);
        }
        if !filters.ops_default_reject() {
            allowed = allowed.or(rest);
        }
        if seen.huge && allowed != pages { Bits::default() } else { allowed }
    }
}

/// Pages that are asked about.
#[derive(Debug, Clone, Copy)]
struct Granule<'p> {
    process: &'p Process,
    start: u64,
    seen: Seen,
    pages: Bits,
}

impl Facts {
    /// Which of the pages are of a kind; or why nobody knows.
    fn answer(&mut self, kind: FilterKind, here: &Granule<'_>) -> Result<Answer, String> {
        let (start, seen) = (here.start, here.seen);
        let known = |is| Answer { is, unknown: Bits::default() };
        Ok(match kind {
            FilterKind::Anon => {
                let file = self.frames.file(here)?;
                Answer { is: here.pages.minus(file.is).minus(file.unknown), ..file }
            }
            FilterKind::File => self.frames.file(here)?,
            FilterKind::Young => known(seen.young),
            FilterKind::Shared | FilterKind::Mapping(_) => {
                let mappings = &self.mappings;
                let is = match kind {
                    FilterKind::Mapping(nr) => mappings.named(start, nr),
                    _ => mappings.shared(start),
                };
                // A page that is in no mapping came after they were read, or went.
                Answer { is, unknown: here.pages.minus(mappings.all(start)) }
            }
            FilterKind::Active => self.frames.active(here)?,
            FilterKind::HugepageSize(min, max) => {
                self.frames.sized(here, |bytes| min <= bytes && bytes <= max)?
            }
            FilterKind::Memcg(nr) => {
                let nr = usize::try_from(nr).unwrap_or(usize::MAX);
                match self.memcgs.get(nr) {
                    Some(Ok(inode)) => self.frames.charged_to(here, *inode)?,
                    Some(Err(why)) => return Err(why.clone()),
                    None => {
                        return Err(format!(
                            "filter `memcg` names cgroup {nr}, which is not there"
                        ));
                    }
                }
            }
            // What an address space maps is mapped. The rest is the core's.
            FilterKind::Unmapped | FilterKind::Addr(_) | FilterKind::Target(_) => {
                known(Bits::default())
            }
        })
    }
}

/// The pages of a granule for which `is` holds, by number.
fn bits_where(is: impl Fn(usize) -> bool) -> Bits {
    let mut bits = Bits::default();
    for (nr, word) in bits.0.iter_mut().enumerate() {
        for bit in 0..64 {
            *word |= u64::from(is(nr * 64 + bit)) << bit;
        }
    }
    bits
}

/// A range of one granule.
const fn granule_at(start: u64) -> AddrRange {
    AddrRange::new(start, start + crate::apply::pages::GRANULE)
}

#[cfg(test)]
mod tests {
    use isotherm_core::scheme::Filter;

    use super::*;

    #[test]
    fn swap_is_not_needed_only_where_anonymous_memory_is_certainly_refused() {
        let is = |kind, allow| Filter { kind, matching: true, allow };
        let is_not = |kind, allow| Filter { kind, matching: false, allow };
        for (name, filters, expected) in [
            ("none", vec![], false),
            ("reject anon", vec![is(FilterKind::Anon, false)], true),
            ("allow anon", vec![is(FilterKind::Anon, true)], false),
            ("allow file", vec![is(FilterKind::File, true)], true),
            ("reject file", vec![is(FilterKind::File, false)], false),
            ("reject all but files", vec![is_not(FilterKind::File, false)], true),
            ("allow young", vec![is(FilterKind::Young, true)], false),
            ("reject young", vec![is(FilterKind::Young, false)], false),
            (
                "reject young, then anon",
                vec![is(FilterKind::Young, false), is(FilterKind::Anon, false)],
                true,
            ),
            (
                "allow a mapping, then reject anon",
                vec![is(FilterKind::Mapping(0), true), is(FilterKind::Anon, false)],
                false,
            ),
        ] {
            let filters = Filters { ops: filters, ..Filters::default() };
            assert_eq!(refuse_anon(&filters), expected, "{name}");
        }
    }
}
