//! The family of message sets: v0, v1, KIP-87 and KIP-82's draft A.

pub(crate) mod decode;
pub(crate) mod encode;
pub mod layout;
