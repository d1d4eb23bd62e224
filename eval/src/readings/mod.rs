//! What jobs read from the kernel while a measurement runs.

pub(crate) mod pages;
pub(crate) mod periodic;
pub(crate) mod procfs;
pub(crate) mod sampling;
