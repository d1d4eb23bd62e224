//! Where policies may act, by namespaces of Kubernetes.
//!
//! An agent of a cluster is given the namespaces that agreed to be acted on. Who writes a policy
//! may name any target, so each context is judged by its targets: it acts if all of them are pods
//! of such namespaces, and only decides and counts otherwise. The pods themselves are found by the
//! node's files ([`isotherm_host::containers`]).
//!
//! Absent on purpose: asking the API server for labels. Who installs the agent reads them.

use isotherm_act::apply::ReclaimFrom;
use isotherm_agent::policy::{ContextPolicy, Policy, TargetSpec};
use isotherm_host::glob::is_glob;

/// Makes dry runs of all schemes that could act outside of these namespaces; none: anywhere is
/// allowed. Returns a sentence about each context that is held back.
pub(crate) fn hold_back(policy: &mut Policy, namespaces: Option<&[String]>) -> Vec<String> {
    let Some(namespaces) = namespaces else { return Vec::new() };
    let mut told = Vec::new();
    for context in &mut policy.contexts {
        let Some(why) = outside(context, namespaces) else {
            // A pod's cgroup has all its processes. A child that left it is no longer of the pod.
            context.children = false;
            continue;
        };
        let mut is_new = false;
        for scheme in &mut context.schemes {
            is_new |= !std::mem::replace(&mut scheme.settings.dry_run, true);
        }
        if is_new {
            let (name, all) = (&context.name, namespaces.join(", "));
            told.push(format!(
                "context `{name}` only decides and counts: {why}, and policies act in pods of {all} \
                 only (--act-in)"
            ));
        }
    }
    told
}

/// Why a context could act outside of these namespaces; `None` if it cannot.
fn outside(context: &ContextPolicy, namespaces: &[String]) -> Option<String> {
    // `!` in front of a pattern leaves pods out, so it adds none.
    let leaves_out = |target: &TargetSpec| matches!(target, TargetSpec::Pod(pattern) if pattern.starts_with('!'));
    let is_inside = |target: &TargetSpec| match target {
        TargetSpec::Pod(pattern) => pattern.split_once('/').is_some_and(|(namespace, _)| {
            !is_glob(namespace) && namespaces.iter().any(|known| known == namespace)
        }),
        _ => false,
    };
    let mut meant = context.targets.iter().filter(|target| !leaves_out(target)).peekable();
    if meant.peek().is_none() || !meant.all(is_inside) {
        return Some("not all of its targets are `pod:NAMESPACE/NAME`".to_owned());
    }
    let reclaims = context.schemes.iter().filter_map(|s| s.settings.memory_reclaim.as_ref());
    reclaims.into_iter().find_map(|reclaim| match &reclaim.from {
        ReclaimFrom::Path(path) => Some(format!("it reclaims from the cgroup {path}")),
        ReclaimFrom::Own => None,
    })
}

#[cfg(test)]
mod tests {
    use isotherm_agent::policy::parse;

    use super::*;

    /// Whether the scheme of a context with these targets acts.
    fn acts(targets: &str, more: &str) -> bool {
        let text = format!(
            "[[context]]\ntargets = [{targets}]\n[[context.scheme]]\naction = \"pageout\"\n\
             age = \"10s..\"\n{more}"
        );
        let mut policy = parse(&text, "p").unwrap();
        let namespaces = ["shop".to_owned(), "db".to_owned()];
        assert!(hold_back(&mut policy.clone(), None).is_empty());
        let held = hold_back(&mut policy, Some(&namespaces));
        let is_dry = policy.contexts[0].schemes[0].settings.dry_run;
        assert_eq!(is_dry, !held.is_empty(), "{held:?}");
        !is_dry
    }

    #[test]
    fn only_pods_of_the_named_namespaces_are_acted_on() {
        for (targets, expected) in [
            ("\"pod:shop/*\"", true),
            ("\"pod:shop/web-?\", { pod = \"db/main\" }", true),
            ("\"pod:shop/*\", \"pod:other/*\"", false),
            ("\"pod:*\"", false),
            ("\"pod:web\"", false),
            ("\"pod:shop/*\", \"pod:!shop/db\"", true),
            ("\"pod:!shop/db\"", false),
            ("\"pod:!other/*\"", false),
            ("\"pod:s*/web\"", false),
            ("\"pod:sho?/web\"", false),
            ("\"pod:shopping/web\"", false),
            ("\"container:shop/web/nginx\"", false),
            ("{ cgroup = \"/kubepods\" }", false),
            ("{ name = \"shop/x\" }", false),
            ("{ pid = 4711 }", false),
            ("{ rss = \"1M\" }", false),
        ] {
            assert_eq!(acts(targets, ""), expected, "{targets}");
        }
    }

    #[test]
    fn reclaim_from_a_named_cgroup_is_outside() {
        for (from, expected) in [("own", true), ("/app", false)] {
            let more = format!("memory_reclaim = \"{from}\"\n");
            assert_eq!(acts("\"pod:shop/*\"", &more), expected, "{from}");
        }
    }
}
