//! The core and the reference's algorithm in turns over the same worlds.

use std::error::Error;
use std::io::{self, BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Instant;

use isotherm_core::{Attrs, Method};

use super::steady::Steady;

/// The other side.
const SOURCE: &str = include_str!("reference.c");
/// Ticks per window with the default attributes; `reference.c` has the same.
const WINDOW: usize = 20;
/// Windows per round; `reference.c` has the same.
const ROUND: usize = 25;

/// Median ns of the ticks of a round: those within a window, and those that end one.
pub(crate) type Cost = (f64, f64);

/// What was measured in one world.
#[derive(Debug)]
pub(crate) struct Cell {
    /// `static` or `churning`.
    pub(crate) world: &'static str,
    /// At the end of a window, after merging.
    pub(crate) nr_regions: usize,
    /// Per pair of rounds: ours, the reference's.
    pub(crate) pairs: Vec<(Cost, Cost)>,
}

/// The compiled reference; its file goes with it.
#[derive(Debug)]
pub(crate) struct Program(PathBuf);

impl Drop for Program {
    fn drop(&mut self) {
        // A file that stays in the directory for temporary files does no harm.
        std::fs::remove_file(&self.0).ok();
    }
}

/// Compiles the reference with `cc -O2`. `None` if there is no C compiler.
///
/// # Errors
///
/// If the compiler cannot be run or refuses the source.
pub(crate) fn compile() -> io::Result<Option<Program>> {
    let path = std::env::temp_dir().join(format!("isotherm-reference-{}", std::process::id()));
    let mut compiler = Command::new("cc");
    compiler.args(["-O2", "-std=c11", "-D_GNU_SOURCE", "-x", "c", "-", "-o"]).arg(&path);
    let mut child = match compiler.stdin(Stdio::piped()).spawn() {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        spawned => spawned?,
    };
    let program = Program(path);
    if let Some(mut source) = child.stdin.take() {
        source.write_all(SOURCE.as_bytes())?;
    }
    let status = child.wait()?;
    if status.success() { Ok(Some(program)) } else { Err(io::Error::other("cc failed")) }
}

/// Runs both sides in turns, so many rounds each, over static and churning worlds of 100, 1000 and
/// 10,000 regions.
///
/// # Errors
///
/// If the reference cannot be run or says something else than costs.
pub(crate) fn measure(program: &Program, nr_pairs: usize) -> Result<Vec<Cell>, Box<dyn Error>> {
    let mut cells = Vec::new();
    for world in ["static", "churning"] {
        for nr_regions in [100, 1000, 10_000] {
            let mut reference = Reference::start(program, world, nr_regions)?;
            let mut ours = start(world, nr_regions);
            let mut pairs = Vec::new();
            // The first round of each warms up.
            for pair in 0..=nr_pairs {
                let (theirs, own) = if pair % 2 == 0 {
                    let theirs = reference.round()?;
                    (theirs, round(&mut ours))
                } else {
                    let own = round(&mut ours);
                    (reference.round()?, own)
                };
                pairs.push((own, theirs));
            }
            reference.stop()?;
            pairs.remove(0);
            cells.push(Cell { world, nr_regions: ours.nr_regions(), pairs });
        }
    }
    Ok(cells)
}

fn start(world: &str, nr_regions: u64) -> Steady {
    let attrs = Attrs {
        method: Method::Resample,
        max_nr_regions: nr_regions,
        update_us: 3_600_000_000,
        ..Attrs::default()
    };
    Steady::new(attrs, world == "static", Vec::new())
}

fn round(steady: &mut Steady) -> Cost {
    let ns: Vec<f64> = (0..ROUND * WINDOW)
        .map(|_| {
            let before = Instant::now();
            steady.tick();
            before.elapsed().as_secs_f64() * 1e9
        })
        .collect();
    cost(&ns)
}

fn cost(ns: &[f64]) -> Cost {
    let ends = |i: usize| i % WINDOW == WINDOW - 1;
    let of = |end| ns.iter().enumerate().filter(move |(i, _)| ends(*i) == end).map(|(_, ns)| *ns);
    (median(of(false).collect()), median(of(true).collect()))
}

/// The median; NaN of nothing.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// The other side: runs a round whenever it is sent a byte.
struct Reference {
    child: Child,
    rounds: ChildStdin,
    costs: BufReader<ChildStdout>,
}

impl Reference {
    fn start(program: &Program, world: &str, nr: u64) -> Result<Self, Box<dyn Error>> {
        let mut command = Command::new(&program.0);
        command.args([world, &nr.to_string(), &WINDOW.to_string()]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn()?;
        let rounds = child.stdin.take().ok_or("no stdin")?;
        let costs = BufReader::new(child.stdout.take().ok_or("no stdout")?);
        Ok(Self { child, rounds, costs })
    }

    fn round(&mut self) -> Result<Cost, Box<dyn Error>> {
        self.rounds.write_all(b"x")?;
        self.rounds.flush()?;
        let mut line = String::new();
        self.costs.read_line(&mut line)?;
        let ns: Vec<f64> = line.split_whitespace().map(str::parse).collect::<Result<_, _>>()?;
        // The last number in the line keeps the compiler from leaving out what nobody reads.
        Ok(cost(ns.get(..ROUND * WINDOW).ok_or("a round is missing")?))
    }

    fn stop(mut self) -> Result<(), Box<dyn Error>> {
        drop(self.rounds);
        self.child.wait()?;
        Ok(())
    }
}
