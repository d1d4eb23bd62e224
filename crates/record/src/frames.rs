//! A sample of physical page frames. It tells of each frame what it holds, who maps it, and for how
//! long it was not touched.
//!
//! Each frame stands for an equal part of [`Frames::bytes`], so shares of the sample are shares of
//! memory. An event takes some bytes per frame in the file, and each name once.

use serde::{Deserialize, Serialize};

use crate::encoding::varint::{self, Cursor};

/// Ranges of physical addresses that belong to one node, in bytes.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeRanges {
    /// The node.
    pub node: u32,
    /// Its RAM as half-open ranges, ascending.
    pub ranges: Vec<(u64, u64)>,
}

/// Where the machine's RAM is.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Ram {
    /// When that was read.
    pub t_ns: u64,
    /// The nodes.
    pub nodes: Vec<NodeRanges>,
}

/// A process that maps sampled frames.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Owner {
    /// Its pid.
    pub pid: u32,
    /// Its command's name.
    pub name: String,
}

/// Whether a frame was touched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Touch {
    /// Unknown: the set cannot look at single frames, or this frame cannot be tracked.
    #[default]
    Unknown,
    /// Touched since the look before.
    Touched,
    /// Not touched for at least this many ms.
    Idle(u64),
}

/// One sampled frame. Numbers point into the lists of [`Frames`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Frame {
    /// Its physical address.
    pub addr: u64,
    /// What it holds.
    pub kind: u32,
    /// The memory cgroup that it is charged to.
    pub cgroup: Option<u32>,
    /// The processes that map it, each once.
    pub owners: Vec<u32>,
    /// Whether it was touched.
    pub touch: Touch,
}

/// One look at a sample of frames.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Frames {
    /// When the frames were read (`CLOCK_MONOTONIC`, in ns).
    pub t_ns: u64,
    /// Of which target.
    pub target: u32,
    /// Bytes that the sample stands for.
    pub bytes: u64,
    /// Processes whose page tables could not be read. Their memory has no owner in this sample.
    pub unread: u32,
    /// Kinds of memory.
    pub kinds: Vec<String>,
    /// Paths of memory cgroups.
    pub cgroups: Vec<String>,
    /// Processes.
    pub owners: Vec<Owner>,
    /// The frames, by address.
    pub frames: Vec<Frame>,
}

pub(crate) fn encode(out: &mut Vec<u8>, f: &Frames) {
    varint::put(out, f.t_ns);
    varint::put(out, u64::from(f.target));
    varint::put(out, f.bytes);
    varint::put(out, u64::from(f.unread));
    for names in [&f.kinds, &f.cgroups] {
        varint::put(out, names.len() as u64);
        names.iter().for_each(|name| put_text(out, name));
    }
    varint::put(out, f.owners.len() as u64);
    for owner in &f.owners {
        varint::put(out, u64::from(owner.pid));
        put_text(out, &owner.name);
    }
    varint::put(out, f.frames.len() as u64);
    let mut addr = 0;
    for frame in &f.frames {
        varint::put_delta(out, addr, frame.addr);
        addr = frame.addr;
        varint::put(out, u64::from(frame.kind));
        varint::put(out, frame.cgroup.map_or(0, |n| u64::from(n) + 1));
        varint::put(out, frame.owners.len() as u64);
        frame.owners.iter().for_each(|n| varint::put(out, u64::from(*n)));
        varint::put(
            out,
            match frame.touch {
                Touch::Unknown => 0,
                Touch::Touched => 1,
                Touch::Idle(ms) => ms.saturating_add(2),
            },
        );
    }
}

/// Decodes what [`encode`] wrote. Returns `None` if the bytes are not what it writes; the content
/// of `f` is unspecified then.
pub(crate) fn decode(bytes: &[u8], f: &mut Frames) -> Option<()> {
    let mut c = Cursor::new(bytes);
    f.t_ns = c.get()?;
    f.target = c.get_u32()?;
    f.bytes = c.get()?;
    f.unread = c.get_u32()?;
    for names in [&mut f.kinds, &mut f.cgroups] {
        names.clear();
        for _ in 0..c.get_count(c.len())? {
            names.push(get_text(&mut c)?);
        }
    }
    f.owners.clear();
    for _ in 0..c.get_count(c.len())? {
        f.owners.push(Owner { pid: c.get_u32()?, name: get_text(&mut c)? });
    }
    f.frames.clear();
    let mut addr = 0;
    for _ in 0..c.get_count(c.len())? {
        addr = c.get_delta(addr)?;
        let kind = below(c.get_u32()?, f.kinds.len())?;
        let cgroup = match c.get_u32()? {
            0 => None,
            n => Some(below(n - 1, f.cgroups.len())?),
        };
        let nr = c.get_count(c.len())?;
        let mut owners = Vec::with_capacity(nr);
        for _ in 0..nr {
            owners.push(below(c.get_u32()?, f.owners.len())?);
        }
        let touch = match c.get()? {
            0 => Touch::Unknown,
            1 => Touch::Touched,
            ms => Touch::Idle(ms - 2),
        };
        f.frames.push(Frame { addr, kind, cgroup, owners, touch });
    }
    (c.len() == 0).then_some(())
}

/// Reads an index into a list of `len` items.
fn below(n: u32, len: usize) -> Option<u32> {
    (usize::try_from(n).ok()? < len).then_some(n)
}

fn put_text(out: &mut Vec<u8>, s: &str) {
    varint::put(out, s.len() as u64);
    out.extend_from_slice(s.as_bytes());
}

fn get_text(c: &mut Cursor<'_>) -> Option<String> {
    let nr = c.get_count(c.len())?;
    std::str::from_utf8(c.take(nr)?).ok().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn frames() -> impl Strategy<Value = Frames> {
        let touch = prop_oneof![
            Just(Touch::Unknown),
            Just(Touch::Touched),
            (0..u64::MAX - 2).prop_map(Touch::Idle)
        ];
        let frame = (
            any::<u64>(),
            0..3_u32,
            prop::option::of(0..2_u32),
            prop::collection::vec(0..2_u32, 0..4),
            touch,
        )
            .prop_map(|(addr, kind, cgroup, owners, touch)| Frame {
                addr,
                kind,
                cgroup,
                owners,
                touch,
            });
        (any::<(u64, u32, u64, u32)>(), "[a-z /é]{0,9}", prop::collection::vec(frame, 0..30))
            .prop_map(|((t_ns, target, bytes, unread), name, frames)| Frames {
                t_ns,
                target,
                bytes,
                unread,
                kinds: vec!["anon".into(), String::new(), name.clone()],
                cgroups: vec!["/".into(), name.clone()],
                owners: vec![Owner { pid: 1, name }, Owner { pid: u32::MAX, name: "x".into() }],
                frames,
            })
    }

    proptest! {
        #[test]
        #[cfg_attr(miri, ignore = "reads every beginning of every case: minutes under Miri")]
        fn round_trip(f in frames()) {
            let (mut bytes, mut back) = (Vec::new(), Frames::default());
            encode(&mut bytes, &f);
            prop_assert_eq!(decode(&bytes, &mut back), Some(()));
            prop_assert_eq!(&back, &f);
            // Cut anywhere, it is refused.
            for len in 0..bytes.len() {
                prop_assert_eq!(decode(&bytes[..len], &mut back), None);
            }
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            decode(&bytes, &mut Frames::default());
        }
    }

    #[test]
    fn numbers_that_point_nowhere_are_refused() {
        let good = Frames {
            kinds: vec!["anon".into()],
            frames: vec![Frame::default()],
            ..Frames::default()
        };
        for bad in [
            Frame { kind: 1, ..Frame::default() },
            Frame { cgroup: Some(0), ..Frame::default() },
            Frame { owners: vec![0], ..Frame::default() },
        ] {
            let mut bytes = Vec::new();
            encode(&mut bytes, &Frames { frames: vec![bad], ..good.clone() });
            assert_eq!(decode(&bytes, &mut Frames::default()), None);
        }
    }
}
