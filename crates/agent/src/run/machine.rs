//! Finds what of a policy this machine cannot do, before the policy starts.

use std::path::Path;

use isotherm_act::apply::{Evidence, ReclaimFrom, Settings, refuse_anon};
use isotherm_core::scheme::{Action, Metric};
use isotherm_host::Roots;
use isotherm_host::error::Class;
use isotherm_host::metrics::{Cgroups, Metrics};
use isotherm_host::proc::{Proc, meminfo_kib};
use isotherm_ops::support::{SetName, Support, detect};
use isotherm_ops::targets::{Memory, TargetError, Tracker, find};
use isotherm_pages::places::Places;

use super::start::{is_bearable, pids};
use crate::policy::{self, ContextPolicy, Lack, Machine, Policy, SchemePolicy};

/// Exit code: this machine cannot do it.
pub(super) const NOT_SUPPORTED: u8 = Class::NotSupported.exit_code();
/// Exit code: a privilege is missing.
const PERMISSION: u8 = Class::Permission.exit_code();

/// A reason why this machine cannot run a policy, or not all of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Whether the policy cannot be run.
    pub fatal: bool,
    /// The exit code that a program should end with for it.
    pub code: u8,
    /// What, why, and what to do; for people.
    pub text: String,
}

/// Checks whether the machine can do what a policy says. Whether an operations set works is not
/// tested here, since that takes its self-test; [`Runner::start`](super::Runner::start) waits for
/// it.
#[must_use]
pub fn check(policy: &Policy) -> Vec<Problem> {
    let mut problems = Vec::new();
    problems.extend(policy.contexts.iter().filter_map(init));
    problems.extend(no_process(policy));
    for context in &policy.contexts {
        problems.extend(no_memory(context));
        for scheme in &context.schemes {
            problems.extend(no_swap(context, scheme));
            problems.extend(no_reclaim(context, scheme));
            problems.extend(no_pages(context, scheme));
            problems.extend(no_frames(context, scheme));
            problems.extend(no_trial(context, scheme));
        }
    }
    if let Err(unmet) = policy::check(policy, &mut ThisMachine(Metrics::new(Roots::default()))) {
        problems.extend(unmet.iter().map(|unmet| fatal(unmet.to_string())));
    }
    problems
}

fn fatal(text: String) -> Problem {
    Problem { fatal: true, code: NOT_SUPPORTED, text }
}

/// A process that is gone or that we may not look at is fatal if the policy has no other target.
fn no_process(policy: &Policy) -> Vec<Problem> {
    let named: Vec<u32> = policy.contexts.iter().flat_map(pids).collect();
    let all: usize = policy.contexts.iter().map(|context| context.targets.len()).sum();
    let refused: Vec<TargetError> =
        named.iter().filter_map(|pid| Tracker::attach(&[*pid], false).err()).collect();
    let alone = refused.len() == all;
    let of = |e: &TargetError| Problem {
        fatal: alone || !is_bearable(e.kind()),
        code: e.exit_code(),
        text: e.to_string(),
    };
    refused.iter().map(of).collect()
}

/// The machine's init process is never acted on. By a rule it is no target at all.
fn init(context: &ContextPolicy) -> Option<Problem> {
    let acts = context.schemes.iter().any(|s| s.scheme.action != Action::Stat);
    let is_named = pids(context).any(|pid| find::is_init(&Proc::default(), pid));
    (acts && is_named).then(|| {
        let why = "process 1 is the machine's init process, on which everything depends";
        let text = format!(
            "context `{}`: schemes that act on process 1\n  why:   {why}\n  hint:  action \"stat\" only \
             counts; `isotherm wss 1` only looks",
            context.name
        );
        Problem { fatal: true, code: Class::Usage.exit_code(), text }
    })
}

fn no_memory(context: &ContextPolicy) -> Option<Problem> {
    let err = Tracker::memory(context.memory()?.clone()).err()?;
    Some(Problem { fatal: true, code: err.exit_code(), text: err.to_string() })
}

/// Anonymous memory can only be paged out to swap.
fn no_swap(context: &ContextPolicy, scheme: &SchemePolicy) -> Option<Problem> {
    let SchemePolicy { scheme, settings } = scheme;
    if scheme.action != Action::Pageout || refuse_anon(&scheme.filters) || swap_total() != Some(0) {
        return None;
    }
    let text = format!(
        "context `{}`, scheme `{}`: action `pageout`\n  why:   this machine has no swap, so anonymous \
         memory has nowhere to go\n  hint:  add swap (`swapon`; zram needs no disk), leave anonymous \
         memory out (filter \"reject anon\"), or try with --dry-run",
        context.name, settings.name
    );
    // A policy for many machines has schemes for those with swap and for those without.
    let is_bearable = settings.dry_run || takes_from_own(settings);
    Some(Problem { fatal: !is_bearable, code: NOT_SUPPORTED, text })
}

/// Which schemes of a context make huge pages without a trial, for people.
pub(super) fn untried(context: &ContextPolicy) -> impl Iterator<Item = String> {
    context
        .schemes
        .iter()
        .filter_map(|scheme| no_trial(context, scheme))
        .map(|problem| problem.text)
}

/// Huge pages that are made of all that matches, whether they pay or not, stay where they do harm.
fn no_trial(context: &ContextPolicy, scheme: &SchemePolicy) -> Option<Problem> {
    let SchemePolicy { scheme, settings } = scheme;
    let why = match scheme.action {
        Action::Hugepage => {
            "the kernel makes huge pages of all memory that matches, now or later; whether they pay is \
             not tried on a sample, and where they do not, they stay"
        }
        Action::Collapse if !settings.prove => {
            "all that matches is collapsed; whether that pays is not tried on a sample, and where it \
             does not, the huge pages stay"
        }
        _ => return None,
    };
    if settings.dry_run {
        return None;
    }
    let action = scheme.action.name();
    let text = format!(
        "context `{}`, scheme `{}`: action `{action}` without a trial\n  why:   {why}\n  hint:  action = \
         \"collapse\" with prove = \"auto\" (as `isotherm thp` has it) collapses a tenth first, and \
         undoes what does not pay",
        context.name, settings.name
    );
    Some(Problem { fatal: false, code: NOT_SUPPORTED, text })
}

/// Whether a scheme asks the cgroups that its targets are in.
fn takes_from_own(settings: &Settings) -> bool {
    settings.memory_reclaim.as_ref().is_some_and(|reclaim| reclaim.from == ReclaimFrom::Own)
}

/// Cgroups of version 1 have no `memory.reclaim`, and neither have kernels before 5.19. That is
/// only a warning where targets are to come: their cgroups are looked at one by one.
fn no_reclaim(context: &ContextPolicy, scheme: &SchemePolicy) -> Option<Problem> {
    let SchemePolicy { settings, .. } = scheme;
    settings.memory_reclaim.as_ref()?;
    let mounted = Cgroups::mounted(&Proc::default());
    let has_it = |at: &Path| {
        let groups = std::fs::read_dir(at).into_iter().flatten().flatten();
        groups.map(|group| group.path()).any(|group| group.join("memory.reclaim").exists())
    };
    if mounted.v2.as_deref().is_some_and(has_it) {
        return None;
    }
    let why = match (&mounted.v2, mounted.v1_of("memory")) {
        (_, Some(at)) => format!("the memory controller is version 1's ({})", at.display()),
        (Some(at), None) => format!("no cgroup below {} has such a file", at.display()),
        (None, None) => "no cgroups are mounted".to_owned(),
    };
    let text = format!(
        "context `{}`, scheme `{}`: `memory_reclaim`\n  why:   {why}\n  hint:  Linux 5.19 and cgroup v2 \
         (systemd.unified_cgroup_hierarchy=1), or leave `memory_reclaim` out to act page by page",
        context.name, settings.name
    );
    let is_bearable = settings.dry_run || takes_from_own(settings);
    Some(Problem { fatal: !is_bearable, code: NOT_SUPPORTED, text })
}

/// The machine's swap, in KiB; none if it is not known.
fn swap_total() -> Option<u64> {
    let mut text = Vec::new();
    Proc::default().read_system("meminfo", &mut text).ok()?;
    meminfo_kib(&String::from_utf8_lossy(&text), "SwapTotal:")
}

fn no_pages(context: &ContextPolicy, scheme: &SchemePolicy) -> Option<Problem> {
    let action = scheme.scheme.action;
    if !scheme.scheme.looks_at_pages() {
        return None;
    }
    if context.memory().is_some() {
        return no_physical_pages(context, scheme);
    }
    if context.ops == Some(SetName::Kdamond) {
        // The kernel acts, or page tables are read beside it.
        return None;
    }
    if context.ops == Some(SetName::Idle) {
        return no_marks(context, scheme);
    }
    let Some(ops) = context.ops.filter(|ops| *ops != SetName::PageWalk) else {
        return no_pagewalk(context, scheme);
    };
    Some(fatal(format!(
        "context `{}`, scheme `{}`: action `{}` with operations set `{}`\n  why:   that set cannot look \
         at single pages, so nothing is known of them before the action, and nothing after it\n  hint:  \
         use `pagewalk` or `idle`, or action `stat` without page filters",
        context.name,
        scheme.settings.name,
        action.name(),
        ops.name(),
    )))
}

/// A scheme with a source node needs to know on which node a page is.
fn no_frames(context: &ContextPolicy, scheme: &SchemePolicy) -> Option<Problem> {
    scheme.scheme.source_nid?;
    let SchemePolicy { settings, .. } = scheme;
    let head = format!("context `{}`, scheme `{}`: `source_node`", context.name, settings.name);
    if context.memory().is_some() {
        let why = "the node of physical memory is known by its address";
        let hint = "filters = [\"reject addr A..B\"] for the memory of other nodes";
        return Some(fatal(format!(
            "{head} over physical memory\n  why:   {why}\n  hint:  {hint}"
        )));
    }
    // Marking pages idle clears the accessed bits that the evidence before a demotion relies on.
    // Hot pages would look proven idle.
    if context.ops == Some(SetName::Idle) {
        let why = "marking pages idle clears the accessed bits that tell hot pages from cold ones";
        return Some(fatal(format!(
            "{head} with operations set `idle`\n  why:   {why}\n  hint:  use `pagewalk`"
        )));
    }
    let why = Places::read(&Roots::default()).err()?;
    Some(fatal(format!(
        "{head}: cannot tell on which node a page is\n  why:   {why}\n  hint:  a kernel with CONFIG_NUMA \
         and CONFIG_MEMORY_HOTPLUG"
    )))
}

/// Idle marks are per folio, so they cannot tell how much of a future huge page would be in use.
fn no_marks(context: &ContextPolicy, scheme: &SchemePolicy) -> Option<Problem> {
    let (action, settings) = (scheme.scheme.action, &scheme.settings);
    let asks = matches!(action, Action::Collapse | Action::Hugepage);
    if !asks || settings.evidence == Evidence::Off {
        return None;
    }
    Some(fatal(format!(
        "context `{}`, scheme `{}`: action `{}` with operations set `idle`\n  why:   marks of idle pages do not tell \
         which pages are in use before all were marked\n  hint:  use `pagewalk`, or `evidence = \"off\"`",
        context.name,
        settings.name,
        action.name(),
    )))
}

/// Refuses physical memory with a set that sees only processes.
fn no_physical_pages(context: &ContextPolicy, scheme: &SchemePolicy) -> Option<Problem> {
    let ops = context.ops.filter(|ops| !ops.sees_physical())?;
    Some(fatal(format!(
        "context `{}`, scheme `{}`: physical memory with operations set `{}`\n  why:   that set looks at the \
         memory of processes\n  hint:  use `idle` or `kdamond`",
        context.name,
        scheme.settings.name,
        ops.name(),
    )))
}

/// Finds what is known without a test: a kernel that is too old, or a missing privilege.
fn no_pagewalk(context: &ContextPolicy, scheme: &SchemePolicy) -> Option<Problem> {
    let roots = Roots::default();
    let support = detect(SetName::PageWalk, &isotherm_host::Machine::read(&roots), &roots);
    let Support::No { why, fix, denied, .. } = support else { return None };
    let hint = if fix.is_empty() { "`isotherm doctor` says what it needs" } else { &fix };
    let text = format!(
        "context `{}`, scheme `{}`: action `{}`\n  why:   only operations set `pagewalk` sees single \
         pages, and it is not available: {why}\n  hint:  {hint}",
        context.name,
        scheme.settings.name,
        scheme.scheme.action.name(),
    );
    let code = if denied { PERMISSION } else { NOT_SUPPORTED };
    Some(Problem { fatal: true, code, text })
}

/// The machine that this process runs on.
#[derive(Debug)]
struct ThisMachine(Metrics);

impl Machine for ThisMachine {
    /// Asked apart, since the answer has an exit code of its own.
    fn process(&mut self, _: u32) -> Result<(), Lack> {
        Ok(())
    }

    fn cgroup(&mut self, path: &str) -> Result<(), Lack> {
        find::in_cgroup(&Proc::default(), path).map(drop).map_err(|e| lack(&e))
    }

    /// Asked apart, since the answer has an exit code of its own.
    fn memory(&mut self, _: &Memory) -> Result<(), Lack> {
        Ok(())
    }

    fn node(&mut self, node: u32) -> Result<(), Lack> {
        let node = i32::try_from(node).unwrap_or(i32::MAX);
        self.metric(Metric::NodeMemUsedBp(node), &[])
    }

    fn metric(&mut self, metric: Metric, cgroups: &[String]) -> Result<(), Lack> {
        self.0.check(metric, cgroups).map_err(|e| lack(&e))
    }

    /// Asked apart, since it depends on the filters, and a dry run needs less.
    fn action(&mut self, _: Action) -> Result<(), Lack> {
        Ok(())
    }
}

fn lack(why: &isotherm_host::metrics::MetricError) -> Lack {
    let tried = why.attempt();
    let tried = if tried.is_empty() { String::new() } else { format!(" ({tried})") };
    Lack { why: format!("{}{tried}", why.why()), hint: why.hint().to_owned() }
}
