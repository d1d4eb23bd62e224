//! On which node a page frame is.
//!
//! The kernel hands memory to nodes in blocks (128 MiB or more), and shows each block as a link
//! below its node: `/sys/devices/system/node/node1/memory24`. So the node of a frame is found in a
//! short list, without asking the kernel about the page.
//!
//! Absent: blocks that two nodes share. Some firmware makes such blocks, and the kernel links them
//! below both nodes. The lower number is taken then, and `move_pages` reports the true node when a
//! page is moved.

use std::path::Path;

use isotherm_host::Roots;

/// Which frames belong to which node.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Places {
    /// First frame, frame behind the last, node; sorted, not overlapping.
    spans: Vec<(u64, u64, u32)>,
}

impl Places {
    /// The places on the machine at `roots`.
    ///
    /// # Errors
    ///
    /// Why they are not known, as text: the kernel has no NUMA nodes, or does not show its memory
    /// blocks (`CONFIG_MEMORY_HOTPLUG`).
    pub fn read(roots: &Roots) -> Result<Self, String> {
        let system = roots.sys.join("devices/system");
        let file = system.join("memory/block_size_bytes");
        let text = std::fs::read_to_string(&file)
            .map_err(|e| format!("cannot read {}: {e} (CONFIG_MEMORY_HOTPLUG)", file.display()))?;
        let frames = u64::from_str_radix(text.trim(), 16).unwrap_or(0) / 4096;
        if frames == 0 {
            return Err(format!("{} says `{}`", file.display(), text.trim()));
        }
        let mut spans = Vec::new();
        for (node, dir) in numbered(&system.join("node"), "node") {
            spans.extend(numbered(&dir, "memory").map(|(block, _)| {
                let block = u64::from(block);
                (block * frames, (block + 1) * frames, node)
            }));
        }
        spans.sort_unstable();
        spans.dedup_by_key(|(start, ..)| *start);
        spans.dedup_by(|next, last| {
            let joins = last.1 == next.0 && last.2 == next.2;
            if joins {
                last.1 = next.1;
            }
            joins
        });
        if spans.is_empty() {
            return Err(format!("no memory blocks below {}", system.join("node").display()));
        }
        Ok(Self { spans })
    }

    /// The node of a frame. `None` if it is no memory of a node (a device's, or the page of zeros
    /// of some kernels).
    #[must_use]
    pub fn node_of(&self, frame: u64) -> Option<u32> {
        let at = self.spans.partition_point(|(_, end, _)| *end <= frame);
        self.spans.get(at).filter(|(start, ..)| *start <= frame).map(|(.., node)| *node)
    }

    /// A test whether a frame is on a node, for many frames. Neighbours in a page table mostly have
    /// frames of the same stretch, so that stretch is tried first.
    pub fn is_on(&self, node: u32) -> impl FnMut(u64) -> bool {
        let mut last = (0, 0, false);
        move |frame| {
            if !(last.0..last.1).contains(&frame) {
                let at = self.spans.partition_point(|(_, end, _)| *end <= frame);
                last = match self.spans.get(at) {
                    Some((start, end, is)) if *start <= frame => (*start, *end, *is == node),
                    _ => (frame, frame + 1, false),
                };
            }
            last.2
        }
    }
}

/// The entries of a directory whose names are `prefix` and a number.
fn numbered(dir: &Path, prefix: &str) -> impl Iterator<Item = (u32, std::path::PathBuf)> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    entries.filter_map(move |entry| {
        let name = entry.file_name();
        let number = name.to_str()?.strip_prefix(prefix)?.parse().ok()?;
        Some((number, entry.path()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_on_the_node_of_its_block() {
        let dir = tempfile::tempdir().unwrap();
        let system = dir.path().join("devices/system");
        let roots = Roots { sys: dir.path().to_owned(), ..Roots::default() };
        assert!(Places::read(&roots).is_err());
        std::fs::create_dir_all(system.join("memory")).unwrap();
        std::fs::write(system.join("memory/block_size_bytes"), "8000000\n").unwrap();
        assert!(Places::read(&roots).is_err(), "no blocks");
        // As a machine with a hole below 4 GiB has them: node 1 is in two parts.
        for (node, blocks) in [(0, &[0, 1, 2][..]), (1, &[3, 32, 33]), (2, &[])] {
            for block in blocks {
                std::fs::create_dir_all(system.join(format!("node/node{node}/memory{block}")))
                    .unwrap();
            }
        }
        let places = Places::read(&roots).unwrap();
        let frames = 0x800_0000 / 4096;
        for (frame, node) in [
            (0, Some(0)),
            (3 * frames - 1, Some(0)),
            (3 * frames, Some(1)),
            (4 * frames, None),
            (32 * frames, Some(1)),
            (34 * frames - 1, Some(1)),
            (34 * frames, None),
        ] {
            assert_eq!(places.node_of(frame), node, "frame {frame:#x}");
            for asked in 0..2 {
                let mut is = places.is_on(asked);
                // After another one, which it remembers.
                is(frames);
                assert_eq!(is(frame), node == Some(asked), "frame {frame:#x}, node {asked}");
            }
        }
        assert_eq!(places.spans.len(), 3, "neighbours are joined: {places:?}");
    }
}
