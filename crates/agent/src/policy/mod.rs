//! Policies: what a user wants to be done to which memory, as one value.
//!
//! A policy has contexts. A context has targets, monitoring attributes and schemes. Names are
//! unique among the contexts, and among the schemes of a context. A policy from a file has at least
//! one context. Each of its contexts has at least one target, unless the command line gives the
//! targets.

pub(crate) mod action;
mod check;
pub mod defaults;
mod engine;
pub(crate) mod metric;
mod online;
mod parse;
mod print;
mod rollout;
pub(crate) mod spelled;
mod tuning;

pub use check::{Lack, Machine, Unmet, check};
pub use engine::Engine;
pub use online::{OnlineTuning, Unfit, online_ranges};
pub(crate) use parse::cgroup_path;
pub use parse::{PolicyErrors, parse};
pub use print::print;
pub use rollout::Rollout;
pub use tuning::{Key, Range, Tuning, confirm_us, min_age_us, usual_ranges};

use isotherm_act::apply::Settings;
use isotherm_core::{Attrs, Scheme};
use isotherm_ops::support::SetName;
use isotherm_ops::targets::Memory;
use isotherm_ops::targets::roster::Rule;

/// A policy.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Policy {
    /// Its contexts.
    pub contexts: Vec<ContextPolicy>,
    /// What of it may be tuned, and whether that is done while it runs.
    pub tuning: Tuning,
    /// On which hosts it acts, and when it stops by itself. Only the agent heeds that.
    pub rollout: Rollout,
}

/// One context: whose memory is watched, how, and what is done to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContextPolicy {
    /// The name in events and accounts; unique in the policy.
    pub name: String,
    /// Whose memory is watched. If empty, the command line has to give the targets.
    pub targets: Vec<TargetSpec>,
    /// Whether the children of the targets are targets too.
    pub children: bool,
    /// The operations set; none: the best that works on the machine.
    pub ops: Option<SetName>,
    /// Who applies the schemes.
    pub engine: Engine,
    /// The monitoring attributes; always valid.
    pub attrs: Attrs,
    /// How many times the intervals in `attrs` were doubled, so that the context costs less. No
    /// policy's text says that. What is done beside sampling is then done less often, too.
    pub slowed: u32,
    /// What to do.
    pub schemes: Vec<SchemePolicy>,
}

impl Default for ContextPolicy {
    /// No name, target or scheme; children are targets too; default attributes.
    fn default() -> Self {
        Self {
            name: String::new(),
            targets: Vec::new(),
            children: true,
            ops: None,
            engine: Engine::default(),
            attrs: defaults::attrs(),
            slowed: 0,
            schemes: Vec::new(),
        }
    }
}

/// Which processes or memory a target is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum TargetSpec {
    /// The process with this pid.
    Pid(u32),
    /// Every process whose command name (`/proc/PID/comm`, at most 15 bytes) matches this pattern:
    /// `*` and `?` as in a shell.
    Name(String),
    /// Every process of the cgroups (v1 or v2) whose path from the root of the hierarchy matches,
    /// and of those below them: `*` (any text, also `/`) and `?`.
    Cgroup(String),
    /// Every process of the systemd unit with this name; `*` and `?` as in a shell.
    Unit(String),
    /// Every process of the Kubernetes pods that match, by `NAMESPACE/NAME`, `NAME` or uid; `*` and
    /// `?` as in a shell. With `!` in front such pods are left out ([`Rule::Pod`]).
    Pod(String),
    /// Every process of the containers that match, by name, `NAMESPACE/POD/NAME`, or the first 12
    /// or more digits of the id; `*` and `?` as in a shell.
    Container(String),
    /// Every process that runs as this user, by name or number; `*` and `?` as in a shell.
    User(String),
    /// Every process with at least this much resident memory, in bytes. A process that was large
    /// enough once stays a target.
    Rss(u64),
    /// Physical memory. It is the only target of its context.
    Memory(Memory),
    /// A command to be started, with its arguments. It comes from the command line, never from a
    /// file.
    Command(Vec<String>),
}

impl TargetSpec {
    /// Whether processes that do not exist yet can match it.
    #[must_use]
    pub fn is_rule(&self) -> bool {
        self.rule().is_some() || matches!(self, Self::Rss(_))
    }

    /// The rule that finds such processes; `None` if they are found in another way.
    #[must_use]
    pub fn rule(&self) -> Option<Rule> {
        Some(match self {
            Self::Name(pattern) => Rule::Name(pattern.clone()),
            Self::Cgroup(pattern) => Rule::Cgroup(pattern.clone()),
            Self::Unit(name) => Rule::Unit(name.clone()),
            Self::Pod(pattern) => Rule::Pod(pattern.clone()),
            Self::Container(pattern) => Rule::Container(pattern.clone()),
            Self::User(pattern) => Rule::User(pattern.clone()),
            Self::Pid(_) | Self::Rss(_) | Self::Memory(_) | Self::Command(_) => return None,
        })
    }
}

impl Policy {
    /// What of it is outdated: it works, and will not for ever. For people; empty if nothing is.
    #[must_use]
    pub fn deprecated(&self) -> Vec<String> {
        self.contexts.iter().filter_map(ContextPolicy::deprecated).collect()
    }
}

impl ContextPolicy {
    /// Whether it sets how many accessed bits may be cleared.
    fn deprecated(&self) -> Option<String> {
        let clears = self.attrs.clears_per_sec;
        (clears != defaults::attrs().clears_per_sec).then(|| {
            format!(
                "context `{}`: `clears = {clears}` is deprecated\n  why:   it is a budget for the \
                 method `first_touch` only, which it selects\n  hint:  leave it out; `budget` limits \
                 the CPU time of the usual method, `census`",
                self.name
            )
        })
    }

    /// The physical memory that it watches, if that is its target.
    #[must_use]
    pub fn memory(&self) -> Option<&Memory> {
        self.targets.iter().find_map(|target| match target {
            TargetSpec::Memory(memory) => Some(memory),
            _ => None,
        })
    }
}

/// One scheme: what the core decides with, and how the action is carried out.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SchemePolicy {
    /// Which memory, which action, how much and when. The numbers of cgroups and mappings are
    /// indices into the settings.
    pub scheme: Scheme,
    /// The name, the evidence, and what else is needed to carry the action out.
    pub settings: Settings,
}

/// The index of `text` in a list. It is added at the end if the list does not have it.
pub(crate) fn number_of(list: &mut Vec<String>, text: &str) -> u32 {
    let at = list.iter().position(|known| known == text).unwrap_or_else(|| {
        list.push(text.to_owned());
        list.len() - 1
    });
    u32::try_from(at).unwrap_or(u32::MAX)
}
