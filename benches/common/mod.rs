//! What the benches share: the files, the work that is measured, and how it is measured.

#![allow(dead_code, reason = "each bench uses its part")]

pub(crate) mod data;
pub(crate) mod java_random;
pub(crate) mod table;
pub(crate) mod work;
