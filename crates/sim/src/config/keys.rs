//! The `key=value` fields of a pattern, of which some only make sense together.

use super::field::Field;
use super::{Drift, ParseError, Pattern, Pieces, Rate, Zipf};

/// More places or steps than this would make the truth of one pattern too large: each is counted by
/// itself (see `pattern::Cells`).
const MAX_CELLS: u64 = 4096;
/// At most so many pieces or blocks. They are counted in sets, so they cost only memory.
const MAX_PIECES: u64 = 1 << 20;
/// At most so many pieces in all sets that take turns.
const MAX_IN_SETS: u64 = 1 << 23;

/// The fields of one pattern that are checked together.
#[derive(Debug, Default)]
pub(super) struct Keys {
    exponent: Option<f64>,
    block: Option<u64>,
    scatter: Option<bool>,
    pieces: Option<u64>,
    share: Option<f64>,
    step: Option<u64>,
    every: Option<u64>,
}

impl Keys {
    /// Reads one field. What stands by itself goes into `p` at once.
    pub(super) fn read(&mut self, p: &mut Pattern, field: Field<'_>) -> Result<(), ParseError> {
        let keys = "the line's end, or one of rate=, hz=, offset=, length=, zipf=, block=, \
                    scatter=, pieces=, share=, sparse=, step=, every=, process=";
        let Some((key, v)) = field.key() else { return Err(field.wrong(keys)) };
        match key {
            "rate" => p.rate = Some(Rate::Total(v.positive("accesses per second (above 0)")?)),
            "hz" => p.rate = Some(Rate::PerPage(v.positive("accesses per second and page")?)),
            "offset" => p.offset = v.pages("an offset")?,
            "length" => p.length = Some(v.pages("a length")?),
            "zipf" => self.exponent = Some(v.positive("an exponent above 0")?),
            "block" => self.block = Some(v.pages("a block")?),
            "scatter" => self.scatter = Some(v.yes_no("scatter")?),
            "pieces" => self.pieces = Some(v.pages("a size of pieces")?),
            "share" => self.share = Some(v.percent("a share in percent")?),
            "sparse" => p.sparse = Some(v.pages("a distance")?),
            "step" => self.step = Some(v.pages("a step")?),
            "every" => self.every = Some(v.millis()?),
            "process" => p.process = Some(v.number("a process number")?),
            _ => return Err(field.wrong(keys)),
        }
        Ok(())
    }

    /// Checks all fields of the pattern in `line`, whose region has `size` bytes mapped then, and
    /// completes `p`.
    pub(super) fn finish(
        self,
        processes: u32,
        size: u64,
        line: Field<'_>,
        p: &mut Pattern,
    ) -> Result<(), ParseError> {
        if p.offset >= size || p.length.is_some_and(|l| l == 0 || l > size - p.offset) {
            return Err(
                line.wrong("an offset and a length inside what is mapped of the region then")
            );
        }
        let length = p.length.unwrap_or(size - p.offset);
        if p.process.is_some_and(|n| n >= processes) {
            return Err(line.wrong("a process number below @processes (set before the regions)"));
        }
        let has_pieces = self.pieces.is_some() || self.share.is_some();
        let kinds = [self.exponent.is_some(), has_pieces, p.sparse.is_some(), self.step.is_some()];
        if kinds.iter().filter(|k| **k).count() > 1 {
            return Err(line.wrong("only one of zipf=, pieces=, sparse= and step="));
        }
        if kinds != [false; 4] && !p.random {
            return Err(line.wrong("randomness 1 with zipf=, pieces=, sparse= and step="));
        }
        if p.sparse.is_some_and(|s| s == 0 || length.div_ceil(s) > MAX_CELLS) {
            return Err(line.wrong("a distance that leaves at most 4096 places"));
        }
        p.zipf = self.zipf(length, line)?;
        p.pieces = self.pieces(length, line)?;
        p.drift = self.drift([p.offset, length, size], line)?;
        Ok(())
    }

    fn zipf(&self, length: u64, line: Field<'_>) -> Result<Option<Zipf>, ParseError> {
        let Some(exponent) = self.exponent else {
            if self.block.is_some() || self.scatter.is_some() {
                return Err(line.wrong("zipf= with block= and scatter="));
            }
            return Ok(None);
        };
        let block = self.block.unwrap_or_else(|| default_block(length));
        if block == 0 || length.div_ceil(block) > MAX_PIECES {
            return Err(line.wrong("a block that divides the part into at most 1048576 blocks"));
        }
        // Blocks that are counted together have one size.
        if length.div_ceil(block) > MAX_CELLS && !length.is_multiple_of(block) {
            return Err(line.wrong("a part of whole blocks, if there are more than 4096"));
        }
        Ok(Some(Zipf { exponent, block, scatter: self.scatter.unwrap_or(false) }))
    }

    fn pieces(&self, length: u64, line: Field<'_>) -> Result<Option<Pieces>, ParseError> {
        let (size, share) = match (self.pieces, self.share) {
            (None, None) => return Ok(None),
            (Some(size), Some(share)) => (size, share),
            _ => return Err(line.wrong("pieces= and share= together")),
        };
        if size == 0 || !length.is_multiple_of(size) || length / size > MAX_PIECES {
            return Err(line.wrong("a part of whole pieces, at most 1048576"));
        }
        let pieces = Pieces { size, share, every_ms: self.every };
        let in_sets = pieces.touched_of(length / size) * Pieces::MAX_CHOICES;
        if self.every.is_some() && in_sets > MAX_IN_SETS {
            return Err(line.wrong("at most 131072 touched pieces with every="));
        }
        Ok(Some(pieces))
    }

    /// `bytes` are the pattern's offset and length, and the size of its region.
    fn drift(&self, bytes: [u64; 3], line: Field<'_>) -> Result<Option<Drift>, ParseError> {
        let (step, every_ms) = match (self.step, self.every) {
            (None, None) => return Ok(None),
            (None, Some(_)) if self.pieces.is_some() => return Ok(None),
            (Some(step), Some(every_ms)) => (step, every_ms),
            _ => return Err(line.wrong("step= and every= together, or pieces= with every=")),
        };
        if step == 0 || bytes[2].div_ceil(step) > MAX_CELLS {
            return Err(line.wrong("a step of which the region holds 1 to 4096"));
        }
        if bytes.iter().any(|x| !x.is_multiple_of(step)) {
            return Err(
                line.wrong("an offset, a length and a region size that are multiples of step=")
            );
        }
        Ok(Some(Drift { step, every_ms }))
    }
}

/// 256 blocks of whole pages.
fn default_block(length: u64) -> u64 {
    (length / 256).next_multiple_of(4096).max(4096)
}
