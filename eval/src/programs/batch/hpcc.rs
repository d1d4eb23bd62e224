//! The HPC Challenge: STREAM, `RandomAccess`, FFT, DGEMM, PTRANS and HPL, one after the other.
//!
//! Each test has memory of its own size, and returns it: phases. One process, without `mpirun`.
//! The size of all follows from that of the matrix of HPL.

use std::fs;
use std::path::Path;

use anyhow::Context;

use super::Batch;
use crate::programs::installed::not_installed;
use crate::programs::{Place, Program, Running, Size};

/// Rows of the matrix for a work of one second, about.
const ROWS: f64 = 1000.0;
/// What its `hpccoutf.txt` says of itself.
const OUTPUT: &str = "hpccoutf.txt";

/// The program.
#[derive(Debug)]
pub(crate) struct Hpcc;

impl Program for Hpcc {
    fn name(&self) -> &'static str {
        "hpcc"
    }

    fn about(&self) -> &'static str {
        "HPC Challenge, one process: STREAM, RandomAccess, FFT, DGEMM, PTRANS, HPL in phases"
    }

    fn missing(&self) -> Option<String> {
        not_installed(&["hpcc"], "hpcc libopenblas0-serial").or_else(no_blas)
    }

    fn begin(&self, place: &Place, size: Size) -> anyhow::Result<Box<dyn Running>> {
        place.write("hpccinf.txt", &input(rows(size.seconds)))?;
        Batch::start(place, &["hpcc"], |dir| {
            let path = dir.join(OUTPUT);
            let text = fs::read_to_string(&path);
            check(&text.with_context(|| format!("read {}", path.display()))?)
        })
    }
}

/// The reference's BLAS is ten times slower than what anybody uses, and HPL would be all there is.
fn no_blas() -> Option<String> {
    let dirs = fs::read_dir("/usr/lib").into_iter().flatten().flatten();
    let found = dirs.filter_map(|d| d.path().join("libblas.so.3").canonicalize().ok());
    let fast = |p: &Path| p.to_string_lossy().contains("openblas");
    let lost = !found.into_iter().any(|p| fast(&p));
    lost.then(|| "no OpenBLAS as libblas.so.3: apt-get install libopenblas0-serial".into())
}

/// Most of the time goes with the memory (`RandomAccess`), little with the third power (HPL).
fn rows(seconds: f64) -> u64 {
    super::work(seconds.sqrt(), ROWS)
}

/// HPL's own form. Line 32 separates it from that of PTRANS.
fn input(rows: u64) -> String {
    format!(
        "HPLinpack benchmark input file
Isotherm
HPL.out  output file
8        device out (a file)
1        number of problem sizes
{rows}   sizes
1        number of block sizes
80       block sizes
0        process mapping by row
1        number of process grids
1        P
1        Q
16.0     threshold of the residual
1        number of panel factorizations
2        right
1        number of recursive stopping criteria
4        columns
1        number of panels in recursion
2        panels
1        number of recursive panel factorizations
1        Crout
1        number of broadcasts
1        1rM
1        number of lookahead depths
1        depth
2        swap: mix
64       swapping threshold
0        L1 transposed
0        U transposed
1        equilibration
8        alignment in doubles
---
0        number of additional sizes of PTRANS
1200     sizes
0        number of additional block sizes of PTRANS
40       block sizes
"
    )
}

/// Every test compares its own results.
fn check(output: &str) -> anyhow::Result<()> {
    let is = |line: &str| output.lines().any(|l| l.trim() == line);
    anyhow::ensure!(is("Success=1"), "hpcc does not say that it succeeded");
    for name in ["MPIRandomAccess_Errors", "MPIRandomAccess_LCG_Errors", "PTRANS_residual"] {
        anyhow::ensure!(is(&format!("{name}=0")), "hpcc: {name} is not 0");
    }
    let residual = output.lines().find(|l| l.starts_with("||Ax-b||"));
    let residual = residual.context("hpcc says nothing of HPL's residual")?;
    anyhow::ensure!(residual.ends_with("PASSED"), "hpcc: HPL: {residual}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "||Ax-b||_oo/(eps*(||A||_oo*||x||_oo+||b||_oo)*N)= 0.0048 ...... PASSED\n\
        Success=1\nMPIRandomAccess_Errors=0\nMPIRandomAccess_LCG_Errors=0\nPTRANS_residual=0\n";

    #[test]
    fn results_are_judged() {
        check(GOOD).unwrap();
        for (from, to) in [("PASSED", "FAILED"), ("=1\n", "=0\n"), ("LCG_Errors=0", "LCG_Errors=7")]
        {
            assert!(check(&GOOD.replace(from, to)).is_err(), "{to}");
        }
        assert!(check("").is_err());
    }

    #[test]
    fn the_separator_is_line_32() {
        assert_eq!(input(1000).lines().nth(31), Some("---"));
        assert_eq!(rows(16.0), 4000);
    }
}
