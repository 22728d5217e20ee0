//! The writing pass: what becomes of each entry.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::latest::Latest;
use super::rewrite::{again, put};
use crate::batch::control::{Control, ControlType};
use crate::codec::{Buffer, Codec, Decompressor};
use crate::convert::ConvertError;
use crate::encode::Encoder;
use crate::entry::Entry;
use crate::format::Family;
use crate::head::{Head, TimestampType};
use crate::limits::Limits;
use crate::new_record::{BatchFields, NewRecord};
use crate::record::{Record, Sink};
use crate::segment::Producers;
use crate::transactions::{TransactionState, Transactions};

/// What is to be known of a cleaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// The time of the cleaning, in milliseconds since the epoch.
    pub now: i64,
    /// `delete.retention.ms`: how long tombstones and markers stay from the first cleaning on that could drop them.
    pub delete_retention: i64,
    /// The log's high watermark: of a log that nobody writes, the offset behind its last. The batch that ends there stays,
    /// empty if need be, so that no offset is given a second time.
    pub high_watermark: i64,
    /// Bounds for reading.
    pub limits: Limits,
}

/// The last records of the producers that are active: their batches stay, empty if need be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Active {
    /// By producer id: its last data offset, or `None` where only its epoch is known, and that epoch.
    last: HashMap<i64, (Option<i64>, i16)>,
}

impl Active {
    /// Of producers that were followed to the log's end, the active segment's batches among them. One that was silent for
    /// `expiration` (`producer.id.expiration.ms`) and has no open transaction is not active.
    #[must_use]
    pub fn of(producers: &Producers, now: i64, expiration: i64) -> Self {
        let entries = producers.snapshot().entries;
        let active = entries.iter().filter(|entry| {
            entry.current_txn_first_offset.is_some() || now.saturating_sub(entry.timestamp) < expiration
        });
        let last = active.map(|entry| {
            let offset = Some(entry.last_offset).filter(|&offset| offset >= 0);
            (entry.producer_id, (offset, entry.producer_epoch))
        });
        Self { last: last.collect() }
    }

    fn has(&self, head: &Head) -> bool {
        if head.producer_id < 0 {
            return false;
        }
        match self.last.get(&head.producer_id) {
            Some((Some(offset), _)) => head.last_offset == *offset,
            Some((None, epoch)) => head.is_control() && head.producer_epoch == *epoch,
            None => false,
        }
    }
}

/// What a cleaning did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Records of data that were read.
    pub records: u64,
    /// Of them, those that stay.
    pub kept: u64,
    /// Gone: another record of the key won.
    pub outranked: u64,
    /// Gone: tombstones whose horizon is over.
    pub tombstones: u64,
    /// Gone: records of aborted transactions.
    pub aborted: u64,
    /// Gone: records without a key, which a compacted topic cannot have.
    pub without_key: u64,
    /// Transaction markers that are gone.
    pub markers: u64,
    /// Batches (messages and wrappers too) that were read.
    pub batches: u64,
    /// Copied byte for byte.
    pub copied: u64,
    /// Written with fewer records, or stamped with a horizon.
    pub rebuilt: u64,
    /// Kept as headers without records.
    pub emptied: u64,
    /// Stamped with a delete horizon, among those that were rebuilt.
    pub stamped: u64,
}

/// Cleans the segments of one partition below the bound, entry by entry.
///
/// Memory: a batch, and a number for each producer with an open transaction.
#[derive(Debug)]
pub struct Cleaner {
    policy: Policy,
    latest: Latest,
    transactions: Arc<Transactions>,
    active: Active,
    state: State,
}

/// What goes on from entry to entry.
#[derive(Debug, Default)]
struct State {
    /// Producers with transactional batches since their last marker, in this pass.
    seen: HashSet<i64>,
    counts: Counts,
    encoder: Encoder,
    decompressor: Decompressor,
    buffer: Buffer,
}

/// What a batch's first look says.
struct Look {
    /// All records go, whatever they are.
    discard: bool,
    /// A header stays even if no record does.
    keep_empty: bool,
    /// A marker of whose transaction nothing is left.
    lonely_marker: bool,
    aborted: bool,
}

impl Cleaner {
    /// `latest` has had its passes.
    #[must_use]
    pub fn new(policy: Policy, latest: Latest, transactions: Arc<Transactions>, active: Active) -> Self {
        Self { policy, latest, transactions, active, state: State::default() }
    }

    /// Whether [`Latest`] is to see an entry: data, and of no aborted transaction.
    #[must_use]
    pub fn counts_for_keys(transactions: &Transactions, head: &Head) -> bool {
        !head.is_control() && transactions.state(head) != TransactionState::Aborted
    }

    /// How many tables of keys it took.
    #[must_use]
    pub const fn rounds(&self) -> u32 {
        self.latest.rounds()
    }

    /// What was done so far.
    #[must_use]
    pub const fn counts(&self) -> &Counts {
        &self.state.counts
    }

    /// Appends to `out` what stays of an entry. `keep_deletes`: for tombstones in formats that have no delete horizon
    /// (message sets), whether they stay; a broker goes by the segment's file time. Returns whether an abort marker
    /// stays while data of its transaction was there: it belongs in the transaction index.
    ///
    /// # Errors
    /// Those of reading the entry; what cannot be written again.
    pub fn entry(
        &mut self,
        entry: &Entry<'_>,
        keep_deletes: bool,
        out: &mut Vec<u8>,
    ) -> Result<bool, ConvertError> {
        let mut buffer = std::mem::take(&mut self.state.buffer);
        let done = self.look_and_write(entry, keep_deletes, &mut buffer, out);
        self.state.buffer = buffer;
        done
    }

    fn look_and_write(
        &mut self,
        entry: &Entry<'_>,
        keep_deletes: bool,
        buffer: &mut Buffer,
        out: &mut Vec<u8>,
    ) -> Result<bool, ConvertError> {
        let head = &entry.head;
        let limits = self.policy.limits;
        let payload = entry.open(&mut self.state.decompressor, &limits, buffer)?;
        self.state.counts.batches += 1;
        let mut found = Found {
            head,
            latest: if head.is_control() { None } else { Some(&mut self.latest) },
            drop_deletes: match head.delete_horizon() {
                Some(horizon) => horizon <= self.policy.now,
                None => head.count.is_none() && !keep_deletes,
            },
            all: true,
            deletes: false,
            marker: None,
            kept: Vec::new(),
            counts: Counts::default(),
        };
        let aborted = self.transactions.state(head) == TransactionState::Aborted;
        if aborted {
            // Not looked at, but an error of theirs is one.
            let mut count = Count(0);
            payload.decode(&limits, &mut count)?;
            found.counts.records = count.0;
            found.all = false;
        } else {
            payload.decode(&limits, &mut found)?;
        }
        let (marker, counts) = (found.marker, found.counts);
        let Found { mut kept, mut all, deletes, .. } = found;
        let look = self.look(head, marker, aborted);
        if look.discard {
            all = false;
            kept.clear();
        }
        self.count(head, &counts, &look);
        let stays = self.write(entry, &kept, Outcome { all, deletes }, &look, out)?;
        Ok(stays && head.is_control() && !look.lonely_marker && is(marker, ControlType::Abort))
    }

    fn look(&mut self, head: &Head, marker: Option<Control>, aborted: bool) -> Look {
        let seen = &mut self.state.seen;
        let mut lonely_marker = false;
        if head.is_control() {
            lonely_marker = match marker.map(|marker| marker.control_type()) {
                Some(ControlType::Abort | ControlType::Commit) => !seen.remove(&head.producer_id),
                // An empty control batch is what an earlier cleaning left of a marker.
                None => head.count == Some(0),
                Some(_) => false,
            };
        } else if head.is_transactional() {
            // An empty batch counts, too: its marker goes after it.
            seen.insert(head.producer_id);
        }
        let over = head.delete_horizon().is_some_and(|horizon| horizon <= self.policy.now);
        Look {
            discard: if head.is_control() { lonely_marker && over } else { aborted },
            keep_empty: self.active.has(head)
                || head.last_offset.wrapping_add(1) == self.policy.high_watermark,
            lonely_marker,
            aborted,
        }
    }

    fn count(&mut self, head: &Head, counts: &Counts, look: &Look) {
        let own = &mut self.state.counts;
        if head.is_control() {
            own.markers += u64::from(look.discard && head.count != Some(0));
            return;
        }
        own.records += counts.records;
        if look.aborted {
            own.aborted += counts.records;
            return;
        }
        own.kept += counts.kept;
        own.outranked += counts.outranked;
        own.tombstones += counts.tombstones;
        own.without_key += counts.without_key;
    }

    /// Writes what is kept; returns whether anything is.
    fn write(
        &mut self,
        entry: &Entry<'_>,
        kept: &[NewRecord<'_>],
        outcome: Outcome,
        look: &Look,
        out: &mut Vec<u8>,
    ) -> Result<bool, ConvertError> {
        let head = &entry.head;
        let batch = head.format.traits().family == Family::Batch;
        if kept.is_empty() {
            if batch && look.keep_empty {
                self.put(entry, &empty(head), &[], out)?;
                self.state.counts.emptied += 1;
                return Ok(true);
            }
            return Ok(false);
        }
        let stamp = batch && head.delete_horizon().is_none() && (outcome.deletes || look.lonely_marker);
        if outcome.all && !stamp {
            out.extend_from_slice(entry.bytes);
            self.state.counts.copied += 1;
            return Ok(true);
        }
        let horizon = if stamp {
            Some(self.policy.now.saturating_add(self.policy.delete_retention))
        } else {
            head.delete_horizon()
        };
        self.put(entry, &fields(head, horizon), kept, out)?;
        self.state.counts.rebuilt += 1;
        self.state.counts.stamped += u64::from(stamp);
        Ok(true)
    }

    fn put(
        &mut self,
        entry: &Entry<'_>,
        fields: &BatchFields,
        kept: &[NewRecord<'_>],
        out: &mut Vec<u8>,
    ) -> Result<(), ConvertError> {
        let write = |error| ConvertError::Write { position: entry.position, error };
        put(&entry.head, fields, kept, &mut self.state.encoder, out).map_err(write)
    }
}

fn is(marker: Option<Control>, what: ControlType) -> bool {
    marker.is_some_and(|marker| marker.control_type() == what)
}

/// The fields of a batch that is written again.
pub(super) fn fields(head: &Head, horizon: Option<i64>) -> BatchFields {
    let batch = head.format.traits().family == Family::Batch;
    let append_time = head.timestamp_type == TimestampType::LogAppendTime;
    BatchFields {
        base_offset: batch.then_some(head.base_offset),
        last_offset_delta: batch.then(|| head.last_offset.wrapping_sub(head.base_offset) as i32),
        leader_epoch: head.leader_epoch,
        codec: head.codec().unwrap_or(Codec::None),
        level: None,
        timestamp_type: head.timestamp_type,
        base_timestamp: horizon,
        max_timestamp: append_time.then_some(head.max_timestamp),
        producer_id: head.producer_id,
        producer_epoch: head.producer_epoch,
        base_sequence: head.base_sequence,
        transactional: head.is_transactional(),
        control: head.is_control(),
        delete_horizon: horizon.is_some(),
        ignore_message_attributes: head.ignores_message_attributes(),
    }
}

/// Those of a batch of which only the header stays.
pub(super) fn empty(head: &Head) -> BatchFields {
    BatchFields {
        codec: Codec::None,
        base_timestamp: Some(-1),
        max_timestamp: Some(head.max_timestamp),
        delete_horizon: false,
        ..fields(head, None)
    }
}

#[derive(Clone, Copy)]
struct Outcome {
    /// Every record stays.
    all: bool,
    /// A tombstone is among those that stay.
    deletes: bool,
}

/// Sorts a batch's records.
struct Found<'h, 'l, 'b> {
    head: &'h Head,
    /// `None` in control batches, whose records all stay.
    latest: Option<&'l mut Latest>,
    drop_deletes: bool,
    all: bool,
    deletes: bool,
    marker: Option<Control>,
    kept: Vec<NewRecord<'b>>,
    counts: Counts,
}

impl<'b> Found<'_, '_, 'b> {
    fn stays(&mut self, record: &Record<'b>) -> bool {
        let Some(latest) = &mut self.latest else {
            if self.marker.is_none() {
                self.marker = Control::read(record.key, record.value);
            }
            return true;
        };
        self.counts.records += 1;
        let outranked = latest.is_outranked(self.head, record);
        // KIP-87's flag where there is one; a null value elsewhere.
        let delete = record.tombstone.unwrap_or(record.value.is_none());
        if record.key.is_none() {
            self.counts.without_key += 1;
        } else if outranked {
            self.counts.outranked += 1;
        } else if delete && self.drop_deletes {
            self.counts.tombstones += 1;
        } else {
            self.counts.kept += 1;
            self.deletes |= delete;
            return true;
        }
        false
    }
}

impl<'b> Sink<'b> for Found<'_, '_, 'b> {
    fn record(&mut self, record: &Record<'b>) -> bool {
        if !self.stays(record) {
            self.all = false;
            return false;
        }
        self.kept.push(again(self.head, record));
        false
    }

    fn header(&mut self, _key: &'b [u8], _value: Option<&'b [u8]>) {}
}

struct Count(u64);

impl<'a> Sink<'a> for Count {
    fn record(&mut self, _record: &Record<'a>) -> bool {
        self.0 += 1;
        false
    }

    fn header(&mut self, _key: &'a [u8], _value: Option<&'a [u8]>) {}
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // A test may panic.
mod tests;
