//! One round over the bitmap of idle page tracking: when each piece is marked and looked at, and
//! how much of it.

pub(crate) mod known;
#[cfg(test)]
pub(crate) mod model;
pub(crate) mod pace;
pub(crate) mod piece;
pub(crate) mod scan;
pub(crate) mod scanner;
