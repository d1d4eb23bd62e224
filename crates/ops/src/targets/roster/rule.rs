//! Rules that name processes, and whether a process matches one.

use std::collections::BTreeMap;
use std::path::PathBuf;

use isotherm_core::Time;
use isotherm_host::containers::{Names, place_of};
use isotherm_host::glob::glob;
use isotherm_host::users::uids_of;

use crate::targets::cgroup::{in_cgroup_by, in_unit_by, paths};
use crate::targets::find::name_matches;

/// A rule that names processes, also those that do not exist yet. `*` and `?` are as in a shell.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Rule {
    /// Those whose command's name matches; see [`find::by_name`](crate::targets::find::by_name).
    Name(String),
    /// Those in matching cgroups, and below them; see [`in_cgroup_by`].
    Cgroup(String),
    /// Those of a systemd unit; see [`in_unit_by`].
    Unit(String),
    /// Those of matching Kubernetes pods, by `NAMESPACE/NAME`, `NAME` or uid. With `!` in front:
    /// not those, whatever other rules say; without any other rule, all pods but those. A pod whose
    /// name is not known yet is none of the others.
    Pod(String),
    /// Those of matching containers: by the container's name, by `NAMESPACE/POD/NAME` within
    /// Kubernetes, or by the first 12 or more digits of its id.
    Container(String),
    /// Those that run as matching users, by name or number. The effective user counts.
    User(String),
}

/// What a process shows of itself.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Facts<'a> {
    pub(super) comm: &'a [u8],
    /// The text of `/proc/PID/cgroup`; empty if no rule asks for it.
    pub(super) cgroup: &'a [u8],
    /// The effective user; `None` if no rule asks for it.
    pub(super) euid: Option<u32>,
}

/// Rules, and the names that they need.
#[derive(Debug)]
pub(super) struct Matcher {
    rules: Vec<Rule>,
    /// Patterns of pods that are left out.
    left_out: Vec<String>,
    /// `/` on a machine.
    root: PathBuf,
    names: Names,
    users: BTreeMap<String, Vec<u32>>,
    read_at: Option<Time>,
}

/// Names are read again after this time, in ns.
const NAMES_EVERY_NS: u64 = 10_000_000_000;
/// And after this time if a pod or a container has none yet.
const NEW_NAMES_EVERY_NS: u64 = 900_000_000;
/// So many digits of an id are enough, as for `docker`.
const LEAST_ID: usize = 12;

impl Matcher {
    pub(super) fn new(rules: Vec<Rule>, root: PathBuf) -> Self {
        let mut left_out = Vec::new();
        let mut meant = Vec::new();
        for rule in rules {
            match rule {
                Rule::Pod(pattern) if pattern.starts_with('!') => {
                    left_out.push(pattern.trim_start_matches('!').to_owned());
                }
                rule => meant.push(rule),
            }
        }
        if !left_out.is_empty() && meant.is_empty() {
            meant.push(Rule::Pod("*".to_owned()));
        }
        let (names, users) = (Names::default(), BTreeMap::new());
        Self { rules: meant, left_out, root, names, users, read_at: None }
    }

    /// Whether some rule is about cgroups.
    pub(super) fn asks_for_cgroups(&self) -> bool {
        let asks = |rule: &Rule| !matches!(rule, Rule::Name(_) | Rule::User(_));
        !self.left_out.is_empty() || self.rules.iter().any(asks)
    }

    /// Whether some rule is about users.
    pub(super) fn asks_for_users(&self) -> bool {
        self.rules.iter().any(|rule| matches!(rule, Rule::User(_)))
    }

    fn asks_for_names(&self) -> bool {
        let asks = |rule: &Rule| matches!(rule, Rule::Pod(_) | Rule::Container(_));
        !self.left_out.is_empty() || self.rules.iter().any(asks)
    }

    /// Reads the names again if it is time for that; `some_unknown`: something without a name was
    /// seen. Whether they have changed.
    pub(super) fn refresh(&mut self, now: Time, some_unknown: bool) -> bool {
        let every = if some_unknown { NEW_NAMES_EVERY_NS } else { NAMES_EVERY_NS };
        if self.read_at.is_some_and(|at| now.since(at) < every) {
            return false;
        }
        self.read_at = Some(now);
        let mut changed = false;
        if self.asks_for_names() {
            let names = Names::read(&self.root);
            changed |= names != self.names;
            self.names = names;
        }
        for rule in &self.rules {
            if let Rule::User(pattern) = rule {
                let uids = uids_of(&self.root, pattern);
                changed |= self.users.get(pattern) != Some(&uids);
                self.users.insert(pattern.clone(), uids);
            }
        }
        changed
    }

    /// Whether a process matches some rule.
    pub(super) fn matches(&self, facts: &Facts<'_>) -> bool {
        let is_meant = self.rules.iter().any(|rule| match rule {
            Rule::Name(pattern) => name_matches(facts.comm, pattern),
            Rule::User(pattern) => facts
                .euid
                .zip(self.users.get(pattern))
                .is_some_and(|(euid, uids)| uids.contains(&euid)),
            rule => self.rule_means(rule, facts.cgroup),
        });
        is_meant && !self.is_left_out(facts.cgroup)
    }

    /// Whether the processes of a cgroup match some rule about cgroups. `text` is as
    /// `/proc/PID/cgroup` has it.
    pub(super) fn means_cgroup(&self, text: &[u8]) -> bool {
        self.rules.iter().any(|rule| self.rule_means(rule, text)) && !self.is_left_out(text)
    }

    /// Whether a process is of a pod that is left out, or may be one.
    fn is_left_out(&self, text: &[u8]) -> bool {
        !self.left_out.is_empty()
            && self.any_place(text, |pod, _| {
                pod.is_some_and(|uid| {
                    self.names.of_pod(uid).is_none()
                        || self.left_out.iter().any(|pattern| self.pod_matches(uid, pattern))
                })
            })
    }

    fn rule_means(&self, rule: &Rule, text: &[u8]) -> bool {
        match rule {
            Rule::Name(_) | Rule::User(_) => false,
            Rule::Cgroup(pattern) => in_cgroup_by(text, pattern),
            Rule::Unit(unit) => in_unit_by(text, unit),
            Rule::Pod(pattern) => {
                self.any_place(text, |pod, _| pod.is_some_and(|uid| self.pod_matches(uid, pattern)))
            }
            Rule::Container(pattern) => self.any_place(text, |pod, id| {
                id.is_some_and(|id| self.container_matches(pod, id, pattern))
            }),
        }
    }

    /// Whether a process is of a pod or a container that has no name yet.
    pub(super) fn is_unnamed(&self, cgroup: &[u8]) -> bool {
        self.asks_for_names()
            && self.any_place(cgroup, |pod, id| {
                pod.is_some_and(|uid| self.names.of_pod(uid).is_none())
                    || id.is_some_and(|id| self.names.of_container(id).is_none())
            })
    }

    /// Whether this holds for the pod and the container of any of a process's cgroups.
    fn any_place(&self, text: &[u8], is_it: impl Fn(Option<&str>, Option<&str>) -> bool) -> bool {
        paths(text).filter_map(|path| place_of(std::str::from_utf8(path).ok()?)).any(|place| {
            is_it(place.pod.as_deref(), place.container.as_ref().map(|(_, id)| id.as_str()))
        })
    }

    fn pod_matches(&self, uid: &str, pattern: &str) -> bool {
        let matches = |text: &str| glob(pattern.as_bytes(), text.as_bytes());
        matches(uid)
            || self.names.of_pod(uid).is_some_and(|pod| {
                if pattern.contains('/') { matches(&pod.to_string()) } else { matches(&pod.name) }
            })
    }

    fn container_matches(&self, pod: Option<&str>, id: &str, pattern: &str) -> bool {
        if pattern.len() >= LEAST_ID && id.starts_with(pattern) {
            return true;
        }
        let Some(name) = self.names.of_container(id) else { return false };
        let whole = match pod.and_then(|uid| self.names.of_pod(uid)) {
            Some(pod) if pattern.contains('/') => format!("{pod}/{name}"),
            _ => name.to_owned(),
        };
        glob(pattern.as_bytes(), whole.as_bytes())
    }
}
