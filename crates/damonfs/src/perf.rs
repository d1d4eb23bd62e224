//! The part of `perf` that programs for DAMON use: `perf record -e damon:EVENT -o FILE`, and
//! `perf script -i FILE`. Its events come from [`Trace`](crate::trace::Trace).
//!
//! A record is the text that `perf script` prints. Everything else is the business of the real
//! `perf`, if there is one.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The environment variable that holds the path of the socket.
pub const SOCKET: &str = "ISOTHERM_DAMONFS_TRACE";

/// How often is looked whether to end.
const LOOK: Duration = Duration::from_millis(50);

/// What was asked of `perf`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Asked {
    /// Record events into a file until told to stop.
    Record {
        /// The file.
        output: PathBuf,
        /// The events, as `damon:damon_aggregated`.
        events: Vec<String>,
    },
    /// Print the events of a file.
    Script {
        /// The file.
        input: PathBuf,
    },
    /// Print the version.
    Version,
    /// Something that is not for us.
    Other,
}

/// Understands the arguments of `perf`, without its name.
#[must_use]
pub fn asked(args: &[OsString]) -> Asked {
    let words: Vec<&str> = args.iter().filter_map(|arg| arg.to_str()).collect();
    let after = |names: &[&str]| {
        let at = words.iter().position(|word| names.contains(word))?;
        args.get(at + 1).map(PathBuf::from)
    };
    let default = || PathBuf::from("perf.data");
    match words.first().copied() {
        Some("--version" | "version") => Asked::Version,
        Some("record") => {
            let named = words.windows(2).filter(|pair| matches!(pair[0], "-e" | "--event"));
            let events = named.flat_map(|pair| pair[1].split(',')).map(str::to_owned);
            let events: Vec<String> = events.collect();
            if events.is_empty() || !events.iter().all(|event| event.starts_with("damon:")) {
                return Asked::Other;
            }
            Asked::Record { output: after(&["-o", "--output"]).unwrap_or_else(default), events }
        }
        Some("script") => {
            Asked::Script { input: after(&["-i", "--input"]).unwrap_or_else(default) }
        }
        _ => Asked::Other,
    }
}

/// Writes events from the socket into a file, until `must_end`.
///
/// # Errors
///
/// If the socket or the file cannot be used.
pub fn record(
    socket: &Path,
    output: &Path,
    events: &[String],
    must_end: fn() -> bool,
) -> io::Result<()> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(LOOK))?;
    let mut file = File::create(output)?;
    let (mut buf, mut rest) = (vec![0; 1 << 16], Vec::new());
    while !must_end() {
        match stream.read(&mut buf) {
            Ok(0) => break,
            Ok(len) => {
                rest.extend_from_slice(&buf[..len]);
                let whole = rest.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
                for line in rest[..whole].split_inclusive(|byte| *byte == b'\n') {
                    if is_of(line, events) {
                        file.write_all(line)?;
                    }
                }
                rest.drain(..whole);
            }
            Err(err) if matches!(err.kind(), io::ErrorKind::WouldBlock) => {}
            Err(err) if matches!(err.kind(), io::ErrorKind::Interrupted) => {}
            Err(err) => return Err(err),
        }
    }
    Ok(())
}

/// Whether a line is one of these events.
fn is_of(line: &[u8], events: &[String]) -> bool {
    let line = String::from_utf8_lossy(line);
    events.iter().any(|event| line.contains(&format!(" {event}: ")))
}

/// The text of a record that [`record`] has written; none if it is another's.
///
/// # Errors
///
/// If the file cannot be read.
pub fn script(input: &Path) -> io::Result<Option<Vec<u8>>> {
    let text = fs::read(input)?;
    Ok(if text.starts_with(b"PERFILE2") { None } else { Some(text) })
}

/// The real program of this name: the first one in the search path that is not in this directory.
#[must_use]
pub fn real(name: &str, path: &OsStr, own: &Path) -> Option<PathBuf> {
    let places = std::env::split_paths(path).filter(|place| place != own);
    places.map(|place| place.join(name)).find(|program| program.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_damo_asks_of_perf_is_understood() {
        let ask = |words: &str| asked(&words.split(' ').map(OsString::from).collect::<Vec<_>>());
        let events = |all: &[&str]| all.iter().map(|event| (*event).to_owned()).collect();
        let record = |output: &str, all: &[&str]| Asked::Record {
            output: output.into(),
            events: events(all),
        };
        for (words, expected) in [
            (
                "record -a -o x -e damon:damon_aggregated -e damon:damos_before_apply",
                record("x", &["damon:damon_aggregated", "damon:damos_before_apply"]),
            ),
            ("record -e damon:a,damon:b", record("perf.data", &["damon:a", "damon:b"])),
            ("record -o x.profile", Asked::Other),
            ("record -e cycles -o x", Asked::Other),
            ("script --force -i x", Asked::Script { input: "x".into() }),
            ("--version", Asked::Version),
            ("stat ls", Asked::Other),
        ] {
            assert_eq!(ask(words), expected, "{words}");
        }
    }

    #[test]
    fn only_the_events_that_were_asked_for_are_kept() {
        let all = ["damon:damon_aggregated".to_owned()];
        assert!(is_of(b" kdamond.0 1 [000] 1.0: damon:damon_aggregated: x\n", &all));
        assert!(!is_of(b" kdamond.0 1 [000] 1.0: damon:damon_monitor_intervals_tune: x\n", &all));
    }
}
