//! ffmpeg: a generated film to H.264 by x264, whose frames wait in queues for the decision on them.

use std::path::Path;
use std::process::Command;

use anyhow::Context;

use super::{Batch, work};
use crate::programs::installed::not_installed;
use crate::programs::{Place, Program, Running, Size};

/// Pixels per second that x264 takes for them, about, with two threads.
const PER_SECOND: f64 = 40e6;
/// Between the film and what is decoded again, in dB: x264's default quality has more.
const LEAST_PSNR: f64 = 30.0;
const SOURCE: &str = "source.txt";

/// The program.
#[derive(Debug)]
pub(crate) struct Ffmpeg;

impl Program for Ffmpeg {
    fn name(&self) -> &'static str {
        "ffmpeg"
    }

    fn about(&self) -> &'static str {
        "ffmpeg, x264 of a generated film of 2560x1440: 700 MiB of frames in queues"
    }

    fn missing(&self) -> Option<String> {
        not_installed(&["ffmpeg"], "ffmpeg")
    }

    fn begin(&self, place: &Place, size: Size) -> anyhow::Result<Box<dyn Running>> {
        let (width, height) = if size.quick { (960, 540) } else { (2560, 1440) };
        let frames = work(size.seconds, PER_SECOND / f64::from(width * height)).to_string();
        let film = format!("testsrc2=size={width}x{height}:rate=25");
        place.write(SOURCE, &format!("{film},trim=end_frame={frames}"))?;
        let args = [
            "ffmpeg",
            "-nostdin",
            "-v",
            "error",
            "-f",
            "lavfi",
            "-i",
            &film,
            "-frames:v",
            &frames,
            "-pix_fmt",
            "yuv420p",
            "-c:v",
            "libx264",
            "-preset",
            "medium",
            "-threads",
            "2",
            "-y",
            "film.mp4",
        ];
        Batch::start(place, &args, check)
    }
}

/// Decodes the film, and compares it with its source frame by frame.
fn check(dir: &Path) -> anyhow::Result<()> {
    let source = std::fs::read_to_string(dir.join(SOURCE)).context("read what the film was")?;
    let filter = format!("{source},format=yuv420p[a];[0:v][a]psnr");
    let mut command = Command::new("ffmpeg");
    command.args(["-nostdin", "-hide_banner", "-i", "film.mp4", "-lavfi", &filter]);
    command.args(["-f", "null", "-"]).current_dir(dir);
    let done = command.output().context("start ffmpeg to decode the film")?;
    let said = String::from_utf8_lossy(&done.stderr);
    anyhow::ensure!(done.status.success(), "decode the film: {}: {said}", done.status);
    let psnr = psnr(&said).with_context(|| format!("no PSNR in what ffmpeg says: {said}"))?;
    anyhow::ensure!(psnr >= LEAST_PSNR, "the film differs from its source: PSNR {psnr} dB");
    Ok(())
}

/// The average in the last line of the filter `psnr`.
fn psnr(said: &str) -> Option<f64> {
    let (_, rest) = said.rsplit_once(" average:")?;
    rest.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn psnr_is_understood() {
        let line = "[Parsed_psnr_2 @ 0x55] PSNR y:38.27 u:41.02 v:41.30 average:39.05 min:37.1\n";
        assert_eq!(psnr(line), Some(39.05));
        assert_eq!(psnr("PSNR average:inf min:inf"), Some(f64::INFINITY));
        assert_eq!(psnr("no such filter"), None);
    }
}
