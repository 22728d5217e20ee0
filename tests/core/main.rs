//! Tests of the core crate as its users see it: one binary, one module a room.
mod convert;
mod corpus;
mod encode;
mod golden;
mod owned;
mod segment;
mod verify;
mod writer;
