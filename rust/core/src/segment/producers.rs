//! What a broker keeps of the producers of a partition, followed entry by entry.
//!
//! Source: KIP-98; Apache Kafka, `storage` module, classes `ProducerStateManager` and `ProducerAppendInfo`. Nothing is
//! checked here that a broker checks on arrival (sequences, fenced epochs): a log holds what was accepted.

use std::collections::BTreeMap;

use super::{AbortedTxn, ProducerSnapshot, ProducerStateEntry};
use crate::batch::control::{Control, ControlType};
use crate::codec::{Buffer, Decompressor};
use crate::entry::Entry;
use crate::error::Result;
use crate::limits::Limits;
use crate::record::{Record, Sink};

/// The producers of a partition, as of the last entry.
#[derive(Clone, Debug, Default)]
pub struct Producers {
    known: BTreeMap<i64, ProducerStateEntry>,
}

/// The first record of a control batch: it has one.
#[derive(Default)]
struct Marker(Option<Control>);

impl<'a> Sink<'a> for Marker {
    fn record(&mut self, record: &Record<'a>) -> bool {
        if self.0.is_none() {
            self.0 = Control::read(record.key, record.value);
        }
        false
    }

    fn header(&mut self, _key: &'a [u8], _value: Option<&'a [u8]>) {}
}

impl Producers {
    /// No producers.
    #[must_use]
    pub const fn new() -> Self {
        Self { known: BTreeMap::new() }
    }

    /// Follows an entry. Returns the transaction that it ends, if it aborts one.
    ///
    /// # Errors
    /// A control batch whose record cannot be read.
    pub fn append(&mut self, entry: &Entry<'_>) -> Result<Option<AbortedTxn>> {
        let head = &entry.head;
        if head.producer_id < 0 {
            return Ok(None);
        }
        if head.is_control() {
            return self.marker(entry);
        }
        let producer = self.producer(head.producer_id, head.producer_epoch);
        producer.last_sequence = head.sequence(head.last_offset);
        producer.last_offset = head.last_offset;
        producer.offset_delta = head.last_offset.wrapping_sub(head.base_offset) as i32;
        producer.timestamp = head.max_timestamp;
        if head.is_transactional() {
            producer.current_txn_first_offset.get_or_insert(head.base_offset);
        }
        Ok(None)
    }

    fn marker(&mut self, entry: &Entry<'_>) -> Result<Option<AbortedTxn>> {
        let (mut buffer, limits, mut marker) = (Buffer::new(), Limits::default(), Marker::default());
        entry.open(&mut Decompressor::new(), &limits, &mut buffer)?.decode(&limits, &mut marker)?;
        let Some(control) = marker.0 else { return Ok(None) };
        let head = &entry.head;
        let aborted = match control.control_type() {
            ControlType::Abort => true,
            ControlType::Commit => false,
            _ => return Ok(None),
        };
        let producer = self.producer(head.producer_id, head.producer_epoch);
        producer.timestamp = head.max_timestamp;
        producer.coordinator_epoch = control.coordinator_epoch.unwrap_or(-1);
        let first_offset = producer.current_txn_first_offset.take().filter(|_| aborted);
        Ok(first_offset.map(|first_offset| AbortedTxn {
            producer_id: head.producer_id,
            first_offset,
            last_offset: head.base_offset,
            last_stable_offset: self.first_open().unwrap_or(head.base_offset.wrapping_add(1)),
        }))
    }

    /// The first offset of the oldest transaction that is open.
    #[must_use]
    pub fn first_open(&self) -> Option<i64> {
        self.known.values().filter_map(|producer| producer.current_txn_first_offset).min()
    }

    /// The producer's entry. Another epoch than it had forgets its batches.
    fn producer(&mut self, producer_id: i64, producer_epoch: i16) -> &mut ProducerStateEntry {
        let unknown = ProducerStateEntry {
            producer_id,
            producer_epoch,
            last_sequence: -1,
            last_offset: -1,
            offset_delta: 0,
            timestamp: -1,
            coordinator_epoch: -1,
            current_txn_first_offset: None,
        };
        let entry = self.known.entry(producer_id).or_insert(unknown);
        if entry.producer_epoch != producer_epoch {
            let ProducerStateEntry { timestamp, coordinator_epoch, current_txn_first_offset, .. } = *entry;
            *entry = ProducerStateEntry { timestamp, coordinator_epoch, current_txn_first_offset, ..unknown };
        }
        entry
    }

    /// The `.snapshot` for the offset after the last entry.
    #[must_use]
    pub fn snapshot(&self) -> ProducerSnapshot {
        ProducerSnapshot { entries: self.known.values().copied().collect() }
    }
}
