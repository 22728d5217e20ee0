//! Columns in: record batches of Arrow become batches of Kafka records, the rows of each partition by themselves.
//!
//! Rows of many partitions may come in any mixture. Within a partition they keep their order, and offsets that are kept
//! must rise. Batches are cut by size, as a producer does it, and wherever a field that belongs to the batch changes.

use std::collections::HashMap;
use std::fmt;

use arrow_array::{Array, RecordBatch};

use super::columns_in::ColumnsIn;
use crate::codec::Compressor;
use crate::encode::Batcher;
use crate::encode_error::EncodeFlaw;
use crate::format::Format;
use crate::head::TimestampType;
use crate::header::Header;
use crate::new_record::{BatchFields, NewHeaders, NewRecord};

/// Why rows are not written.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ColumnsError {
    /// A column whose type no field of a record has.
    Type {
        /// The column.
        column: &'static str,
        /// Its Arrow type.
        found: String,
    },
    /// Rows that tell of damage, which are no records.
    Damage,
    /// A row that no record can be made of.
    Row {
        /// Which, from 0, of all rows so far.
        row: u64,
        /// Its topic and partition, where they are known.
        partition: Option<(String, i32)>,
        /// What is wrong with it.
        flaw: RowFlaw,
    },
}

/// What is wrong with a row.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RowFlaw {
    /// No topic, by the row or for all.
    Topic,
    /// No partition, by the row or for all.
    Partition,
    /// Offsets are to be kept, and the row has none.
    Offset,
    /// A number that the field cannot hold.
    Range(&'static str, i64),
    /// A header without a key.
    HeaderKey(usize),
    /// A control record, which is not written unless producers' fields are kept.
    Control,
    /// What the format cannot carry.
    Encode(EncodeFlaw),
}

impl fmt::Display for RowFlaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Topic => f.write_str("no topic"),
            Self::Partition => f.write_str("no partition"),
            Self::Offset => f.write_str("no offset, and offsets are to be kept"),
            Self::Range(column, value) => write!(f, "{column} {value} is out of range"),
            Self::HeaderKey(header) => write!(f, "header {header} has no key"),
            Self::Control => f.write_str("a control record, and producers' fields are not kept"),
            Self::Encode(flaw) => flaw.fmt(f),
        }
    }
}

impl fmt::Display for ColumnsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Type { column, found } => write!(f, "column {column} cannot be of type {found}"),
            Self::Damage => {
                f.write_str("rows with a _corrupt_record tell of damage and are no records; leave them out")
            }
            Self::Row { row, partition: Some((topic, partition)), flaw } => {
                write!(f, "row {row} ({topic}-{partition}): {flaw}")
            }
            Self::Row { row, partition: None, flaw } => write!(f, "row {row}: {flaw}"),
        }
    }
}

impl std::error::Error for ColumnsError {}

/// What becomes of rows.
#[derive(Clone, Debug)]
pub struct Incoming {
    /// What is written.
    pub format: Format,
    /// Of all batches, where a row does not say it better.
    pub fields: BatchFields,
    /// Bytes of a batch before compression.
    pub batch_bytes: usize,
    /// For all rows, whatever they say.
    pub topic: Option<String>,
    /// For all rows, whatever they say.
    pub partition: Option<i32>,
    /// Of a row without a timestamp, in milliseconds.
    pub timestamp: i64,
    /// Whether rows bring their offsets; else they are counted, each partition's from `base_offset` on.
    pub keep_offsets: bool,
    /// The first offset that is counted.
    pub base_offset: i64,
    /// Whether producers, their sequences, transactions and markers are taken over.
    pub keep_producers: bool,
}

/// The fields of its batch that a row has an opinion on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Own {
    leader_epoch: i32,
    append_time: Option<i64>,
    producer: Option<(i64, i16)>,
    transactional: bool,
    control: bool,
}

/// One partition's rows.
#[derive(Debug)]
struct Lane {
    topic: String,
    partition: i32,
    batcher: Batcher,
    own: Option<Own>,
    /// The last row's sequence and offset.
    last: Option<(i32, i64)>,
    next_offset: i64,
    out: Vec<u8>,
}

/// Whole batches of one partition.
#[derive(Debug)]
pub struct Ready<'a> {
    /// The partition's topic.
    pub topic: &'a str,
    /// The partition's number.
    pub partition: i32,
    /// One batch behind the other.
    pub bytes: &'a [u8],
}

/// Writes rows to batches, each partition's by themselves.
#[derive(Debug)]
pub struct ColumnEncoder {
    incoming: Incoming,
    lanes: Vec<Lane>,
    places: HashMap<String, HashMap<i32, usize>>,
    /// Lent to the partition that is written to: codecs' contexts are large, and partitions may be many.
    compressor: Compressor,
    rows: u64,
}

impl ColumnEncoder {
    /// An encoder without rows.
    #[must_use]
    pub fn new(incoming: Incoming) -> Self {
        Self { incoming, lanes: Vec::new(), places: HashMap::new(), compressor: Compressor::new(), rows: 0 }
    }

    /// Takes the rows of one record batch. Batches that are full are then [`ColumnEncoder::take`]n.
    ///
    /// # Errors
    /// A column's type, or the first row that no record can be made of. The encoder is of no use then.
    pub fn push(&mut self, batch: &RecordBatch) -> Result<(), ColumnsError> {
        let columns = ColumnsIn::of(batch)?;
        let mut headers = Vec::new();
        let mut current = None;
        for row in 0..batch.num_rows() {
            let lane = self.lane(&columns, row, current)?;
            if current != Some(lane) {
                self.lend(current);
                self.lend(Some(lane));
                current = Some(lane);
            }
            let keyless = columns.headers(row, &mut headers).err();
            let lane = &mut self.lanes[lane];
            let pushed = match keyless {
                Some(header) => Err(RowFlaw::HeaderKey(header)),
                None => lane.push(&self.incoming, &columns, row, &headers),
            };
            pushed.map_err(|flaw| lane.flawed(self.rows, flaw))?;
            self.rows += 1;
        }
        self.lend(current);
        Ok(())
    }

    /// Ends the batches that are open.
    ///
    /// # Errors
    /// As the encoder's: a batch over 2 GiB.
    pub fn finish(&mut self) -> Result<(), ColumnsError> {
        for at in 0..self.lanes.len() {
            self.lend(Some(at));
            let lane = &mut self.lanes[at];
            let done = lane.batcher.finish(&mut lane.out);
            done.map_err(|error| lane.flawed(self.rows, RowFlaw::Encode(error.flaw)))?;
            self.lend(Some(at));
        }
        Ok(())
    }

    /// Shows what is ready, one partition after the other, and forgets it.
    pub fn take(&mut self, mut show: impl FnMut(Ready<'_>)) {
        for lane in &mut self.lanes {
            if !lane.out.is_empty() {
                show(Ready { topic: &lane.topic, partition: lane.partition, bytes: &lane.out });
                lane.out.clear();
            }
        }
    }

    /// Gives the compressor to a lane, or takes it back.
    fn lend(&mut self, lane: Option<usize>) {
        if let Some(lane) = lane {
            self.lanes[lane].batcher.swap_compressor(&mut self.compressor);
        }
    }

    /// Where the row goes; `current` is the last row's.
    #[inline(always)]
    fn lane(
        &mut self,
        columns: &ColumnsIn<'_>,
        row: usize,
        current: Option<usize>,
    ) -> Result<usize, ColumnsError> {
        let flawed = |flaw| ColumnsError::Row { row: self.rows, partition: None, flaw };
        let topic = match &self.incoming.topic {
            Some(topic) => topic.as_bytes(),
            None => columns.topic.and_then(|it| it.get(row)).ok_or_else(|| flawed(RowFlaw::Topic))?,
        };
        let partition = match self.incoming.partition {
            Some(partition) => partition,
            None => {
                let number = columns.partition.and_then(|it| it.get(row));
                let number = number.ok_or_else(|| flawed(RowFlaw::Partition))?;
                i32::try_from(number).map_err(|_| flawed(RowFlaw::Range("partition", number)))?
            }
        };
        if let Some(at) = current
            && self.lanes[at].partition == partition
            && self.lanes[at].topic.as_bytes() == topic
        {
            return Ok(at);
        }
        // Text by its column's type, or lossy where somebody gave bytes: whoever makes names of it looks closer.
        let topic = String::from_utf8_lossy(topic);
        if let Some(at) = self.places.get(topic.as_ref()).and_then(|numbers| numbers.get(&partition)) {
            return Ok(*at);
        }
        let at = self.lanes.len();
        let incoming = &self.incoming;
        self.lanes.push(Lane {
            topic: topic.to_string(),
            partition,
            batcher: Batcher::new(incoming.format, incoming.fields.clone(), incoming.batch_bytes),
            own: None,
            last: None,
            next_offset: incoming.base_offset,
            out: Vec::new(),
        });
        self.places.entry(topic.into_owned()).or_default().insert(partition, at);
        Ok(at)
    }
}

impl Lane {
    #[cold]
    fn flawed(&self, row: u64, flaw: RowFlaw) -> ColumnsError {
        ColumnsError::Row { row, partition: Some((self.topic.clone(), self.partition)), flaw }
    }

    #[inline(always)]
    fn push(
        &mut self,
        incoming: &Incoming,
        columns: &ColumnsIn<'_>,
        row: usize,
        headers: &[Header<'_>],
    ) -> Result<(), RowFlaw> {
        let offset = match incoming.keep_offsets {
            true => columns.offset.and_then(|it| it.get(row)).ok_or(RowFlaw::Offset)?,
            false => self.next_offset,
        };
        if offset < 0 || offset == i64::MAX {
            return Err(RowFlaw::Range("offset", offset));
        }
        let timestamp = columns.timestamp.and_then(|it| it.get(row)).unwrap_or(incoming.timestamp);
        let own = Own::of(incoming, columns, row, timestamp)?;
        if own.control && !incoming.keep_producers {
            return Err(RowFlaw::Control);
        }
        let sequence = match (own.producer, columns.sequence) {
            (Some(_), Some(numbers)) => narrow("sequence", numbers.get(row), -1)?,
            _ => -1,
        };
        // Within a batch, sequences follow the offsets.
        let follows = self.last.is_none_or(|(last, at)| {
            let next = i64::from(last).wrapping_add(offset.wrapping_sub(at)).rem_euclid(1 << 31);
            (last < 0 && sequence < 0) || (last >= 0 && i64::from(sequence) == next)
        });
        // Kafka has one marker in a batch.
        if self.own != Some(own) || !follows || own.control {
            let fields = own.fields(&incoming.fields);
            self.batcher.set_fields(fields, &mut self.out).map_err(|error| RowFlaw::Encode(error.flaw))?;
            self.own = Some(own);
        }
        let new = NewRecord {
            offset,
            timestamp,
            attributes: 0,
            key: columns.key.and_then(|it| it.get(row)),
            value: columns.value.and_then(|it| it.get(row)),
            tombstone: columns.tombstone.and_then(|it| it.is_valid(row).then(|| it.value(row))),
            headers: NewHeaders::List(headers),
        };
        let sequence = own.producer.is_some().then_some(sequence);
        let pushed = self.batcher.push_of(&new, sequence, &mut self.out);
        pushed.map_err(|error| RowFlaw::Encode(error.flaw))?;
        self.last = Some((sequence.unwrap_or(-1), offset));
        self.next_offset = offset + 1;
        Ok(())
    }
}

impl Own {
    #[inline(always)]
    fn of(incoming: &Incoming, columns: &ColumnsIn<'_>, row: usize, timestamp: i64) -> Result<Self, RowFlaw> {
        let usual = &incoming.fields;
        let epoch = match columns.leader_epoch {
            Some(numbers) => {
                narrow("leaderEpoch", numbers.get(row).filter(|it| *it >= 0), usual.leader_epoch)?
            }
            None => usual.leader_epoch,
        };
        let append = match columns.timestamp_type.and_then(|it| it.get(row)) {
            None => usual.timestamp_type == TimestampType::LogAppendTime,
            Some(1) => true,
            Some(-1 | 0) => false,
            Some(other) => return Err(RowFlaw::Range("timestampType", other)),
        };
        let flag = |column: Option<&arrow_array::BooleanArray>| {
            column.is_some_and(|it| it.is_valid(row) && it.value(row))
        };
        let mut own = Self {
            leader_epoch: epoch,
            append_time: append.then_some(timestamp),
            producer: None,
            transactional: false,
            control: flag(columns.control),
        };
        if incoming.keep_producers {
            let id = columns.producer_id.and_then(|it| it.get(row)).filter(|id| *id >= 0);
            if let Some(id) = id {
                let epoch = columns.producer_epoch.and_then(|it| it.get(row));
                own.producer = Some((id, narrow("producerEpoch", epoch, -1)?));
            }
            own.transactional = flag(columns.transactional);
        }
        Ok(own)
    }

    fn fields(self, usual: &BatchFields) -> BatchFields {
        let (producer_id, producer_epoch) =
            self.producer.unwrap_or((usual.producer_id, usual.producer_epoch));
        BatchFields {
            leader_epoch: self.leader_epoch,
            timestamp_type: match self.append_time {
                Some(_) => TimestampType::LogAppendTime,
                None => TimestampType::CreateTime,
            },
            max_timestamp: self.append_time.or(usual.max_timestamp),
            producer_id,
            producer_epoch,
            transactional: self.transactional || usual.transactional,
            control: self.control,
            ..usual.clone()
        }
    }
}

fn narrow<T: TryFrom<i64>>(column: &'static str, value: Option<i64>, none: T) -> Result<T, RowFlaw> {
    match value {
        None => Ok(none),
        Some(value) => T::try_from(value).map_err(|_| RowFlaw::Range(column, value)),
    }
}

#[cfg(test)]
mod tests;
