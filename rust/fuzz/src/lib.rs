//! The bodies of the fuzz targets. `cargo fuzz` runs them from `fuzz_targets`, and the core's integration tests run the
//! same code on stable Rust over the corpus.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a target that fails must panic")]

pub mod targets;
