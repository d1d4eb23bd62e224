//! `isotherm report html`: a record as one page for a browser.

use std::fs::File;
use std::io::{BufReader, Write};
use std::path::{Path, PathBuf};

use isotherm::raw::core::units::bytes;
use isotherm::raw::report::html;

use super::report::Common;
use crate::exit::usage;
use crate::files;

/// Arguments of `isotherm report html`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    common: Common,
    /// The page to write; - for standard output. By default the record's name with .html.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Also show the actions and refaults in this event log, which `reclaim`, `run` and other
    /// acting commands write with --events.
    #[arg(long, value_name = "FILE")]
    events: Option<PathBuf>,
}

/// Runs the subcommand.
pub(super) fn run(args: &Args, out: &mut impl Write) -> anyhow::Result<()> {
    let (record, filter) = args.common.open()?;
    let events = args.events.as_deref().map(open_log).transpose()?;
    let path = args.output.clone().unwrap_or_else(|| named_after(&args.common.record));
    let is_stdout = path.as_os_str() == "-";
    if !is_stdout && !args.common.limits.json && is_same(&path, &args.common.record) {
        return Err(usage(format!(
            "the page would replace the record {}\n  hint:  name another file with -o",
            path.display()
        )));
    }
    let report = html::Report::build(&record, &filter, events)?;
    if args.common.limits.json {
        writeln!(out, "{}", report.to_json())?;
        return Ok(());
    }
    let page = report.to_html();
    if is_stdout {
        out.write_all(page.as_bytes())?;
        return Ok(());
    }
    std::fs::write(&path, &page).map_err(|err| files::cannot_create(&path, &err))?;
    let size = bytes(page.len() as u64);
    writeln!(std::io::stderr(), "wrote {} ({size})", path.display())?;
    Ok(())
}

fn open_log(path: &Path) -> anyhow::Result<BufReader<File>> {
    let file = File::open(path).map_err(|err| {
        crate::exit::with(
            crate::exit::of_io(&err),
            format!(
                "cannot open the event log {0}\n  tried: open {0}: {err}\n  hint:  acting commands \
                 write one with --events FILE",
                path.display()
            ),
        )
    })?;
    Ok(BufReader::new(file))
}

/// `isotherm.html` for `isotherm.data`, in the present directory if the record has no name.
fn named_after(record: &Path) -> PathBuf {
    if record.as_os_str() == "-" { "isotherm.html".into() } else { record.with_extension("html") }
}

fn is_same(a: &Path, b: &Path) -> bool {
    match (a.canonicalize(), b.canonicalize()) {
        (Ok(a), Ok(b)) => a == b,
        _ => a == b,
    }
}
