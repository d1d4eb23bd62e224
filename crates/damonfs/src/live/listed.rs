//! How programs that list processes see that a kdamond runs.
//!
//! The kernel's worker is a process in such lists, and `pgrep kdamond` is how scripts ask for one.
//! Ours are threads, which these lists do not have. So the process that they are in is called like
//! the first of them while there is any.

use std::fs;
use std::sync::{Mutex, PoisonError};

/// The name of this process. Only its first thread has it.
const NAME: &str = "/proc/self/comm";

/// How many kdamonds run, and what the process is called without them.
static RUNNING: Mutex<(usize, String)> = Mutex::new((0, String::new()));

/// Calls the process a kdamond while this is there.
#[derive(Debug)]
pub(super) struct Listed(());

/// Calls the process by the name of a kdamond, if it is not called so yet.
pub(super) fn as_kdamond(name: &str) -> Listed {
    let mut running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
    let (nr, before) = &mut *running;
    if *nr == 0 {
        *before = fs::read_to_string(NAME).unwrap_or_default();
        // Without the name the kdamond runs all the same.
        fs::write(NAME, name).ok();
    }
    *nr += 1;
    Listed(())
}

impl Drop for Listed {
    fn drop(&mut self) {
        let mut running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
        let (nr, before) = &mut *running;
        *nr -= 1;
        if *nr == 0 && !before.is_empty() {
            fs::write(NAME, before.trim_end()).ok();
        }
    }
}
