//! `isotherm kernel-module`: reads, switches and tunes the kernel's own DAMON modules.

mod render;

use std::io::Write;
use std::process::ExitCode;

use isotherm::raw::damon::Root;
use isotherm::raw::damon::modules::{Module, StatReport};

use crate::exit;

/// Arguments of `isotherm kernel-module`.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "The modules:
  reclaim   DAMON_RECLAIM (5.16): pages out memory that was idle for long, while memory is short
  lru_sort  DAMON_LRU_SORT (6.0): sorts the LRU lists by recent accesses
  stat      DAMON_STAT (6.17): measures for how long memory is idle, and acts on nothing

Each module is one kernel thread. It runs neither beside another module nor beside any kdamond.
`isotherm reclaim`, `lru-sort` and `stat` do the same in user space, on any kernel.")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// Print JSON.
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Show which modules this kernel has, and which of them runs (the default).
    List,
    /// Show parameters and statistics. For `stat`, also the idle percentiles.
    Show {
        /// `reclaim`, `lru_sort` or `stat`.
        name: Name,
    },
    /// Switch a module on.
    Enable {
        /// `reclaim`, `lru_sort` or `stat`.
        name: Name,
    },
    /// Switch a module off.
    Disable {
        /// `reclaim`, `lru_sort` or `stat`.
        name: Name,
    },
    /// Set parameters, all of them or none. A module that runs uses them at once.
    Set {
        /// `reclaim` or `lru_sort`.
        name: Name,
        /// Parameters, such as `min_age=2m quota_sz=64M wmarks_high=50%`. A time needs a
        /// unit; another number without one is in the kernel's unit, which `show` names.
        #[arg(required = true, value_name = "KEY=VALUE", value_parser = pair)]
        pairs: Vec<(String, String)>,
    },
}

#[derive(Debug, Clone, Copy)]
struct Name(Module);

impl std::str::FromStr for Name {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let module = Module::from_name(text);
        module.map(Self).ok_or_else(|| "the modules are reclaim, lru_sort and stat".into())
    }
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("it is KEY=VALUE")?;
    Ok((key.trim().into(), value.trim().into()))
}

/// Runs the subcommand.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let root = Root::default();
    let mut out = std::io::stdout().lock();
    match args.command.unwrap_or(Command::List) {
        Command::List if args.json => writeln!(out, "{}", render::list_json(&root))?,
        Command::List => write!(out, "{}", render::list(&root))?,
        Command::Show { name: Name(module) } => {
            let values = module.values(&root).map_err(exit::of)?;
            let report = (module == Module::Stat).then(|| StatReport::read(&root));
            let report = report.transpose().map_err(exit::of)?;
            if args.json {
                writeln!(out, "{}", render::show_json(&root, module, &values, report.as_ref()))?;
            } else {
                write!(out, "{}", render::show(&root, module, &values, report.as_ref()))?;
            }
        }
        Command::Enable { name: Name(module) } => {
            module.enable(&root).map_err(exit::of)?;
            writeln!(out, "{}", render::state(&root, module))?;
        }
        Command::Disable { name: Name(module) } => {
            module.disable(&root).map_err(exit::of)?;
            writeln!(out, "{}", render::state(&root, module))?;
        }
        Command::Set { name: Name(module), pairs } => {
            let changed = module.set(&root, &pairs).map_err(exit::of)?;
            for change in &changed {
                writeln!(out, "{}: {} -> {}", change.name, change.from, change.to)?;
            }
            if changed.is_empty() {
                writeln!(out, "nothing to change")?;
            } else if !module.is_enabled(&root) {
                writeln!(
                    out,
                    "{} is off; it will read the parameters when it is enabled",
                    module.title()
                )?;
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}
