//! Writes a configuration into a kdamond's files: only the values that differ. If a value is
//! refused, the old values are written back.

use std::collections::BTreeMap;
use std::io;

use crate::config::entries::{Entry, FilterDirs, default_of, entries};
use crate::config::feature::Feature;
use crate::config::model::Config;
use crate::error::{self, DamonError, DamonKind};
use crate::kdamond::Kdamond;
use crate::kdamond::results::TunedIntervals;

/// What the files of one kdamond say, because we wrote it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Written {
    entries: Vec<Entry>,
}

impl Written {
    /// Records that the kernel changed the interval files (`update_tuned_intervals`, `refresh_ms`).
    pub fn set_intervals(&mut self, now: TunedIntervals) {
        for entry in &mut self.entries {
            match entry.path.rsplit('/').next() {
                Some("sample_us") => entry.value = now.sample_us.to_string(),
                Some("aggr_us") => entry.value = now.aggr_us.to_string(),
                _ => {}
            }
        }
    }

    /// The intervals in these files.
    pub(crate) fn intervals(&self) -> Option<TunedIntervals> {
        let number = |name: &str| {
            let mut all = self.entries.iter();
            all.find(|entry| entry.path.ends_with(name))?.value.parse().ok()
        };
        Some(TunedIntervals {
            sample_us: number("intervals/sample_us")?,
            aggr_us: number("intervals/aggr_us")?,
        })
    }

    /// All files, in the order of writing.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }
}

/// The present values of the files, by path. A missing file has its default value.
type Live = BTreeMap<String, String>;

impl Kdamond {
    /// Writes `config` into the files. `was` is what an earlier call wrote; `None` means that the
    /// directory is as the kernel made it. Only files that differ are written. A running kdamond
    /// sees nothing of this before a command.
    ///
    /// A file that this kernel lacks is no error if its value is what the kernel does anyway.
    ///
    /// # Errors
    ///
    /// The first file that could not be written: it is missing ([`DamonKind::OlderKernel`]), or its
    /// value is refused ([`DamonKind::Refused`]). The files then have their old values again. If
    /// that failed too, the error says so.
    pub fn write(&self, config: &Config, was: Option<&Written>) -> Result<Written, DamonError> {
        let before = was.cloned().unwrap_or_default();
        let mut live = Live::new();
        for entry in &before.entries {
            live.insert(entry.path.clone(), entry.value.clone());
        }
        let mut wanted = entries(config, FilterDirs::Layers);
        let mut done = self.bring(&mut live, &wanted);
        if matches!(&done, Err((_, Some(Feature::FilterLayers)))) {
            wanted = entries(config, FilterDirs::One);
            done = self.bring(&mut live, &wanted);
        }
        let Err((error, _)) = done else { return Ok(Written { entries: wanted }) };
        let back = if before.entries.is_empty() {
            self.root()
                .write(&self.path("contexts/nr_contexts"), "0")
                .map_err(|err| err.to_string())
        } else {
            self.bring(&mut live, &before.entries).map_err(|(err, _)| err.to_string())
        };
        Err(match back {
            Ok(()) => error,
            Err(_) if !self.exists() => error,
            Err(err) => error.because(&format!("and the old values could not be put back: {err}")),
        })
    }

    /// Writes the values of `to` back into files that hold the values of `now`.
    pub(crate) fn rewrite(&self, to: &Written, now: &Written) -> Result<(), DamonError> {
        let mut live = Live::new();
        for entry in &now.entries {
            live.insert(entry.path.clone(), entry.value.clone());
        }
        self.bring(&mut live, &to.entries).map_err(|(err, _)| err)
    }

    fn bring(
        &self,
        live: &mut Live,
        wanted: &[Entry],
    ) -> Result<(), (DamonError, Option<Feature>)> {
        for entry in wanted {
            let now = live.get(&entry.path).map_or_else(|| default_of(&entry.path), String::as_str);
            if now == entry.value {
                continue;
            }
            let written = self.root().write(&self.path(&entry.path), &entry.value);
            written.map_err(|said| self.explain_write(entry, said))?;
            forget_children(live, &entry.path);
            live.insert(entry.path.clone(), entry.value.clone());
        }
        Ok(())
    }

    fn explain_write(&self, entry: &Entry, said: io::Error) -> (DamonError, Option<Feature>) {
        let path = self.path(&entry.path);
        let tried = format!("write `{}` to {}", entry.value, path.display());
        let release = self.root().release();
        let error = match (said.raw_os_error(), entry.keyword) {
            (Some(libc::ENOENT), _) if !self.exists() => self.removed(tried),
            (Some(libc::ENOENT), _) => {
                let Some(feature) = entry.file else {
                    return (error::io(tried, said), None);
                };
                let why = format!(
                    "this kernel ({release}) is older than {}: {} is missing (needed for {})",
                    feature.since(),
                    entry.path,
                    feature.what()
                );
                return (
                    error::cannot(DamonKind::OlderKernel, tried, why, "").with(said),
                    Some(feature),
                );
            }
            (Some(libc::EINVAL), Some(feature)) => {
                let why = format!(
                    "this kernel ({release}) does not know `{}` there; mainline does since {} ({})",
                    entry.value,
                    feature.since(),
                    feature.what()
                );
                error::cannot(DamonKind::OlderKernel, tried, why, "")
            }
            (Some(libc::EINVAL), None) => error::cannot(
                DamonKind::Refused,
                tried,
                format!("the kernel refuses this value: {}", rule_of(&entry.path)),
                "",
            ),
            (Some(libc::ERANGE), _) => error::cannot(
                DamonKind::Refused,
                tried,
                "the number is too large for this file",
                "",
            ),
            (Some(libc::ENOMEM), _) => {
                error::cannot(DamonKind::Refused, tried, "no memory for so many directories", "")
            }
            _ => return (error::io(tried, said), None),
        };
        (error.with(said), None)
    }
}

/// Writing a `nr_` file makes all directories beside it anew.
fn forget_children(live: &mut Live, path: &str) {
    let Some((dir, name)) = path.rsplit_once('/') else { return };
    if !name.starts_with("nr_") {
        return;
    }
    let prefix = format!("{dir}/");
    live.retain(|path, _| match path.strip_prefix(&prefix) {
        Some(rest) => !rest.starts_with(|c: char| c.is_ascii_digit()),
        None => true,
    });
}

/// What the kernel takes in a file (R§5.2).
fn rule_of(path: &str) -> &'static str {
    match path.rsplit('/').next().unwrap_or("") {
        "nr_contexts" => "there can be 0 or 1 contexts",
        "nr_probes" => "there can be 0 to 4 probes",
        "addr_unit" => "an address unit of 0 bytes makes no sense",
        "operations" => "it takes vaddr, fvaddr or paddr",
        "action" => "it takes the name of an action that this kernel has",
        "type" => {
            "it takes the name of a filter that this kernel has, in the directory of its layer"
        }
        "target_metric" => "it takes the name of a goal metric that this kernel has",
        "metric" => "it takes none or free_mem_rate",
        "goal_tuner" => "it takes consist or temporal",
        _ => "it takes a number that is not negative",
    }
}
