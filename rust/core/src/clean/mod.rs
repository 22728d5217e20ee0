//! Which record a log cleaner keeps: compaction as Kafka's brokers do it (KIP-58, KIP-98, KIP-280, KIP-534).
//!
//! ```text
//! survey   headers and markers of the whole partition: transactions, producers        (Survey, Producers)
//! map      the records below the bound: key → the rank of its latest record           Latest
//! write    entry by entry: copied as it is, rebuilt with fewer records, emptied, left out    Cleaner
//! ```
//! No I/O: whoever reads the segments hands their entries in, in order, the same ones in each pass.
//!
//! What is kept of a batch, as seen on Kafka 4.4:
//! - all records stay: byte for byte;
//! - some stay: rebuilt, with base offset, last offset, base sequence and codec as they were;
//! - none stays: left out. But the last data batch of an active producer (or its last marker, where a bumped epoch
//!   forgot the data) and the batch that ends at the high watermark stay as a header without records;
//! - a tombstone that stays, or a marker whose data is gone, has the batch stamped once: `baseTimestamp` becomes the
//!   delete horizon, attribute bit 6 says so. From the horizon on it may go.

mod cleaner;
mod keys;
mod latest;
mod rewrite;
#[cfg(test)]
#[allow(clippy::unwrap_used)] // A test may panic.
mod tests;

pub use cleaner::{Active, Cleaner, Counts, Policy};
pub use latest::{Latest, Strategy};
pub use rewrite::{Rewriter, Rewritten, Verdict};
