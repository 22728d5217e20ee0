//! A digest of a partition's records: proof that a copy holds the same, whatever its batches, codecs and formats are.
//!
//! SHA-256 over the records of data (control records are left out) in the order of the log, each as
//!
//! ```text
//! offset      int64   big-endian, as all of these
//! timestamp   int64   ms, what a consumer sees (the append time under LogAppendTime); −1 for none
//! key         int32 length (−1: null), bytes
//! value       int32 length (−1: null), bytes
//! headers     int32 count, then each: int32 length, key bytes as stored; int32 length (−1: null), value bytes
//! ```
//! SHA-256 rather than a faster hash: anybody can compute it again with what every system has, and it is not the
//! bottleneck where the processor has instructions for it.

use std::ops::RangeInclusive;

use sha2::{Digest as _, Sha256};

use crate::codec::{Buffer, Decompressor};
use crate::entry::Entry;
use crate::error::Result;
use crate::head::Head;
use crate::limits::Limits;
use crate::record::{Record, Sink};

/// Sums up the records of one partition.
#[derive(Debug)]
pub struct Digest {
    hash: Sha256,
    records: u64,
    offsets: Option<(i64, i64)>,
    limits: Limits,
    decompressor: Decompressor,
    buffer: Buffer,
    /// The records of the entry that is being read.
    bytes: Vec<u8>,
}

/// More of the entry's bytes than this are not kept for the next one.
const KEPT: usize = 4 << 20;

impl Digest {
    /// Of no record yet.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self {
            hash: Sha256::new(),
            records: 0,
            offsets: None,
            limits,
            decompressor: Decompressor::new(),
            buffer: Buffer::new(),
            bytes: Vec::new(),
        }
    }

    /// Adds the records of an entry; those of a control batch are left out.
    ///
    /// # Errors
    /// Those of reading it. Nothing of a broken entry is added.
    pub fn add(&mut self, entry: &Entry<'_>) -> Result<()> {
        self.add_within(entry, i64::MIN..=i64::MAX)
    }

    /// The same for records whose offsets lie in a range.
    ///
    /// # Errors
    /// Those of reading it. Nothing of a broken entry is added.
    pub fn add_within(&mut self, entry: &Entry<'_>, offsets: RangeInclusive<i64>) -> Result<()> {
        let head = &entry.head;
        let outside = head.last_offset < *offsets.start() || head.base_offset > *offsets.end();
        // Of a message set, the header tells the last offset alone.
        if head.is_control() || head.count.is_some() && outside {
            return Ok(());
        }
        let payload = entry.open(&mut self.decompressor, &self.limits, &mut self.buffer)?;
        self.bytes.clear();
        self.bytes.shrink_to(KEPT);
        let mut writer = Writer { head, offsets, out: &mut self.bytes, records: 0, first: None, last: -1 };
        payload.decode(&self.limits, &mut writer)?;
        let (records, first, last) = (writer.records, writer.first, writer.last);
        self.hash.update(&self.bytes);
        self.records += records;
        if let Some(first) = first {
            self.offsets = Some((self.offsets.map_or(first, |(first, _)| first), last));
        }
        Ok(())
    }

    /// Records so far.
    #[must_use]
    pub const fn records(&self) -> u64 {
        self.records
    }

    /// Offsets of the first and the last record.
    #[must_use]
    pub const fn offsets(&self) -> Option<(i64, i64)> {
        self.offsets
    }

    /// The digest of the records so far.
    #[must_use]
    pub fn sha256(&self) -> [u8; 32] {
        self.hash.clone().finalize().into()
    }
}

/// Writes records as the digest has them.
struct Writer<'w> {
    head: &'w Head,
    offsets: RangeInclusive<i64>,
    out: &'w mut Vec<u8>,
    records: u64,
    first: Option<i64>,
    last: i64,
}

impl Writer<'_> {
    fn field(&mut self, bytes: Option<&[u8]>) {
        let length = bytes.map_or(-1, |bytes| bytes.len() as i32);
        self.out.extend_from_slice(&length.to_be_bytes());
        self.out.extend_from_slice(bytes.unwrap_or_default());
    }
}

impl<'a> Sink<'a> for Writer<'_> {
    fn record(&mut self, record: &Record<'a>) -> bool {
        if !self.offsets.contains(&record.offset) {
            return false;
        }
        self.records += 1;
        self.first = self.first.or(Some(record.offset));
        self.last = record.offset;
        self.out.extend_from_slice(&record.offset.to_be_bytes());
        self.out.extend_from_slice(&record.effective_timestamp(self.head).to_be_bytes());
        self.field(record.key);
        self.field(record.value);
        self.out.extend_from_slice(&(record.headers.len() as i32).to_be_bytes());
        true
    }

    fn header(&mut self, key: &'a [u8], value: Option<&'a [u8]>) {
        self.field(Some(key));
        self.field(value);
    }
}
