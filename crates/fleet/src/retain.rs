//! Drops parts: those that are too old, and the oldest while there is too much or the disk is full.
//!
//! A part is as old as its name says. A name that is later than now is of a clock that was set
//! ahead: it is not too old, and goes when there is too much. The clock of the day can jump, so a
//! jump ahead must not drop everything at once: never more than a tenth of all parts goes for its
//! age in one round. Rounds come with the intervals.

use std::fs;
use std::io;

use tracing::{info, warn};

use crate::cells::UnixNs;
use crate::layout::{Found, Layout};
use crate::settings::Retention;

/// The share of the parts that goes when the disk is full, or for their age in one round.
const PART: usize = 10;

/// What was dropped and what is there.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Kept {
    pub(crate) bytes: u64,
    pub(crate) parts: u64,
    pub(crate) dropped: u64,
    /// Why not all that is there was seen.
    pub(crate) trouble: Option<String>,
}

/// Drops what is too old or too much.
pub(crate) fn prune(layout: &Layout, retention: &Retention, now: UnixNs) -> Kept {
    let (mut found, trouble) = sorted(layout);
    let age = i64::try_from(retention.most_age.as_nanos()).unwrap_or(i64::MAX);
    let oldest = now.0.saturating_sub(age);
    let mut bytes: u64 = found.iter().map(|part| part.bytes).sum();
    let mut aged = found.len().div_ceil(PART);
    let mut kept = Kept { trouble, ..Kept::default() };
    found.retain(|part| {
        let is_old = part.start < oldest && aged > 0;
        if bytes <= retention.most_bytes && !is_old {
            return true;
        }
        aged = aged.saturating_sub(usize::from(is_old));
        bytes -= part.bytes;
        kept.dropped += u64::from(remove(part));
        false
    });
    (kept.bytes, kept.parts) = (bytes, found.len() as u64);
    if kept.dropped > 0 {
        info!("fleet data: {} old parts were dropped", kept.dropped);
    }
    kept
}

/// Makes room on a full disk. Returns how many parts went.
pub(crate) fn make_room(layout: &Layout) -> u64 {
    let (found, _) = sorted(layout);
    let most = found.len().div_ceil(PART);
    found.iter().take(most).map(|part| u64::from(remove(part))).sum()
}

/// The parts, the oldest first, and why not all were seen.
fn sorted(layout: &Layout) -> (Vec<Found>, Option<String>) {
    let (mut found, trouble) = layout.found();
    found.sort_unstable();
    (found, trouble)
}

fn remove(part: &Found) -> bool {
    match fs::remove_file(&part.path) {
        Ok(()) => {
            // The directories of the host and of the day, if nothing else is in them.
            let host = part.path.parent();
            if host.is_some_and(|dir| fs::remove_dir(dir).is_ok()) {
                host.and_then(|dir| dir.parent()).map(fs::remove_dir);
            }
            true
        }
        Err(err) if err.kind() == io::ErrorKind::NotFound => false,
        Err(err) => {
            warn!("fleet data: cannot remove {}: {err}", part.path.display());
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::settings::Table;

    const HOUR: i64 = 3_600_000_000_000;

    #[test]
    fn old_parts_go_slowly_and_large_ones_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let layout = Layout::new(dir.path(), "h");
        let other = Layout::new(dir.path(), "other");
        for hour in 0..40 {
            for layout in [&layout, &other] {
                let first = UnixNs(hour * HOUR);
                let dir = layout.dir(Table::Cgroups, first);
                fs::create_dir_all(&dir).unwrap();
                fs::write(dir.join(Layout::name(first, 1)), [0; 100]).unwrap();
            }
        }
        fs::write(layout.dir(Table::Cgroups, UnixNs(0)).join("notes.txt"), "mine").unwrap();
        let keep = |most_bytes, hours: u64| Retention {
            most_bytes,
            most_age: Duration::from_secs(hours * 3600),
        };
        let now = UnixNs(40 * HOUR);
        let expected = |bytes, parts, dropped| Kept { bytes, parts, dropped, trouble: None };
        assert_eq!(prune(&layout, &keep(9999, 100), now), expected(4000, 40, 0));
        assert_eq!(prune(&layout, &keep(9999, 10), now), expected(3600, 36, 4));
        assert_eq!(layout.found().0.iter().map(|part| part.start).min(), Some(4 * HOUR));
        // Ten years ahead: a tenth each time, so there is time to put the clock right.
        let ahead = UnixNs(i64::MAX / 2);
        assert_eq!(prune(&layout, &keep(9999, 10), ahead), expected(3200, 32, 4));
        assert_eq!(prune(&layout, &keep(1000, 10_000), now), expected(1000, 10, 22));
        assert_eq!(make_room(&layout), 1);
        assert_eq!(other.found().0.len(), 40, "another host's are not ours");
        assert!(layout.dir(Table::Cgroups, UnixNs(0)).join("notes.txt").exists());
    }

    #[test]
    fn a_directory_that_cannot_be_read_is_told_and_the_others_are_still_kept_small() {
        let dir = tempfile::tempdir().unwrap();
        let layout = Layout::new(dir.path(), "h");
        let parts = layout.dir(Table::Sessions, UnixNs(0));
        fs::create_dir_all(&parts).unwrap();
        for nr in 0..2 {
            fs::write(parts.join(Layout::name(UnixNs(nr), 1)), [0; 100]).unwrap();
        }
        // Root may read everything but what is no directory.
        let table = dir.path().join("isotherm/v1/cgroups");
        fs::write(&table, "in the way").unwrap();
        let retention = Retention { most_bytes: 100, most_age: Duration::MAX };
        let kept = prune(&layout, &retention, UnixNs(0));
        let text = kept.trouble.unwrap();
        assert!(text.starts_with(&format!("cannot read {}: ", table.display())), "{text}");
        assert_eq!((kept.parts, kept.dropped), (1, 1));
        fs::remove_file(&table).unwrap();
        assert_eq!(prune(&layout, &retention, UnixNs(0)).trouble, None);
    }
}
