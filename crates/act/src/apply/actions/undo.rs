//! Huge page advice that was given is taken back, as far as the kernel can do that.
//!
//! The kernel cannot remove advice: memory that had none keeps `hg` or `nh` in its `smaps`. Advice
//! can only be replaced by its opposite. So there are three cases:
//!
//! * Memory that had the opposite advice before gets that again, and is as it was.
//! * Advice that has an effect under the machine's setting, and whose opposite is the same as none
//!   there, is replaced: `hugepage` if huge pages are given to those who ask (`madvise`),
//!   `nohugepage` if they are given to all (`always`).
//! * All other advice is left. It changes nothing under this setting, and its opposite might.
//!
//! A target may be busy just then: its thread still ends the call before, or waits for a disk.
//! Nobody comes back later, so such a target is tried again for a moment. If that does not help,
//! the notes of its advice are kept for the next run.

use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use isotherm_core::scheme::Action;

use crate::apply::Actor;
use crate::apply::actions::given::{Noted, Whose};
use crate::apply::pages::Bits;
use crate::apply::target::{Chosen, TargetState};
use crate::{ActError, ActKind};

/// Where the kernel tells who gets huge pages.
const SETTINGS: &str = "/sys/kernel/mm/transparent_hugepage";
/// For how long targets that are busy are tried again, all together.
const PATIENCE: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(20);

/// What became of the advice that was given.
#[derive(Debug, Default)]
pub struct Undone {
    /// Bytes that have the advice again that they had before.
    pub restored_bytes: u64,
    /// Bytes that had no advice, and now have the opposite of what was given. Under the machine's
    /// present setting that is the same as none.
    pub replaced_bytes: u64,
    /// Bytes that keep the advice, since it has no effect under the machine's present setting.
    pub left_bytes: u64,
    /// What went wrong.
    pub errors: Vec<ActError>,
    /// Whose advice is still there because of an error. Notes of it are kept.
    pub unfinished: Vec<Whose>,
}

impl Actor {
    /// Takes back the huge page advice that was given, and splits huge pages of which no
    /// trial has decided yet whether they pay. Other huge pages that were made stay. Targets that
    /// are busy are tried again for up to a second, all together.
    pub fn undo(&mut self) -> Undone {
        let who = Who::read(Path::new(SETTINGS));
        let mut undone = Undone::default();
        let until = Instant::now() + PATIENCE;
        self.end_trials();
        let mut all = std::mem::take(&mut self.targets);
        for state in all.values_mut().filter(|state| !state.hinted.is_empty()) {
            let errors = undone.errors.len();
            for given in [Action::Hugepage, Action::Nohugepage] {
                self.take_back(state, given, who.has_effect(given), until, &mut undone);
            }
            if let Some(whose) = Whose::of(state.process.pid()) {
                if undone.errors.len() > errors {
                    undone.unfinished.push(whose);
                } else if let Some(notes) = &self.notes {
                    notes.forget(whose);
                }
            }
            state.hinted.clear();
            state.opposed.clear();
            state.noted = Noted::default();
        }
        self.targets = all;
        undone
    }

    fn take_back(
        &mut self,
        state: &mut TargetState,
        given: Action,
        has_effect: bool,
        until: Instant,
        undone: &mut Undone,
    ) {
        let opposite = match given {
            Action::Hugepage => Action::Nohugepage,
            _ => Action::Hugepage,
        };
        let [mut before, mut none] = [Chosen::default(), Chosen::default()];
        for (&start, _) in state.hinted.iter().filter(|(_, action)| **action == given) {
            let to = if state.opposed.contains(&start) { &mut before } else { &mut none };
            to.push(start, Bits::ALL, true, u64::MAX);
        }
        let mut replace = |chosen: &Chosen, bytes: &mut u64| {
            if chosen.ranges.is_empty() {
                return;
            }
            loop {
                match self.inject(state, opposite, &chosen.ranges, &mut || false) {
                    Ok(outcome) => *bytes += outcome.accepted_bytes,
                    Err(err) if err.kind() == ActKind::Busy && Instant::now() < until => {
                        sleep(PAUSE);
                        continue;
                    }
                    Err(err) => undone.errors.push(err),
                }
                break;
            }
        };
        replace(&before, &mut undone.restored_bytes);
        if has_effect {
            replace(&none, &mut undone.replaced_bytes);
        } else {
            // A granule may lie in holes, or beyond the end of a mapping.
            let huge = given == Action::Hugepage;
            undone.left_bytes += state.advised_bytes(&none.ranges, huge);
        }
    }
}

/// Who gets huge pages, of any size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Who {
    /// All memory gets some size.
    always: bool,
    /// Memory with the advice gets some size.
    madvise: bool,
}

impl Who {
    /// Reads the settings below this directory. A kernel without huge pages has none.
    fn read(dir: &Path) -> Self {
        let mut who = Self::default();
        let top = fs::read_to_string(dir.join("enabled")).unwrap_or_default();
        // Kernels without sizes of their own have only the setting for all.
        let mut sizes = 0;
        for size in fs::read_dir(dir).into_iter().flatten().flatten() {
            if let Ok(text) = fs::read_to_string(size.path().join("enabled")) {
                sizes += 1;
                who.learn(if text.contains("[inherit]") { &top } else { &text });
            }
        }
        if sizes == 0 {
            who.learn(&top);
        }
        who
    }

    fn learn(&mut self, text: &str) {
        self.always |= text.contains("[always]");
        self.madvise |= text.contains("[madvise]");
    }

    /// Whether this advice changes who gets huge pages, and its opposite is the same as none.
    const fn has_effect(self, given: Action) -> bool {
        match given {
            Action::Hugepage => self.madvise && !self.always,
            _ => self.always && !self.madvise,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_is_replaced_only_where_it_matters() {
        // The setting for all, that of a size, and whether each advice is replaced.
        for (top, size, huge, no_huge) in [
            ("always madvise [never]", None, false, false),
            ("always [madvise] never", None, true, false),
            ("[always] madvise never", None, false, true),
            ("always [madvise] never", Some("always [inherit] madvise never"), true, false),
            ("always madvise [never]", Some("always inherit [madvise] never"), true, false),
            ("[always] madvise never", Some("always inherit madvise [never]"), false, false),
            ("", None, false, false),
        ] {
            let dir = tempfile::tempdir().unwrap();
            fs::write(dir.path().join("enabled"), top).unwrap();
            if let Some(size) = size {
                let of = dir.path().join("hugepages-2048kB");
                fs::create_dir(&of).unwrap();
                fs::write(of.join("enabled"), size).unwrap();
            }
            let who = Who::read(dir.path());
            let has = [Action::Hugepage, Action::Nohugepage].map(|given| who.has_effect(given));
            assert_eq!(has, [huge, no_huge], "{top} {size:?}");
        }
    }
}
