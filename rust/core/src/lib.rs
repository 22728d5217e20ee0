//! Kafka records as bytes.
pub mod error;
pub use error::{Error, Flaw, Kind, Result};
