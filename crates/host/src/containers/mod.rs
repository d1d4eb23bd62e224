//! Pods and containers, by the paths of cgroups and by the files of a node.
//!
//! A container's runtime gives it a cgroup whose name has the container's id in it. Kubernetes puts
//! that cgroup below one of the pod, whose name has the pod's uid in it. [`place_of`] reads both
//! off a path, for all layouts that are in use. [`Names`] tells what people call them, from files
//! that the kubelet and the runtimes leave on the node.
//!
//! Absent on purpose: the API server, the runtimes' sockets, and any guess. A cgroup whose name
//! only looks like a container is none.

mod layout;
mod names;

pub use layout::{Place, Runtime, place_of};
pub use names::{Names, PodName};
