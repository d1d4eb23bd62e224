//! Watches memory with an operations set of its own: a cache of 4096 blocks that keeps a "used" bit
//! for each. Run it with `cargo run --release --example own_set`. It needs no privilege.
use isotherm::operations::{AddrRange, Check, Operations, PageState, TargetId, UpdateError};
use isotherm::{Bytes, Monitor};

/// A "used" bit per block of 4 KiB. In a real program, the code that uses a block sets its bit. In
/// this example the first hundred blocks are always in use.
struct Cache {
    used: Vec<bool>,
}

impl Cache {
    fn look(&mut self, batch: &mut [Check], clear: bool) {
        self.used[..100].fill(true);
        for check in batch {
            let block = usize::try_from(check.addr / 4096).unwrap_or(usize::MAX);
            let Some(used) = self.used.get_mut(block) else { continue };
            let clears = clear && std::mem::take(used);
            check.state = match (*used, clears) {
                (_, true) => PageState::Cleared,
                (true, false) => PageState::Young,
                (false, false) => PageState::Old,
            };
        }
    }
}

impl Operations for Cache {
    fn prepare(&mut self, batch: &mut [Check]) {
        self.look(batch, true);
    }

    fn check(&mut self, batch: &mut [Check]) {
        self.look(batch, false);
    }

    fn update(&mut self, _: TargetId, maps: &mut Vec<AddrRange>) -> Result<(), UpdateError> {
        maps.push(AddrRange::new(0, 4096 * self.used.len() as u64));
        Ok(())
    }

    fn target_valid(&mut self, _: TargetId) -> bool {
        true
    }
}

#[expect(clippy::print_stdout, reason = "printing is what it is for")]
fn main() -> Result<(), isotherm::Error> {
    let builder = Monitor::builder().operations(Cache { used: vec![false; 4096] });
    let mut monitor = builder.target(TargetId(0), "cache").clears_per_second(2000).build()?;
    while let Some(snapshot) = monitor.next_snapshot()? {
        println!("{} of {} in use", snapshot.working_set(), Bytes::kib(4 * 4096));
        if snapshot.number() == 20 {
            break;
        }
    }
    Ok(())
}
