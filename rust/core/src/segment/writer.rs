//! The indexes of a segment, made while its entries are appended, as a broker makes them.
//!
//! An index entry is added before a batch where more than `index.interval.bytes` were appended since the last one; the
//! time index gets one more when the segment is closed. Source: Apache Kafka, `storage` module, class `LogSegment`.

use super::{AbortedTxn, OffsetIndexBuilder, TimeIndexBuilder, TransactionIndexBuilder};
use crate::entry::Entry;
use crate::error::Result;

/// Kafka's default of `index.interval.bytes`.
pub const INDEX_INTERVAL: u64 = 4096;

/// The files beside a `.log`, complete. An index that is empty is an empty file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SegmentIndexes {
    /// `.index`
    pub offset_index: Vec<u8>,
    /// `.timeindex`
    pub time_index: Vec<u8>,
    /// `.txnindex`; a broker makes the file only for a segment that has an aborted transaction.
    pub transaction_index: Vec<u8>,
}

/// Follows the entries that are appended to one `.log`.
#[derive(Clone, Debug)]
pub struct SegmentWriter {
    base_offset: i64,
    interval: u64,
    size: u64,
    since_entry: u64,
    next_offset: i64,
    /// The largest timestamp so far and its batch's last offset.
    max: Option<(i64, i64)>,
    offsets: OffsetIndexBuilder,
    times: TimeIndexBuilder,
    transactions: TransactionIndexBuilder,
}

impl SegmentWriter {
    /// An empty segment, whose files are named after `base_offset`.
    #[must_use]
    pub const fn new(base_offset: i64) -> Self {
        Self::with_interval(base_offset, INDEX_INTERVAL)
    }

    /// The same, with `index.interval.bytes` of the caller's.
    #[must_use]
    pub const fn with_interval(base_offset: i64, interval: u64) -> Self {
        Self {
            base_offset,
            interval,
            size: 0,
            since_entry: 0,
            next_offset: base_offset,
            max: None,
            offsets: OffsetIndexBuilder::new(base_offset),
            times: TimeIndexBuilder::new(base_offset),
            transactions: TransactionIndexBuilder::new(base_offset),
        }
    }

    /// The offset in the files' names.
    #[must_use]
    pub const fn base_offset(&self) -> i64 {
        self.base_offset
    }

    /// Bytes of the `.log` so far.
    #[must_use]
    pub const fn size(&self) -> u64 {
        self.size
    }

    /// The offset after the last entry: with it a next segment may begin.
    #[must_use]
    pub const fn next_offset(&self) -> i64 {
        self.next_offset
    }

    /// Whether the segment has room for the entry: within `segment_bytes`, which count for all but its first entry,
    /// and within what its indexes can tell, 2^31 − 1 bytes and offsets.
    #[must_use]
    pub fn fits(&self, entry: &Entry<'_>, segment_bytes: u64) -> bool {
        let far =
            entry.head.last_offset.checked_sub(self.base_offset).is_none_or(|far| far > i32::MAX.into());
        let end = self.size.saturating_add(entry.bytes.len() as u64);
        !far && end <= i32::MAX as u64 && (self.size == 0 || end <= segment_bytes)
    }

    /// Follows an entry that is appended to the `.log`. `aborted` is the transaction that it ends, as
    /// [`super::Producers::append`] told.
    ///
    /// # Errors
    /// Offsets that do not rise, or that do not fit ([`SegmentWriter::fits`]).
    pub fn append(&mut self, entry: &Entry<'_>, aborted: Option<&AbortedTxn>) -> Result<()> {
        let head = &entry.head;
        if self.max.is_none_or(|(timestamp, _)| head.max_timestamp > timestamp) && head.max_timestamp > -1 {
            self.max = Some((head.max_timestamp, head.last_offset));
        }
        if self.since_entry > self.interval {
            self.offsets.append(head.last_offset, i32::try_from(self.size).unwrap_or(i32::MAX))?;
            self.index_time()?;
            self.since_entry = 0;
        }
        if let Some(aborted) = aborted {
            self.transactions.append(aborted)?;
        }
        self.size += entry.bytes.len() as u64;
        self.since_entry += entry.bytes.len() as u64;
        self.next_offset = head.last_offset.wrapping_add(1);
        Ok(())
    }

    fn index_time(&mut self) -> Result<()> {
        match self.max {
            Some((timestamp, offset)) => self.times.append(timestamp, offset),
            None => Ok(()),
        }
    }

    /// Closes the segment.
    ///
    /// # Errors
    /// As [`SegmentWriter::append`].
    pub fn finish(mut self) -> Result<SegmentIndexes> {
        self.index_time()?;
        Ok(SegmentIndexes {
            offset_index: self.offsets.into_bytes(),
            time_index: self.times.into_bytes(),
            transaction_index: self.transactions.into_bytes(),
        })
    }
}
