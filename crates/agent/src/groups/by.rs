//! What makes processes a group: their cgroup, or what it belongs to.

use std::path::Path;

use isotherm_core::Time;
use isotherm_host::containers::{Names, place_of};
use isotherm_ops::targets::cgroup::unit_of;

/// What makes targets a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum By {
    /// That they are in the same cgroup.
    #[default]
    Cgroup,
    /// That they are of the same systemd unit.
    Unit,
    /// That they are of the same pod, by name where the node tells it.
    Pod,
    /// That they are of the same container, by name where the node tells it.
    Container,
}

/// Names of pods and containers are read again after this time, in ns.
const NAMES_EVERY_NS: u64 = 10_000_000_000;
/// The group of what is in none.
const NONE: &str = "-";

/// Names groups.
#[derive(Debug, Default)]
pub(super) struct Namer {
    by: By,
    names: Names,
    read_at: Option<Time>,
}

impl Namer {
    pub(super) fn new(by: By) -> Self {
        Self { by, names: Names::default(), read_at: None }
    }

    /// Reads names again if it is time for that.
    pub(super) fn refresh(&mut self, now: Time) {
        let is_needed = matches!(self.by, By::Pod | By::Container);
        if is_needed && self.read_at.is_none_or(|at| now.since(at) >= NAMES_EVERY_NS) {
            self.read_at = Some(now);
            self.names = Names::read(Path::new("/"));
        }
    }

    /// The group of a cgroup.
    pub(super) fn group_of(&self, cgroup: &str) -> String {
        let place = || place_of(cgroup).unwrap_or_default();
        let pod = |uid: String| self.names.of_pod(&uid).map_or(uid, ToString::to_string);
        let name = match self.by {
            By::Cgroup => Some(cgroup.to_owned()),
            By::Unit => unit_of(cgroup).map(str::to_owned),
            By::Pod => place().pod.map(pod),
            By::Container => {
                let place = place();
                place.container.map(|(_, id)| {
                    let short = || id.chars().take(12).collect();
                    let name = self.names.of_container(&id).map_or_else(short, str::to_owned);
                    place.pod.map_or_else(|| name.clone(), |uid| format!("{}/{name}", pod(uid)))
                })
            }
        };
        name.unwrap_or_else(|| NONE.to_owned())
    }
}
