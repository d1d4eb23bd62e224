//! The limit of open files, which any part of the program can meet first.

use std::io;

use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

/// If the kernel said that too many files are open: why, and what to do about it.
#[must_use]
pub fn too_many_files(said: &io::Error) -> Option<(String, &'static str)> {
    let errno = Errno::from_io_error(said)?;
    if errno == Errno::NFILE {
        let why = "as many files are open on this machine as may be (/proc/sys/fs/file-max)";
        return Some((why.to_owned(), "close other programs, or raise that limit"));
    }
    if errno != Errno::MFILE {
        return None;
    }
    let limit = getrlimit(Resource::Nofile).current;
    let limit = limit.map_or_else(|| "none".to_owned(), |limit| limit.to_string());
    let why = format!("the limit of open files is reached (`ulimit -n` is {limit})");
    Some((why, "raise it: 64 and 8 more per target are enough"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{Class, Error};

    #[test]
    fn the_limit_is_named_whatever_was_tried() {
        let full = io::Error::from_raw_os_error(libc::EMFILE);
        let error = Error::new(Class::Unexpected, "no set", "load it", "the verifier", "report it");
        let error = error.with(full).to_string();
        assert!(error.contains("limit of open files") && error.contains("ulimit -n"), "{error}");
        assert!(!error.contains("verifier") && !error.contains("report it"), "{error}");
        assert!(too_many_files(&io::Error::from_raw_os_error(libc::EPERM)).is_none());
    }
}
