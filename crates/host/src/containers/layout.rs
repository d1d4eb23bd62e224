//! What the path of a cgroup says of pods and containers.
//!
//! * The kubelet with the driver `cgroupfs`: `/kubepods/burstable/podUID/ID`. Guaranteed pods
//!   lack the class.
//! * The kubelet with the driver `systemd`: `/kubepods.slice/kubepods-burstable.slice/`
//!   `kubepods-burstable-podUID.slice/cri-containerd-ID.scope`. CRI-O and Docker put `crio-` and
//!   `docker-` in front of the id.
//! * containerd with another driver than the kubelet: the last part is
//!   `kubepods-burstable-podUID.slice:cri-containerd:ID`.
//! * Nodes in containers (kind): any of these below other cgroups. Slices have a prefix, such as
//!   `kubelet-`.
//! * Docker, Podman and nerdctl alone: `docker/ID`, `docker-ID.scope`, `libpod-ID.scope`,
//!   `nerdctl-ID.scope`, below any cgroup.
//!
//! In the names of slices the uid has `_` in place of `-`, since `-` separates levels there. The
//! uid of a static pod is a hash of 32 hexadecimal digits.

/// What made a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Runtime {
    /// containerd, by way of the CRI.
    Containerd,
    /// CRI-O.
    Crio,
    /// Docker.
    Docker,
    /// Podman.
    Podman,
    /// nerdctl.
    Nerdctl,
    /// The path does not say.
    Unknown,
}

/// Where in a node's pods and containers a cgroup is.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Place {
    /// The uid of the pod, as the API server writes it; none if it is in no pod.
    pub pod: Option<String>,
    /// The id of the container, 64 hexadecimal digits; none if it is the pod's own cgroup, or that
    /// of a helper.
    pub container: Option<(Runtime, String)>,
}

/// Reads a path, such as one of `/proc/PID/cgroup`; `None` if it is in no pod and no container.
///
/// What is deeper than a container belongs to it. Of pods within pods (nested nodes) the innermost
/// counts, and its outermost container: what runs within a container of a pod is that container.
/// Without pods, the innermost container counts.
#[must_use]
pub fn place_of(path: &str) -> Option<Place> {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let mut pods = parts.iter().enumerate().filter_map(|(at, part)| Some((at, pod_of(part)?)));
    let pod = pods.next_back();
    let mut containers = parts.iter().enumerate().filter_map(|(at, part)| {
        let above = at.checked_sub(1).and_then(|above| parts.get(above)).copied();
        Some((at, container_of(part, above.unwrap_or_default())?))
    });
    let Some((at, uid)) = pod else {
        let (_, container) = containers.next_back()?;
        return Some(Place { pod: None, container: Some(container) });
    };
    let container = containers.find(|(nr, _)| *nr >= at).map(|(_, container)| container);
    Some(Place { pod: Some(uid), container })
}

/// The uid of the pod that a part of a path names.
fn pod_of(part: &str) -> Option<String> {
    // containerd's form for drivers that differ has the slice in front of a colon.
    let name = part.split(':').next()?;
    let uid = match name.strip_suffix(".slice") {
        // The level is `SLICE-podUID`; the slice's own name can have any prefix.
        Some(slice) => {
            let (above, uid) = slice.rsplit_once("-pod")?;
            above.contains("kubepods").then_some(uid)?
        }
        None => name.strip_prefix("pod")?,
    };
    let uid = uid.replace('_', "-");
    is_uid(&uid).then_some(uid)
}

/// Whether a text is a UUID, or the hash that static pods have.
fn is_uid(text: &str) -> bool {
    let lengths: Vec<usize> = text.split('-').map(str::len).collect();
    let is_hex = text.bytes().all(|byte| byte == b'-' || byte.is_ascii_hexdigit());
    is_hex && (lengths == [8, 4, 4, 4, 12] || lengths == [32])
}

/// The container that a part of a path names, below another part.
fn container_of(part: &str, above: &str) -> Option<(Runtime, String)> {
    if let Some((front, id)) = part.rsplit_once(':') {
        let runtime = runtime_of(front.rsplit(':').next()?)?;
        return is_id(id).then(|| (runtime, id.to_owned()));
    }
    let name = part.strip_suffix(".scope").unwrap_or(part);
    if let Some((runtime, id)) = name.rsplit_once('-') {
        // `crio-conmon-ID` is the process that watches the container, and not in it.
        let runtime = runtime_of(runtime)?;
        return is_id(id).then(|| (runtime, id.to_owned()));
    }
    if !is_id(name) {
        return None;
    }
    let runtime = match above {
        "docker" => Runtime::Docker,
        "libpod_parent" => Runtime::Podman,
        _ if pod_of(above).is_some() => Runtime::Unknown,
        _ => return None,
    };
    Some((runtime, name.to_owned()))
}

/// By the prefix that it gives to the names of its cgroups.
fn runtime_of(prefix: &str) -> Option<Runtime> {
    Some(match prefix {
        "cri-containerd" => Runtime::Containerd,
        "crio" => Runtime::Crio,
        "docker" => Runtime::Docker,
        "libpod" => Runtime::Podman,
        "nerdctl" => Runtime::Nerdctl,
        _ => return None,
    })
}

fn is_id(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const UID: &str = "0b1c2d3e-1111-4222-8333-444455556666";
    const HASH: &str = "8f2e7f0d9c2b4a6688aa99bbccddeeff";

    /// The id of 64 digits that begins so.
    fn id(begin: &str) -> String {
        format!("{begin:0<64}")
    }

    /// Checks a path in which `ID` stands for an id, `U_ID` for the uid as systemd has it.
    fn check(path: &str, pod: Option<&str>, container: Option<(Runtime, &str)>) {
        let path = path.replace("U_ID", &UID.replace('-', "_")).replace("UID", UID);
        let path = path.replace("HASH", HASH).replace("ID2", &id("b")).replace("ID", &id("a"));
        let found = place_of(&path);
        let container = container.map(|(runtime, begin)| (runtime, id(begin)));
        let expected = Place { pod: pod.map(str::to_owned), container };
        let expected = (expected != Place::default()).then_some(expected);
        assert_eq!(found, expected, "{path}");
    }

    #[test]
    fn kubelets_paths_with_both_drivers_and_all_classes() {
        use Runtime::{Containerd, Crio, Docker, Unknown};
        let systemd = "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podU_ID.slice";
        for (path, pod, container) in [
            ("/kubepods/burstable/podUID/ID".to_owned(), UID, Some((Unknown, "a"))),
            ("/kubepods/besteffort/podUID/ID".into(), UID, Some((Unknown, "a"))),
            ("/kubepods/podUID/ID".into(), UID, Some((Unknown, "a"))),
            ("/kubepods/burstable/podUID/crio-ID".into(), UID, Some((Crio, "a"))),
            ("/kubepods/burstable/podHASH/ID".into(), HASH, Some((Unknown, "a"))),
            ("/kubepods/burstable/podUID".into(), UID, None),
            (format!("{systemd}/cri-containerd-ID.scope"), UID, Some((Containerd, "a"))),
            (format!("{systemd}/crio-ID.scope"), UID, Some((Crio, "a"))),
            (format!("{systemd}/crio-ID.scope/container"), UID, Some((Crio, "a"))),
            (format!("{systemd}/docker-ID.scope"), UID, Some((Docker, "a"))),
            (format!("{systemd}/crio-conmon-ID.scope"), UID, None),
            (systemd.into(), UID, None),
            (
                "/kubepods.slice/kubepods-podU_ID.slice/crio-ID.scope/init.scope".into(),
                UID,
                Some((Crio, "a")),
            ),
            (
                "/kubepods.slice/kubepods-podHASH.slice/cri-containerd-ID.scope".into(),
                HASH,
                Some((Containerd, "a")),
            ),
            (
                "/system.slice/containerd.service/kubepods-burstable-podU_ID.slice:cri-containerd:ID"
                    .into(),
                UID,
                Some((Containerd, "a")),
            ),
        ] {
            check(&path, Some(pod), container);
        }
    }

    #[test]
    fn nodes_in_containers_and_containers_in_pods() {
        use Runtime::{Containerd, Docker};
        check(
            "/docker/ID/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-podU_ID.slice/\
             cri-containerd-ID2.scope",
            Some(UID),
            Some((Containerd, "b")),
        );
        check("/docker/ID/kubelet/kubepods/podUID", Some(UID), None);
        check(
            "/kubepods.slice/kubepods-podU_ID.slice/cri-containerd-ID.scope/docker/ID2",
            Some(UID),
            Some((Containerd, "a")),
        );
        check("/docker/ID/docker/ID2", None, Some((Docker, "b")));
    }

    #[test]
    fn containers_without_pods() {
        use Runtime::{Docker, Nerdctl, Podman};
        for (path, container) in [
            ("/docker/ID", Some((Docker, "a"))),
            ("/system.slice/docker-ID.scope", Some((Docker, "a"))),
            (
                "/user.slice/user-1000.slice/user@1000.service/user.slice/docker-ID.scope",
                Some((Docker, "a")),
            ),
            ("/machine.slice/libpod-ID.scope/container", Some((Podman, "a"))),
            ("/libpod_parent/libpod-ID", Some((Podman, "a"))),
            ("/system.slice/nerdctl-ID.scope", Some((Nerdctl, "a"))),
        ] {
            check(path, None, container);
        }
    }

    #[test]
    fn what_only_looks_like_one_is_none() {
        for path in [
            "/",
            "",
            "/system.slice/docker.service",
            "/system.slice/docker-abc.scope",
            "/ID",
            "/system.slice/ID",
            "/kubepods/podium/ID",
            "/kubepods.slice/kubepods-burstable.slice",
            "/app-podU_ID.slice",
            "/pod1234/ID",
            "/machine.slice/libpod-conmon-ID.scope",
        ] {
            check(path, None, None);
        }
    }
}
