//! The actions, one file each; `carry_out` is their common way from chosen pages to the account.

pub(in crate::apply) mod carry_out;
pub(in crate::apply) mod collapse;
pub(in crate::apply) mod given;
pub(in crate::apply) mod hint;
pub(in crate::apply) mod migrate;
pub(in crate::apply) mod plain;
pub(in crate::apply) mod prove;
pub(in crate::apply) mod reclaim;
pub(in crate::apply) mod swap;
pub(in crate::apply) mod undo;
