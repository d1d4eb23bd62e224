//! Policies that were stopped by a limit, on disk: a restart of the agent does not start them
//! again. A file per policy, which the policy's own thread writes.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::state::replace;

/// Where trips are kept.
#[derive(Debug, Clone)]
pub(crate) struct Trips {
    dir: PathBuf,
}

#[derive(Debug, Serialize, Deserialize)]
struct Trip {
    why: String,
}

impl Trips {
    pub(crate) fn new(state_dir: &Path) -> Self {
        Self { dir: state_dir.join("stopped") }
    }

    fn path(&self, policy: &str) -> PathBuf {
        self.dir.join(format!("{policy}.json"))
    }

    /// Why a policy was stopped; none if it was not. A file that cannot be read stops it as well.
    pub(crate) fn of(&self, policy: &str) -> Option<String> {
        let path = self.path(policy);
        match fs::read(&path) {
            Ok(bytes) => Some(match serde_json::from_slice::<Trip>(&bytes) {
                Ok(trip) => trip.why,
                Err(err) => format!("{} is damaged: {err}", path.display()),
            }),
            Err(err) if err.kind() == io::ErrorKind::NotFound => None,
            Err(err) => Some(format!("{} cannot be read: {err}", path.display())),
        }
    }

    /// Keeps why a policy was stopped. When this returns, it is on disk.
    ///
    /// # Errors
    ///
    /// If it could not be written.
    pub(crate) fn keep(&self, policy: &str, why: &str) -> io::Result<()> {
        fs::create_dir_all(&self.dir)?;
        let trip = Trip { why: why.to_owned() };
        replace(&self.path(policy), &serde_json::to_vec(&trip)?)
    }

    /// Forgets it.
    ///
    /// # Errors
    ///
    /// If the file cannot be removed; the policy stays stopped then.
    pub(crate) fn forget(&self, policy: &str) -> io::Result<()> {
        match fs::remove_file(self.path(policy)) {
            Err(err) if err.kind() != io::ErrorKind::NotFound => Err(err),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trip_is_there_until_it_is_forgotten() {
        let dir = tempfile::tempdir().unwrap();
        let trips = Trips::new(dir.path());
        assert_eq!(trips.of("a"), None);
        trips.forget("a").unwrap();
        trips.keep("a", "too much pressure").unwrap();
        assert_eq!(Trips::new(dir.path()).of("a").as_deref(), Some("too much pressure"));
        assert_eq!(trips.of("b"), None);
        fs::write(trips.path("b"), "{").unwrap();
        assert!(trips.of("b").is_some_and(|why| why.contains("is damaged")));
        trips.forget("a").unwrap();
        assert_eq!(trips.of("a"), None);
    }
}
