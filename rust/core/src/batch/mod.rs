//! The family of record batches: v2, v3 and KIP-82's draft B.

pub mod control;
pub(crate) mod decode;
pub(crate) mod encode;
pub mod layout;
pub(crate) mod usual;
