//! zstd with a long window: what was seen long ago is kept, and looked at when it comes again.
//!
//! The input is a stream of blocks, of which a part repeats earlier ones, as backups do.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::Command;

use anyhow::Context;

use super::{Batch, work};
use crate::programs::clients::value;
use crate::programs::installed::{not_installed, output};
use crate::programs::{Place, Program, Running, Size};

/// Blocks per second that zstd takes for them, about, at its level 9.
const PER_SECOND: f64 = 1000.0;
const BLOCK: usize = 64 << 10;

/// The program.
#[derive(Debug)]
pub(crate) struct Zstd;

impl Program for Zstd {
    fn name(&self) -> &'static str {
        "zstd"
    }

    fn about(&self) -> &'static str {
        "zstd -9 with a window of 512 MiB over a generated stream that repeats itself"
    }

    fn missing(&self) -> Option<String> {
        not_installed(&["zstd"], "zstd").or_else(|| not_installed(&["cmp"], "diffutils"))
    }

    fn begin(&self, place: &Place, size: Size) -> anyhow::Result<Box<dyn Running>> {
        let path = place.file("stream");
        let file = File::create(&path).with_context(|| format!("create {}", path.display()))?;
        let mut file = BufWriter::with_capacity(1 << 20, file);
        stream(work(size.seconds, PER_SECOND), &mut file)
            .and_then(|()| file.flush())
            .with_context(|| format!("write {}", path.display()))?;
        let window = if size.quick { "--long=26" } else { "--long=29" };
        Batch::start(place, &["zstd", "-q", "-9", "-T1", window, "stream", "-o", "packed"], check)
    }
}

/// Unpacks it again.
fn check(dir: &Path) -> anyhow::Result<()> {
    let mut command = Command::new("sh");
    command.args(["-c", "zstd -q -d -c --long=29 packed | cmp - stream"]).current_dir(dir);
    output(&mut command).map(drop).context("compare what is unpacked")
}

/// `n` blocks: one in four repeats an earlier one, anywhere before it.
fn stream(n: u64, file: &mut impl Write) -> std::io::Result<()> {
    let mut random = fastrand::Rng::with_seed(7);
    let mut block = Vec::with_capacity(BLOCK);
    for i in 0..n {
        let nr = if random.u8(0..4) == 0 { random.u64(0..=i) } else { i };
        block.clear();
        // Numbers of blocks are small.
        value::write(u32::try_from(nr).unwrap_or(0), BLOCK, &mut block);
        file.write_all(&block)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stream_is_the_same_each_time_and_repeats_itself() {
        let (mut one, mut again) = (Vec::new(), Vec::new());
        stream(64, &mut one).unwrap();
        stream(64, &mut again).unwrap();
        assert_eq!(one.len(), 64 * BLOCK);
        assert!(one == again);
        let blocks: std::collections::BTreeSet<_> = one.chunks(BLOCK).collect();
        assert!((40..60).contains(&blocks.len()), "{}", blocks.len());
    }
}
