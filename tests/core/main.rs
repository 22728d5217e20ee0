//! Tests of the core crate as its users see it: one binary, one module a room.
mod convert;
mod corpus;
mod encode;
#[cfg(all(feature = "arrow", not(miri)))]
mod fuzz;
mod golden;
mod limits;
mod owned;
mod segment;
mod verify;
mod writer;
