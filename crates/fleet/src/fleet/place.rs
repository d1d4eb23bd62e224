//! What a cgroup's path says of it: what kind of thing it is, and the names that people know.

use isotherm_host::containers::{Names, place_of};
use isotherm_ops::targets::cgroup::unit_of;

/// The letters of the random ends that Kubernetes gives to names.
const RANDOM: &str = "bcdfghjklmnpqrstvwxz2456789";

/// What a cgroup's path says of it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Place {
    pub(super) class: Option<String>,
    pub(super) service: Option<String>,
    pub(super) namespace: Option<String>,
    pub(super) pod: Option<String>,
    pub(super) container: Option<String>,
}

impl Place {
    pub(super) fn of(path: &str, names: &Names) -> Self {
        let place = place_of(path).unwrap_or_default();
        let pod_name = place.pod.as_deref().and_then(|uid| names.of_pod(uid));
        let unit = unit_of(path).and_then(|unit| unit.strip_suffix(".service"));
        let workload = pod_name.map(|pod| workload(&pod.name).to_owned());
        let container = place.container.map(|(_, id)| match names.of_container(&id) {
            Some(name) => name.to_owned(),
            None => id.chars().take(12).collect(),
        });
        Self {
            class: class(path, unit.is_some()),
            service: workload.or_else(|| unit.map(str::to_owned)),
            namespace: pod_name.map(|pod| pod.namespace.clone()),
            pod: pod_name.map(|pod| pod.name.clone()).or(place.pod),
            container,
        }
    }
}

/// What kind of thing it is: `kubepods`, `service`, or the first part of the path.
fn class(path: &str, is_service: bool) -> Option<String> {
    let first = path.split('/').find(|part| !part.is_empty())?;
    let first = first.strip_suffix(".slice").unwrap_or(first);
    Some(match first {
        kube if kube.starts_with("kubepods") => "kubepods".to_owned(),
        _ if is_service => "service".to_owned(),
        other => other.to_owned(),
    })
}

/// The name of what a pod is one of: without the random ends of replica sets, daemon sets and jobs,
/// and the numbers of stateful sets.
fn workload(pod: &str) -> &str {
    let cut = |name: &'_ str, is_end: &dyn Fn(&str) -> bool| -> Option<usize> {
        let (before, end) = name.rsplit_once('-')?;
        (!before.is_empty() && is_end(end)).then_some(before.len())
    };
    let random = |end: &str| end.chars().all(|c| RANDOM.contains(c));
    let number = |end: &str| !end.is_empty() && end.bytes().all(|byte| byte.is_ascii_digit());
    if let Some(at) = cut(pod, &|end| end.len() == 5 && random(end)) {
        let set = &pod[..at];
        let hash = |end: &str| (8..=10).contains(&end.len()) && random(end);
        return cut(set, &hash).map_or(set, |at| &set[..at]);
    }
    cut(pod, &number).map_or(pod, |at| &pod[..at])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_belong_to_workloads() {
        for (pod, name) in [
            ("web-7d4b9c6f5d-x2x9z", "web"),
            ("fluent-bit-k8v2b", "fluent-bit"),
            ("postgres-0", "postgres"),
            ("a-b-12", "a-b"),
            ("plain", "plain"),
            ("-0", "-0"),
            ("api-server-alpha", "api-server-alpha"),
        ] {
            assert_eq!(workload(pod), name, "{pod}");
        }
    }

    #[test]
    fn paths_say_what_a_cgroup_is() {
        let names = Names::default();
        let of = |path: &str| {
            let place = Place::of(path, &names);
            (place.class, place.service)
        };
        let some = |text: &str| Some(text.to_owned());
        for (path, expected) in [
            ("/system.slice/redis.service", (some("service"), some("redis"))),
            ("/system.slice", (some("system"), None)),
            ("/user.slice/user-0.slice/session-1.scope", (some("user"), None)),
            ("/mine/inner", (some("mine"), None)),
            ("/kubepods.slice/kubepods-besteffort.slice", (some("kubepods"), None)),
            ("/", (None, None)),
        ] {
            assert_eq!(of(path), expected, "{path}");
        }
    }
}
