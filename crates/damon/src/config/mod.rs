//! What one kdamond can be told: the types, which kernel knows which of them, and checks before
//! anything is written.

pub mod check;
pub mod entries;
pub(crate) mod feature;
pub mod model;
