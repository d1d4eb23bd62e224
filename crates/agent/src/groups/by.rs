//! What makes processes a group: their cgroup, what it belongs to, or their user.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use isotherm_core::Time;
use isotherm_host::containers::{Names, place_of};
use isotherm_host::users;
use isotherm_ops::targets::cgroup::unit_of;

/// What makes targets a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum By {
    /// The same cgroup.
    #[default]
    Cgroup,
    /// The same systemd unit.
    Unit,
    /// The same Kubernetes pod, whatever cgroups its containers have.
    Pod,
    /// The same container.
    Container,
    /// The same effective user.
    User,
}

/// Names are read again after this time, in ns.
const NAMES_EVERY_NS: u64 = 10_000_000_000;
/// The group of what is in none.
const NONE: &str = "-";

/// Names groups, with what the node's files call pods, containers and users.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupNames {
    root: PathBuf,
    names: Names,
    users: BTreeMap<u32, String>,
    read_at: Option<Time>,
}

impl Default for GroupNames {
    /// Of this machine.
    fn default() -> Self {
        Self::new(Path::new("/"))
    }
}

impl GroupNames {
    /// Of the machine whose files are below `root`. Nothing is read yet: until then pods and
    /// containers have their ids, and users their numbers.
    #[must_use]
    pub fn new(root: &Path) -> Self {
        let (names, users) = (Names::default(), BTreeMap::new());
        Self { root: root.to_path_buf(), names, users, read_at: None }
    }

    /// Reads the names again if it is time for that: every 10 s. Whether it was.
    pub fn refresh(&mut self, now: Time) -> bool {
        if self.read_at.is_some_and(|at| now.since(at) < NAMES_EVERY_NS) {
            return false;
        }
        self.read_at = Some(now);
        self.names = Names::read(&self.root);
        self.users = users::names(&self.root);
        true
    }

    /// The group of a process in this cgroup (its path) with this effective user; `-` if it is in
    /// none.
    #[must_use]
    pub fn of(&self, by: By, cgroup: &str, uid: Option<u32>) -> String {
        let place = || place_of(cgroup).unwrap_or_default();
        let pod = |uid: String| self.names.of_pod(&uid).map_or(uid, ToString::to_string);
        let name = match by {
            By::Cgroup => (!cgroup.is_empty()).then(|| cgroup.to_owned()),
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
            By::User => uid.map(|uid| match self.users.get(&uid) {
                Some(name) => name.clone(),
                None => uid.to_string(),
            }),
        };
        name.unwrap_or_else(|| NONE.to_owned())
    }
}
