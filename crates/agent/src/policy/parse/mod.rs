//! Reads a policy file (TOML).
//!
//! All independent errors are reported at once, each at its place.

mod context;
mod fields;
mod filter;
mod pattern;
mod quota;
mod reclaim;
mod rollout;
mod scheme;
mod tune;

use std::collections::BTreeMap;
use std::ops::Range;

use toml::de::DeTable;

pub(crate) use self::context::cgroup_path;
use self::fields::{Errors, Fields};
use super::{Policy, TargetSpec};
use crate::text::{TextError, TextErrors, not_toml};

/// Why a policy was refused: all that is wrong in its text.
pub type PolicyErrors = TextErrors;

/// Reads a policy. `name` is what errors call the text: its path.
///
/// # Errors
///
/// All errors in the text. Nothing of the policy is used then.
pub fn parse(text: &str, name: &str) -> Result<Policy, PolicyErrors> {
    let (root, broken) = DeTable::parse_recoverable(text);
    let mut errors = Errors::default();
    if broken.is_empty() {
        let policy = policy(&root, text, &mut errors);
        if errors.0.is_empty() {
            return Ok(policy);
        }
    } else {
        // If the TOML itself is broken, further errors would only follow from that.
        errors.0 = broken.iter().map(|e| not_toml(e, text.len())).collect();
    }
    Err(TextErrors::new(name, text, errors.0))
}

fn policy(root: &toml::Spanned<DeTable<'_>>, text: &str, errors: &mut Errors) -> Policy {
    let fields = Fields::new(root.get_ref(), 0..0, &["context", "tune", "rollout"], errors);
    let mut names = Seen::new(text, "context");
    let mut targets = Seen::new(text, "target");
    let mut policy = Policy::default();
    let contexts = fields.need("context", "a policy").map_err(|e| {
        e.hint("begin with [[context]], and give it targets and a [[context.scheme]]")
    });
    let contexts = contexts.and_then(|entry| entry.list("tables: [[context]]"));
    let Some(contexts) = errors.keep(contexts) else { return policy };
    for entry in contexts {
        let number = policy.contexts.len();
        let Some(fields) = entry.fields(context::KEYS, errors) else { continue };
        let (context, places) = context::context(&fields, number, text, errors);
        let place = fields.get("name").map_or_else(|| entry.span(), |name| name.span());
        names.see(&context.name, place, errors);
        for (target, place) in context.targets.iter().zip(places) {
            targets.see(&shown(target), place, errors);
        }
        policy.contexts.push(context);
    }
    if policy.contexts.is_empty() && errors.0.is_empty() {
        errors.push(TextError::new(0..0, "a policy without a context"));
    }
    if let Some(entry) = fields.get("rollout") {
        policy.rollout = rollout::rollout(&entry, errors);
    }
    if let Some(entry) = fields.get("tune") {
        policy.tuning = tune::tune(&entry, &policy, errors);
    }
    policy
}

fn shown(target: &TargetSpec) -> String {
    match target {
        TargetSpec::Pid(pid) => format!("pid {pid}"),
        TargetSpec::Name(name) => format!("name {name}"),
        TargetSpec::Cgroup(path) => format!("cgroup {path}"),
        TargetSpec::Unit(name) => format!("unit {name}"),
        TargetSpec::Pod(name) => format!("pod {name}"),
        TargetSpec::Container(name) => format!("container {name}"),
        TargetSpec::User(name) => format!("user {name}"),
        TargetSpec::Rss(bytes) => format!("rss {bytes}"),
        TargetSpec::Memory(memory) => format!("paddr {memory}"),
        TargetSpec::Command(command) => command.join(" "),
    }
}

/// Names that may be used only once.
struct Seen<'a> {
    text: &'a str,
    what: &'static str,
    seen: BTreeMap<String, Range<usize>>,
}

impl<'a> Seen<'a> {
    const fn new(text: &'a str, what: &'static str) -> Self {
        Self { text, what, seen: BTreeMap::new() }
    }

    fn see(&mut self, name: &str, place: Range<usize>, errors: &mut Errors) {
        if let Some(first) = self.seen.get(name) {
            let before = self.text.get(..first.start).unwrap_or_default();
            let line = before.matches('\n').count() + 1;
            let what = self.what;
            errors.push(
                TextError::new(place, format!("a second {what} `{name}`"))
                    .why(format!("the first is on line {line}")),
            );
        } else {
            self.seen.insert(name.to_owned(), place);
        }
    }
}
