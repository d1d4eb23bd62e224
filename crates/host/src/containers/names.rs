//! What people call pods and containers, from files on the node.
//!
//! * `/var/log/pods/NAMESPACE_POD_UID/CONTAINER/` (kubelet): the pod's name by its uid.
//! * `/var/log/containers/POD_NAMESPACE_CONTAINER-ID.log` (kubelet): the container's name by its
//!   id.
//! * `/var/lib/docker/containers/ID/config.v2.json` (Docker; root only): the container's name.
//! * `/var/lib/containers/storage/overlay-containers/containers.json` (Podman; root only): the
//!   same.
//!
//! None of them has to be there: without a name there is the id. Names of Kubernetes have no `_` in
//! them, so the parts of a file's name are known.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::Deserialize;

/// The name of a pod.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct PodName {
    /// Its namespace.
    pub namespace: String,
    /// Its name within the namespace.
    pub name: String,
}

impl std::fmt::Display for PodName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// The names that a node's files tell.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Names {
    pods: BTreeMap<String, PodName>,
    containers: BTreeMap<String, String>,
}

/// A file larger than this is not what it should be, in bytes.
const LARGEST: u64 = 64 << 20;
/// More entries of a directory than this are not read.
const MOST: usize = 100_000;

impl Names {
    /// Reads the files below `root`, which is `/` on a machine. What cannot be read tells nothing.
    #[must_use]
    pub fn read(root: &Path) -> Self {
        let mut names = Self::default();
        for entry in entries(&root.join("var/log/pods")) {
            names.pod(&entry);
        }
        for entry in entries(&root.join("var/log/containers")) {
            names.container(&entry);
        }
        let docker = root.join("var/lib/docker/containers");
        for id in entries(&docker) {
            names.docker(&docker.join(&id).join("config.v2.json"), id);
        }
        names.podman(&root.join("var/lib/containers/storage/overlay-containers/containers.json"));
        names
    }

    /// The name of the pod with this uid.
    #[must_use]
    pub fn of_pod(&self, uid: &str) -> Option<&PodName> {
        self.pods.get(uid)
    }

    /// The name of the container with this id.
    #[must_use]
    pub fn of_container(&self, id: &str) -> Option<&str> {
        self.containers.get(id).map(String::as_str)
    }

    /// Takes in `NAMESPACE_POD_UID`.
    fn pod(&mut self, entry: &str) {
        let mut parts = entry.splitn(3, '_');
        if let (Some(namespace), Some(name), Some(uid)) = (parts.next(), parts.next(), parts.next())
        {
            let (namespace, name) = (namespace.to_owned(), name.to_owned());
            self.pods.insert(uid.to_owned(), PodName { namespace, name });
        }
    }

    /// Takes in `POD_NAMESPACE_CONTAINER-ID.log`.
    fn container(&mut self, entry: &str) {
        let name = entry.strip_suffix(".log").and_then(|entry| entry.rsplit_once('-'));
        if let Some((front, id)) = name
            && let Some(container) = front.splitn(3, '_').nth(2)
        {
            self.containers.insert(id.to_owned(), container.to_owned());
        }
    }

    fn docker(&mut self, file: &Path, id: String) {
        /// As much of the file as is needed.
        #[derive(Deserialize)]
        struct Config {
            #[serde(rename = "Name")]
            name: String,
        }
        if let Some(Config { name }) = json(file) {
            self.containers.insert(id, name.trim_start_matches('/').to_owned());
        }
    }

    fn podman(&mut self, file: &Path) {
        /// As much of the file as is needed.
        #[derive(Deserialize)]
        struct Container {
            id: String,
            #[serde(default)]
            names: Vec<String>,
        }
        for Container { id, names } in json::<Vec<Container>>(file).unwrap_or_default() {
            if let Some(name) = names.into_iter().next() {
                self.containers.insert(id, name);
            }
        }
    }
}

fn json<T: for<'de> Deserialize<'de>>(file: &Path) -> Option<T> {
    let is_sane = fs::metadata(file).is_ok_and(|meta| meta.is_file() && meta.len() <= LARGEST);
    let text = is_sane.then(|| fs::read(file).ok())??;
    serde_json::from_slice(&text).ok()
}

/// The names of a directory's entries; none if it cannot be listed.
fn entries(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.take(MOST).filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const UID: &str = "0b1c2d3e-1111-4222-8333-444455556666";

    #[test]
    fn the_files_of_a_node_tell_names() {
        let root = tempfile::tempdir().unwrap();
        let put = |path: String, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let id = |begin: char| begin.to_string().repeat(64);
        put(format!("var/log/pods/shop_web-7d9f_{UID}/nginx/0.log"), "");
        put("var/log/pods/not-a-pod/x".into(), "");
        put(format!("var/log/containers/web-7d9f_shop_nginx-proxy-{}.log", id('a')), "");
        put("var/log/containers/nothing.txt".into(), "");
        let docker = format!("var/lib/docker/containers/{}/config.v2.json", id('b'));
        put(docker, r#"{"StreamConfig":{},"Name":"/redis","Pid":7}"#);
        put(format!("var/lib/docker/containers/{}/config.v2.json", id('c')), "{broken");
        let podman = format!(
            r#"[{{"id":"{}","names":["db","old"],"image":"x"}},{{"id":"{}"}}]"#,
            id('d'),
            id('e')
        );
        put("var/lib/containers/storage/overlay-containers/containers.json".into(), &podman);
        let names = Names::read(root.path());
        let pod = names.of_pod(UID).map(ToString::to_string);
        assert_eq!(pod.as_deref(), Some("shop/web-7d9f"));
        for (container, name) in [
            ('a', Some("nginx-proxy")),
            ('b', Some("redis")),
            ('c', None),
            ('d', Some("db")),
            ('e', None),
        ] {
            assert_eq!(names.of_container(&id(container)), name, "{container}");
        }
    }

    #[test]
    fn a_machine_without_containers_has_no_names() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(Names::read(root.path()), Names::default());
    }
}
