//! Policies against a machine that lacks most things.

use expect_test::expect;
use isotherm_agent::policy::{Lack, Machine, Policy, TargetSpec, check, parse};
use isotherm_agent::ready::{Reclaim, Thp, Whose};
use isotherm_core::scheme::{Action, Metric};
use isotherm_ops::targets::Memory;

/// One node, pid 7, cgroup `/app`, no pressure, no swap.
struct Small;

fn has(it: bool, why: &str) -> Result<(), Lack> {
    if it { Ok(()) } else { Err(Lack { why: why.to_owned(), hint: String::new() }) }
}

impl Machine for Small {
    fn process(&mut self, pid: u32) -> Result<(), Lack> {
        has(pid == 7, "there is no such process")
    }

    fn cgroup(&mut self, path: &str) -> Result<(), Lack> {
        has(path == "/app", "there is no such cgroup")
    }

    fn memory(&mut self, memory: &Memory) -> Result<(), Lack> {
        has(*memory != Memory::Node(1), "node 1 has no memory")
    }

    fn node(&mut self, node: u32) -> Result<(), Lack> {
        has(node == 0, "this machine has one node, 0")
    }

    fn metric(&mut self, metric: Metric, cgroups: &[String]) -> Result<(), Lack> {
        match metric {
            Metric::FreeMemRate => Ok(()),
            Metric::NodeMemcgUsedBp(node, id) => {
                has(node == 0 && cgroups[id.0 as usize] == "/app", "not this cgroup")
            }
            _ => has(false, "pressure is switched off"),
        }
    }

    fn action(&mut self, action: Action) -> Result<(), Lack> {
        let why = "no swap is on";
        let hint = "swapon, or --dry-run".to_owned();
        if action == Action::Pageout { Err(Lack { why: why.to_owned(), hint }) } else { Ok(()) }
    }
}

fn read(text: &str) -> Policy {
    parse(text, "policy.toml").unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn everything_that_is_missing() {
    let policy = read(
        r#"
[[context]]
name = "a"
targets = [{ pid = 7 }, { pid = 8 }, { cgroup = "/app" }, { cgroup = "/no" }, { name = "later" }]
[[context.scheme]]
action = "migrate_cold"
destinations = [{ node = 0 }, { node = 3 }, { node = 4, weight = 0 }]
filters = ["allow memcg /app", "reject memcg /no"]
quota = { goals = [
  { metric = "some_mem_psi_us", target = "1ms" },
  { metric = "node_memcg_used_bp", node = 0, cgroup = "/app", target = "10%" },
  { metric = "refault_bp", target = "1%" },
] }
watermarks = { high = "50%", mid = "40%", low = "20%" }
[[context]]
name = "b"
[[context.scheme]]
action = "pageout"
"#,
    );
    let unmet = check(&policy, &mut Small).expect_err("much is missing");
    let shown: Vec<_> = unmet.iter().map(ToString::to_string).collect();
    expect![[r#"
        context `a`: target pid 8
          why:   there is no such process
        context `a`: target cgroup /no
          why:   there is no such cgroup
        context `a`, scheme `migrate_cold`: node 3
          why:   this machine has one node, 0
        context `a`, scheme `migrate_cold`: filter memcg /no
          why:   there is no such cgroup
        context `a`, scheme `migrate_cold`: metric `some_mem_psi_us`
          why:   pressure is switched off
        context `b`: no target
          why:   neither the policy nor the command line names one
          hint:  targets = [{ pid = 4711 }], or a target on the command line
        context `b`, scheme `pageout`: action `pageout`
          why:   no swap is on
          hint:  swapon, or --dry-run"#]]
    .assert_eq(&shown.join("\n"));
}

#[test]
fn nothing_missing() {
    let policy = read("[[context]]\ntargets = [{ pid = 7 }]\n[[context.scheme]]\naction = 'cold'");
    assert_eq!(check(&policy, &mut Small), Ok(()));
}

#[test]
fn policies_without_a_file() {
    let whose = Whose { targets: vec![TargetSpec::Pid(7)], ..Whose::default() };
    let mut policy = Thp { whose: whose.clone(), inject: true, ..Thp::default() }.policy();
    assert_eq!(check(&policy, &mut Small), Ok(()));
    policy.contexts[0].schemes[1].settings.inject = false;
    policy.contexts[0].attrs.min_nr_regions = 1;
    let unmet = check(&policy, &mut Small).expect_err("no way to nohugepage");
    let shown: Vec<_> = unmet.iter().map(ToString::to_string).collect();
    expect![[r#"
        context `thp`: impossible attributes
          why:   fewer than 3 regions asked for; 3 is the least
        context `thp`, scheme `cold`: action `nohugepage` without `inject`
          why:   only a process itself may ask for it, so it has to be stopped for a moment
          hint:  allow that, or use `collapse`, which needs no stop"#]]
    .assert_eq(&shown.join("\n"));
    let unmet = check(&Reclaim { whose, ..Reclaim::default() }.policy(), &mut Small);
    assert_eq!(unmet.expect_err("no swap").len(), 1);
}

/// Huge pages of all that matches may hurt, and nothing undoes them: a user is told so, and how to
/// get a trial.
#[test]
fn huge_pages_without_a_trial_are_warned_of() {
    let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("start sleep");
    let told = |lines: &str| {
        let pid = child.id();
        let text = format!(
            "[[context]]\nname = \"a\"\ntargets = [{{ pid = {pid} }}]\n[[context.scheme]]\nname = \"hot\"\n\
             frequency = \"5%..\"\n{lines}\n"
        );
        let problems = isotherm_agent::run::check(&read(&text));
        let of_trials = problems.into_iter().filter(|p| p.text.contains("without a trial"));
        of_trials.map(|p| (p.fatal, p.text)).collect::<Vec<_>>()
    };
    for (lines, action) in [
        ("action = \"hugepage\"\ninject = true", Some("hugepage")),
        ("action = \"collapse\"", Some("collapse")),
        ("action = \"collapse\"\nprove = \"auto\"", None),
        ("action = \"collapse\"\ndry_run = true", None),
        ("action = \"nohugepage\"\ninject = true", None),
    ] {
        let told = told(lines);
        assert_eq!(told.len(), usize::from(action.is_some()), "{lines}: {told:?}");
        for ((fatal, text), action) in told.iter().zip(action) {
            assert!(!fatal, "it is run all the same: {text}");
            for part in
                [&format!("`hot`: action `{action}`"), "they stay|pages stay", "prove = \"auto\""]
            {
                assert!(part.split('|').any(|part| text.contains(part)), "no {part} in {text}");
            }
        }
    }
    child.kill().and_then(|()| child.wait()).expect("end sleep");
}
