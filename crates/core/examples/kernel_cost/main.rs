//! Compares what the core costs with what the reference's algorithm costs in the reference's data
//! structures: a linked list of regions of 64 bytes, in C (`reference.c` beside this file).
//!
//! `cargo run --release -p isotherm-core --example kernel_cost` compiles that file with `cc -O2`,
//! runs both in turns over the same worlds, and prints the medians of the paired ratios, ours to
//! the reference's: of a tick that does not end a window, and of one that does (merge, age,
//! snapshot, reset, split). Below 1 the core is cheaper. The number of regions is that of a
//! snapshot, after merging. Our snapshot has an interval for every count; the reference's is a
//! copy.
#![expect(clippy::print_stdout, reason = "a measurement for people to read")]

use std::error::Error;

use versus::{Cell, Cost, median};

#[path = "../../tests/steady/mod.rs"]
mod steady;
mod versus;

const PAIRS: usize = 24;

fn main() -> Result<(), Box<dyn Error>> {
    let program = versus::compile()?.ok_or("there is no C compiler")?;
    println!(
        "            regions   tick: ns  reference  ratio   window's end: ns  reference  ratio"
    );
    versus::measure(&program, PAIRS)?.iter().for_each(print_row);
    Ok(())
}

fn print_row(cell: &Cell) {
    let of = |f: fn(&(Cost, Cost)) -> f64| median(cell.pairs.iter().map(f).collect());
    println!(
        "{:<10}  {:>7}   {:>8.0}  {:>9.0}  {:>5.2}   {:>16.0}  {:>9.0}  {:>5.2}",
        cell.world,
        cell.nr_regions,
        of(|(own, _)| own.0),
        of(|(_, theirs)| theirs.0),
        of(|(own, theirs)| own.0 / theirs.0),
        of(|(own, _)| own.1),
        of(|(_, theirs)| theirs.1),
        of(|(own, theirs)| own.1 / theirs.1),
    );
}
