//! A workload's regions, at addresses that depend only on its config.

use anyhow::Context;
use isotherm::raw::core::AddrRange;
use isotherm::raw::host::proc::Proc;
use isotherm::raw::host::user_end;
use isotherm::raw::sim::config::{Config, Thp};
use isotherm::raw::sys::workload::{Arena, HugePages};

const HUGE: u64 = 2 << 20;

/// One region.
#[derive(Debug)]
pub(super) struct Memory {
    pub(super) arena: Arena,
    thp: Thp,
    populate: bool,
}

impl Memory {
    /// Maps all regions of `config` as they are at the start, with gaps between them.
    pub(super) fn map(config: &Config) -> anyhow::Result<Vec<Self>> {
        let mut all = Vec::new();
        for (base, region) in config.bases().into_iter().zip(&config.regions) {
            let huge = match region.thp {
                Thp::On => HugePages::Yes,
                Thp::Off => HugePages::No,
                Thp::Default => HugePages::AsSet,
            };
            let arena = Arena::new(base, region.size, huge);
            let mut memory = Self { arena, thp: region.thp, populate: region.populate };
            memory.resize(region.mapped).with_context(|| format!("region `{}`", region.name))?;
            if let Some(path) = &region.data {
                let data = std::fs::read(path)
                    .with_context(|| format!("region `{}`: data file {path}", region.name))?;
                memory.arena.fill(0, &data);
            }
            all.push(memory);
        }
        Ok(all)
    }

    /// Maps or unmaps memory at the region's end, and populates what is new.
    pub(super) fn resize(&mut self, size: u64) -> anyhow::Result<()> {
        let before = self.arena.range().len();
        let range = AddrRange::new(self.arena.range().start, self.arena.range().start + size);
        self.arena.resize(size).with_context(|| {
            let mib = size >> 20;
            let tried = format!("mmap {:#x}-{:#x} ({mib} MiB)", range.start, range.end);
            let end = user_end(&Proc::default());
            if range.end <= end {
                return tried;
            }
            format!(
                "{tried}: this machine's page tables end at {end:#x}\n  hint:  place the region \
                 lower, or use a machine with page tables of five levels (flag la57)"
            )
        })?;
        if self.populate {
            self.arena.populate(before);
        }
        Ok(())
    }

    /// Size of the leaves that back it: 4 KiB, 2 MiB for all its aligned parts, or 0 if mixed.
    pub(super) fn leaf(&self) -> anyhow::Result<u64> {
        if self.thp == Thp::Off {
            return Ok(4096);
        }
        let huge = self.arena.huge_bytes().context("read /proc/self/smaps")?;
        let aligned = self.arena.range().len() / HUGE * HUGE;
        Ok(if huge == 0 {
            4096
        } else if huge == aligned {
            HUGE
        } else {
            0
        })
    }
}
