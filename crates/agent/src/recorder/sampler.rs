//! What a record of physical memory has beside the regions: a sample of page frames, with what each
//! holds, whose it is, and whether it was touched.
//!
//! The frames are drawn once and looked at again and again. With the set `idle` each is marked
//! once. While the mark stays, the frame was not touched, and its idle time grows; a frame that was
//! touched is marked again. The context marks its own pages in the same bitmap: where one of them
//! is in the sample, too (some in ten thousand), either may miss a touch.

use crate::monitor::Monitor;
use isotherm_core::addr::PAGE_SIZE;
use isotherm_core::{Check, Operations, PageState, Rng, TargetId, Time};
use isotherm_host::proc::Proc;
use isotherm_host::ram::Ram;
use isotherm_ops::support::SetName;
use isotherm_ops::targets::{Memory, Target};
use isotherm_pages::paddr::{FrameKind, FrameUse, Uses, rmap, sample};
use isotherm_record::{Frame, Frames, NodeRanges, Owner, Touch};
use isotherm_sys::clock;

/// Frames of the sample: a share of a tenth of memory is known to 0.8 percentage points.
const FRAMES: u64 = 4096;
/// The least time between two looks, in ns.
const EVERY_NS: u64 = 5_000_000_000;
/// Looks take at most one part in this many of our time.
const PATIENCE: u64 = 200;

/// Looks at a sample of frames.
#[derive(Debug)]
pub(super) struct Sampler {
    target: TargetId,
    uses: Uses,
    bytes: u64,
    frames: Vec<u64>,
    /// Since when each frame's mark is there; none: it was not marked.
    marked: Vec<Option<Time>>,
    next: Time,
}

impl Sampler {
    /// Draws the sample; also says where RAM is. The error is a text for people.
    pub(super) fn start(
        target: &Target,
        memory: &Memory,
    ) -> Result<(Self, isotherm_record::Ram), String> {
        let proc = Proc::default();
        let ram = Ram::read(&proc).map_err(|e| e.to_string())?;
        let ranges = memory.ranges_in(&ram).map_err(|e| e.to_string())?;
        let now = clock::now();
        let frames = sample(&ranges, FRAMES, &mut Rng::seeded(now.as_ns()));
        let sampler = Self {
            target: target.id,
            uses: Uses::open(proc).map_err(|e| e.to_string())?,
            bytes: ranges.iter().map(isotherm_core::AddrRange::len).sum(),
            marked: vec![None; frames.len()],
            frames,
            next: Time::default(),
        };
        let nodes = ram.nodes.iter().map(|n| NodeRanges {
            node: n.node,
            ranges: n.ranges.iter().map(|r| (r.start, r.end)).collect(),
        });
        Ok((sampler, isotherm_record::Ram { t_ns: now.as_ns(), nodes: nodes.collect() }))
    }

    /// Looks, if it is time or `last` says that there will be no other time. The first look only
    /// marks, so nothing comes of it.
    pub(super) fn look(
        &mut self,
        monitor: &mut Monitor,
        now: Time,
        last: bool,
    ) -> std::io::Result<Option<Frames>> {
        if now < self.next && !last {
            return Ok(None);
        }
        // `kdamond` answers for regions, not for single frames.
        let sees_frames = monitor.ops().name() == SetName::Idle.name();
        let first = self.next == Time::default();
        let touches = if sees_frames { self.touches(monitor.set(), now) } else { Vec::new() };
        if first && sees_frames {
            self.next = now + EVERY_NS;
            return Ok(None);
        }
        let (uses, found) = self.uses.look(&self.frames)?;
        let took = clock::now().since(now);
        self.next = now + EVERY_NS.max(took.saturating_mul(PATIENCE));
        Ok(Some(self.event(now, &touches, &uses, &found)))
    }

    /// Tells for each frame whether it was touched since it was marked, and marks those that were.
    fn touches(&mut self, set: &mut impl Operations, now: Time) -> Vec<Touch> {
        let check = |(tag, frame): (u32, &u64)| Check::new(self.target, frame * PAGE_SIZE, tag);
        let mut batch: Vec<Check> = (0..).zip(&self.frames).map(check).collect();
        set.check(&mut batch);
        let judge = |(check, marked): (&Check, &Option<Time>)| match (check.state, marked) {
            (PageState::Old, Some(since)) => Touch::Idle(now.since(*since) / 1_000_000),
            (PageState::Young, Some(_)) => Touch::Touched,
            _ => Touch::Unknown,
        };
        let touches: Vec<Touch> = batch.iter().zip(&self.marked).map(judge).collect();
        batch.retain(|check| !matches!(touches.get(check.tag as usize), Some(Touch::Idle(_))));
        set.prepare(&mut batch);
        let marked = clock::now();
        for check in &batch {
            let is_marked = matches!(check.state, PageState::Old | PageState::Cleared);
            self.marked[check.tag as usize] = is_marked.then_some(marked);
        }
        touches
    }

    fn event(
        &mut self,
        now: Time,
        touches: &[Touch],
        uses: &[FrameUse],
        found: &rmap::Found,
    ) -> Frames {
        let mut inodes: Vec<u64> = uses.iter().filter_map(|u| u.cgroup).collect();
        inodes.sort_unstable();
        inodes.dedup();
        let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let frame = |(nr, used): (usize, &FrameUse)| {
            let mut owners: Vec<u32> = found.places[nr].iter().map(|p| p.process).collect();
            owners.dedup();
            Frame {
                addr: used.frame * PAGE_SIZE,
                kind: number(FrameKind::ALL.iter().position(|k| *k == used.kind).unwrap_or(0)),
                cgroup: used.cgroup.and_then(|ino| inodes.binary_search(&ino).ok()).map(number),
                owners,
                touch: touches.get(nr).copied().unwrap_or_default(),
            }
        };
        Frames {
            t_ns: now.as_ns(),
            target: self.target.0,
            bytes: self.bytes,
            unread: found.unread,
            kinds: FrameKind::ALL.iter().map(|k| k.name().to_owned()).collect(),
            frames: uses.iter().enumerate().map(frame).collect(),
            cgroups: inodes.iter().map(|ino| self.uses.cgroup_name(*ino)).collect(),
            owners: found
                .processes
                .iter()
                .map(|p| Owner { pid: p.pid, name: p.name.clone() })
                .collect(),
        }
    }
}
