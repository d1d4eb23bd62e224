//! POV-Ray: a scene of several hundred thousand spheres, of which a picture shows a part.

use std::collections::BTreeSet;
use std::fs;

use anyhow::Context;

use super::{Batch, work};
use crate::programs::installed::not_installed;
use crate::programs::{Place, Program, Running, Size};

const SCENE: &str = include_str!("scene.pov");
/// About 1.1 kB each.
const SPHERES: u64 = 400_000;
/// Pixels per second that a picture takes for them, about, with the scene's preparation.
const PER_SECOND: f64 = 30_000.0;

/// The program.
#[derive(Debug)]
pub(crate) struct Povray;

impl Program for Povray {
    fn name(&self) -> &'static str {
        "povray"
    }

    fn about(&self) -> &'static str {
        "POV-Ray, two threads: a scene of 400,000 spheres, 450 MiB, is read and a picture made"
    }

    fn missing(&self) -> Option<String> {
        not_installed(&["povray"], "povray")
    }

    fn begin(&self, place: &Place, size: Size) -> anyhow::Result<Box<dyn Running>> {
        place.write("scene.pov", SCENE)?;
        let spheres = format!("Declare=Spheres={}", size.scaled(SPHERES));
        // Four to three.
        let unit = work((size.seconds * PER_SECOND / 12.0).sqrt(), 1.0);
        let (width, height) = (format!("+W{}", 4 * unit), format!("+H{}", 3 * unit));
        let args = [
            "povray",
            "+Iscene.pov",
            "+Opicture.ppm",
            "+FP8",
            "-D",
            "-GA",
            "+WT2",
            &width,
            &height,
            &spheres,
        ];
        Batch::start(place, &args, |dir| {
            let path = dir.join("picture.ppm");
            check(&fs::read(&path).with_context(|| format!("read {}", path.display()))?)
        })
    }
}

/// The picture is complete, and shows something.
fn check(picture: &[u8]) -> anyhow::Result<()> {
    // With its comments.
    let head = String::from_utf8_lossy(&picture[..picture.len().min(1000)]);
    let lines = head.lines().filter(|l| !l.starts_with('#'));
    let words: Vec<&str> = lines.flat_map(str::split_whitespace).take(4).collect();
    let [kind, width, height, _] = words[..] else { anyhow::bail!("no picture") };
    let pixels: usize = width.parse::<usize>()? * height.parse::<usize>()?;
    let shown = picture.len().checked_sub(3 * pixels).filter(|_| kind == "P6");
    let shown =
        &picture[shown.with_context(|| format!("half a picture of {width} x {height}"))?..];
    let colours: BTreeSet<&[u8]> = shown.chunks(3).collect();
    anyhow::ensure!(colours.len() > 1000, "the picture has only {} colours", colours.len());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_are_judged() {
        let mut picture = b"P6\n# Software: POV-Ray\n# more\n50 40\n255\n".to_vec();
        let head = picture.len();
        picture.extend((0..2000u16).flat_map(|i| [(i >> 8) as u8, (i & 255) as u8, 0]));
        check(&picture).unwrap();
        let black: Vec<u8> = picture.iter().take(head).copied().chain([0; 6000]).collect();
        assert!(check(&black).unwrap_err().to_string().contains("colours"));
        assert!(check(&picture[..5000]).unwrap_err().to_string().contains("half"));
        assert!(check(b"").is_err());
    }
}
