//! What one kdamond can be told: types, what which kernel knows of them, and checks before anything
//! is written.

pub mod check;
pub mod entries;
pub mod features;
pub mod model;
