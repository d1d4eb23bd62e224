//! The BPF programs that read page tables: how they are written, checked, loaded and set up.
//!
//! ```text
//! btf (offsets of this kernel) -> code, mappings (programs, by asm) -> kernel (loaded, run)
//!                                                                      ^ calibrate
//! ```

mod asm;
pub mod btf;
pub(super) mod calibrate;
pub(super) mod code;
#[cfg(test)]
mod disasm;
pub(super) mod kernel;
mod mappings;
