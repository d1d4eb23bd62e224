//! Why a process cannot be watched with `smaps`.

use std::io;

use isotherm_host::error::{SetError, SetKind};
use isotherm_host::proc::{is_denied, is_gone};
use isotherm_pages::tables::SETCAP;

/// Clearing would stop the process for too long; sizes in bytes.
pub(super) fn too_large(pid: u32, rss_bytes: u64, max_bytes: u64) -> SetError {
    let (rss, max) = (rss_bytes >> 20, max_bytes >> 20);
    SetError::new(
        SetKind::NotSupported,
        format!("process {pid} is too large for operations set `smaps`"),
        format!("check the size: {rss} MiB resident, limit {max} MiB"),
        "this set clears accessed bits for the whole process at once, which stops its mmap and page \
         faults for about 10 ms per GiB every time",
        "use operations set `pagewalk` (`isotherm doctor` says what it needs), or force it",
    )
}

/// What the kernel said about one of the process's files.
pub(super) fn io(pid: u32, file: &str, said: io::Error) -> SetError {
    let more = format!(
        "run as that user or as root, or `{SETCAP} FILE`: then operations set `pagewalk` can watch it"
    );
    let (kind, why, hint) = if is_gone(&said) {
        (SetKind::Gone, "the process is gone", "`ps -e` lists the processes that there are")
    } else if is_denied(&said) {
        (
            SetKind::Permission,
            "the process belongs to another user, or is protected from tracing, and CAP_SYS_PTRACE \
             or CAP_DAC_OVERRIDE is missing",
            more.as_str(),
        )
    } else if file == "clear_refs" || file == "smaps" {
        (
            SetKind::NotSupported,
            "the kernel may be built without CONFIG_PROC_PAGE_MONITOR",
            "`isotherm doctor` lists the sets that this machine supports",
        )
    } else {
        (SetKind::Io, "the kernel gave an answer that was not expected", "try again")
    };
    let what = format!("process {pid} cannot be watched with operations set `smaps`");
    SetError::new(kind, what, format!("open /proc/{pid}/{file}"), why, hint).with(said)
}
