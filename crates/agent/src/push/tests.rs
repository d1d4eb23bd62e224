//! What is for the kernel and what is not.

use isotherm_act::apply::{Evidence, Settings};
use isotherm_core::scheme::{Action, Brake, Filter, FilterKind, Goal, Metric, Quota};
use isotherm_core::{AddrRange, Scheme};
use isotherm_damon::{Features, Operations, Root};

use super::push_down;

/// A made-up kernel of this release, without files to see.
fn kernel(release: &str) -> Features {
    let dir = tempfile::tempdir().unwrap();
    let osrelease = dir.path().join("proc/sys/kernel");
    std::fs::create_dir_all(&osrelease).unwrap();
    std::fs::write(osrelease.join("osrelease"), release).unwrap();
    std::fs::create_dir_all(dir.path().join("admin/kdamonds")).unwrap();
    Features::detect(&Root::at(dir.path()))
}

#[test]
fn what_the_kernel_lacks_is_said() {
    let plain = || Scheme { action: Action::Pageout, ..Scheme::default() };
    let off = Settings { name: "s".into(), evidence: Evidence::Off, ..Settings::default() };
    let filtered = |kind| {
        let mut scheme = Scheme { action: Action::Stat, ..Scheme::default() };
        scheme.filters.push(Filter { kind, matching: true, allow: false });
        scheme
    };
    let of = |action| Scheme { action, ..Scheme::default() };
    let goal = |metric| Scheme {
        quota: Quota { goals: vec![Goal::new(metric, 1)], ..Quota::default() },
        ..plain()
    };
    let braked = |brake| Scheme { quota: Quota { brake, ..Quota::default() }, ..plain() };
    let strict = Brake { max_refault_bp: 1, ..Brake::default() };
    let mut anon_out = plain();
    anon_out.filters.push(Filter { kind: FilterKind::Anon, matching: true, allow: false });
    let addr = FilterKind::Addr(AddrRange::new(0, 4096));
    let (v, p) = (Operations::Fvaddr, Operations::Paddr);
    let cases = [
        (plain(), off.clone(), v, "6.12", ""),
        (plain(), Settings { dry_run: true, ..off.clone() }, v, "7.2", "dry run"),
        (plain(), Settings { evidence: Evidence::Confirm(1), ..off.clone() }, v, "7.2", "evidence"),
        (braked(Some(Brake::default())), off.clone(), v, "7.2", ""),
        (braked(Some(strict)), off.clone(), v, "7.2", "brake"),
        (of(Action::Collapse), off.clone(), v, "7.2", ""),
        (of(Action::Collapse), off.clone(), v, "6.12", "needs Linux 7.2"),
        (of(Action::LruPrio), off.clone(), v, "7.2", "does not do `lru_prio` with fvaddr"),
        (of(Action::LruPrio), off.clone(), p, "6.12", ""),
        (of(Action::Hugepage), off.clone(), p, "7.2", "does not do"),
        (of(Action::MigrateCold), off.clone(), p, "6.12", ""),
        (of(Action::MigrateCold), off.clone(), v, "6.12", "needs Linux 6.17"),
        (filtered(FilterKind::File), off.clone(), v, "7.2", "`file`"),
        (filtered(FilterKind::Mapping(0)), off.clone(), v, "7.2", "mapping"),
        (filtered(addr), off.clone(), v, "6.12", ""),
        (filtered(addr), off.clone(), v, "6.5", "needs Linux 6.6"),
        (anon_out.clone(), off.clone(), v, "7.2", "ignores page filters"),
        (anon_out, off.clone(), p, "7.2", ""),
        (goal(Metric::SomeMemPsiUs), off.clone(), v, "6.12", ""),
        (goal(Metric::RefaultBp), off.clone(), v, "7.2", "not in the kernel"),
        (goal(Metric::NodeMemUsedBp(0)), off, v, "6.12", "needs Linux 6.16"),
    ];
    for (scheme, settings, operations, release, why) in cases {
        let said = push_down(&scheme, &settings, operations, &kernel(release));
        let said = said.err().map(|not| not.to_string()).unwrap_or_default();
        assert_eq!(said.is_empty(), why.is_empty(), "{release} {scheme:?}: {said}");
        assert!(said.contains(why), "{release} {scheme:?}: {said}, wanted {why}");
    }
}
