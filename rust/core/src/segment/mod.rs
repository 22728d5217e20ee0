//! The files beside a `.log`, as pure functions over bytes: nothing here opens a file.
//!
//! ```text
//! orders-0/                                   names: DirName, TopicPartition
//!   00000000000000000042.log                  names: SegmentFile; the entries themselves are elsewhere
//!   00000000000000000042.index                index: offset -> byte position          8 bytes an entry
//!   00000000000000000042.timeindex            time_index: timestamp -> offset         12 bytes an entry
//!   00000000000000000042.txnindex             txn_index: aborted transactions         34 bytes an entry
//!   00000000000000000042.snapshot             producer_snapshot: producers' sequences and open transactions
//!   leader-epoch-checkpoint                   checkpoint: leader epoch -> its first offset (text)
//!   partition.metadata                        partition_metadata: the topic id (text)
//! ```
//!
//! All of them can be made anew from the log: they are hints. So a damaged one never stops a reader. The views
//! over `.index` and `.timeindex` hold the sound entries from the front and say in `flaw` where and why they
//! end; only the transaction index, which decides what a `read_committed` reader must not see, gives errors
//! instead of answers.

mod checkpoint;
mod entries;
mod index;
mod names;
mod partition_metadata;
mod producer_snapshot;
mod producers;
mod text;
mod time_index;
mod txn_index;
mod writer;

pub use checkpoint::{EpochEntry, LeaderEpochCheckpoint};
pub use entries::{Index, IndexBuilder, IndexEntry};
pub use index::{OffsetIndex, OffsetIndexBuilder, OffsetPosition};
pub use names::{
    DirName, DirReason, FileReason, SegmentFile, TopicPartition, is_topic_name, segment_file_name,
    snapshot_file_name,
};
pub use partition_metadata::{PartitionMetadata, TopicId};
pub use producer_snapshot::{ProducerSnapshot, ProducerStateEntry};
pub use producers::Producers;
pub use time_index::{TimeIndex, TimeIndexBuilder, TimestampOffset};
pub use txn_index::{AbortedTxn, CollectedTxns, TransactionIndex, TransactionIndexBuilder};
pub use writer::{INDEX_INTERVAL, SegmentIndexes, SegmentWriter};
