//! Where worlds come from.

pub(crate) mod joined;
pub(crate) mod live;
mod names;
mod pace;
pub(crate) mod picture;
pub(crate) mod processes;
pub(crate) mod replay;
mod sharing;
pub(crate) mod told;

use std::time::Duration;

use crate::Error;
use crate::model::World;

/// A step in time, in a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Travel {
    /// To this time after the beginning, or to the end if it is later.
    To(Duration),
    /// So many seconds forward, or back.
    By {
        /// Seconds.
        s: i64,
    },
    /// Time goes on.
    Play,
    /// Time stands still.
    Pause,
}

/// What makes worlds.
pub trait Feed {
    /// The next world, if one comes within this time.
    ///
    /// # Errors
    ///
    /// Why none will come any more.
    fn next(&mut self, wait: Duration) -> Result<Option<World>, Error>;

    /// Looks closely at this process from now on, or at none.
    fn open(&mut self, pid: Option<u32>);

    /// Travels in time, where that can be.
    fn travel(&mut self, travel: Travel);
}
