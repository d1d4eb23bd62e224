//! Marks of idle page tracking. They make pages old that several processes map, which `MADV_COLD`
//! cannot do.
//!
//! When the first such page comes, the bitmap is opened and the machine's lock for it is taken. A
//! set that meets no such page needs no lock. If another program holds the lock, the set tries
//! again later.

use std::io;

use isotherm_core::{PageState, Time};
use isotherm_pages::idle::{Ask, Folios, Lock, open};
use isotherm_sys::clock::now;

use super::Marker;

/// Time until the next try after a refusal, in ns.
const RETRY_NS: u64 = 10_000_000_000;

/// The bitmap as a [`Marker`].
#[derive(Debug, Default)]
pub struct SharedMarks {
    opened: Option<(Folios, Lock)>,
    next: Time,
    asks: Vec<Ask>,
}

impl Marker for SharedMarks {
    fn mark(&mut self, frames: &[(u64, u32)], done: &mut dyn FnMut(u64, u32)) -> io::Result<()> {
        let at = now();
        if self.opened.is_none() {
            if at < self.next {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            self.next = at + RETRY_NS;
            self.opened = Some(open().map_err(io::Error::other)?);
        }
        let Some((folios, _)) = &mut self.opened else { return Ok(()) };
        self.asks.clear();
        // The page was accessed, else it would not be here.
        let ask = |(frame, nr): &(u64, u32)| Ask { accessed: Some(true), ..Ask::new(*frame, *nr) };
        self.asks.extend(frames.iter().map(ask));
        folios.mark(&mut self.asks, at)?;
        for ask in self.asks.iter().filter(|ask| ask.state == PageState::Cleared) {
            done(ask.frame, ask.nr);
        }
        Ok(())
    }
}
