//! This program by another name: in a namespace of `isotherm damonfs`, it stands in for those parts
//! of `perf` and `drgn` that look at the kernel's DAMON.

use std::ffi::OsString;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use isotherm::raw::sys::signals;
use isotherm_damonfs::{drgn, perf};

use crate::exit;

/// Runs a stand-in, if this program was started by the name of one in such a namespace.
pub(crate) fn as_another() -> Option<anyhow::Result<ExitCode>> {
    let mut words = std::env::args_os();
    let name = PathBuf::from(words.next()?);
    let socket = PathBuf::from(std::env::var_os(perf::SOCKET)?);
    let args: Vec<OsString> = words.collect();
    match name.file_name()?.to_str()? {
        "perf" => Some(as_perf(&socket, &args)),
        "drgn" => Some(as_drgn(&socket, &args)),
        _ => None,
    }
}

fn as_perf(socket: &Path, args: &[OsString]) -> anyhow::Result<ExitCode> {
    match perf::asked(args) {
        perf::Asked::Record { output, events } => record(socket, &output, &events)?,
        perf::Asked::Script { input } => match perf::script(&input) {
            Ok(Some(text)) => std::io::stdout().write_all(&text)?,
            Ok(None) => return real("perf", socket, args),
            Err(why) => {
                return Err(exit::usage(format!("cannot read {}: {why}", input.display())));
            }
        },
        perf::Asked::Version => {
            writeln!(std::io::stdout(), "perf version {}", env!("CARGO_PKG_VERSION"))?;
        }
        perf::Asked::Other => return real("perf", socket, args),
    }
    Ok(ExitCode::SUCCESS)
}

fn as_drgn(socket: &Path, args: &[OsString]) -> anyhow::Result<ExitCode> {
    let drgn::Asked::Dump { pid, output } = drgn::asked(args) else {
        return real("drgn", socket, args);
    };
    let text = drgn::dump(&socket.with_file_name(drgn::SOCKET), pid)
        .map_err(|why| exit::usage(format!("cannot read the context of kdamond {pid}: {why}")))?;
    match output {
        None => std::io::stdout().write_all(text.as_bytes())?,
        Some(file) => std::fs::write(&file, text).map_err(|why| {
            exit::with(exit::UNEXPECTED, format!("cannot write {}: {why}", file.display()))
        })?,
    }
    Ok(ExitCode::SUCCESS)
}

fn record(socket: &Path, output: &Path, events: &[String]) -> anyhow::Result<()> {
    signals::install()?;
    let must_end = || signals::stop_requested().is_some();
    perf::record(socket, output, events, must_end).map_err(|why| {
        let file = output.display();
        exit::with(exit::UNEXPECTED, format!("cannot record events into {file}: {why}"))
    })
}

/// Runs the real program instead of this one.
fn real(name: &str, socket: &Path, args: &[OsString]) -> anyhow::Result<ExitCode> {
    let own = socket.with_file_name("bin");
    let path = std::env::var_os("PATH");
    let Some(real) = path.and_then(|path| perf::real(name, &path, &own)) else {
        let text = format!(
            "this `{name}` is a part of `isotherm damonfs`, and knows DAMON only\n  hint:  install {name} for \
             everything else"
        );
        return Err(exit::with(exit::NOT_SUPPORTED, text));
    };
    let why = std::process::Command::new(&real).args(args).exec();
    Err(exit::with(exit::UNEXPECTED, format!("cannot run {}: {why}", real.display())))
}
