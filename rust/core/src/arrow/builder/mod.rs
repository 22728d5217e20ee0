//! Fills the columns of one record batch from decoded records.

mod finish;

use std::sync::Arc;

use arrow_buffer::Buffer;
use arrow_schema::{Schema, SchemaRef};

use crate::arrow::bitmap::Bitmap;
use crate::arrow::cells::{Ends, Grown, Mark, Strings};
use crate::arrow::column::Column;
use crate::arrow::direct::{Nulls, Parts};
use crate::arrow::fill::Rows;
use crate::arrow::pool::Pool;
use crate::arrow::runs::{Runs, Shared};
use crate::head::{Head, TimestampType};
use crate::header::Headers;
use crate::select::Selection;
use crate::transactions::TransactionState;

/// The two ways in which the same columns are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flavor {
    /// `BinaryView` and `Utf8View` columns that point into the log where it lies in memory, instead of copies.
    pub views: bool,
    /// As Spark's own Kafka source shows it: no headers are null instead of an empty list, and no timestamp is
    /// 1 ms before 1970 instead of null.
    pub spark: bool,
}

/// What record batches are to look like.
#[derive(Clone, Debug)]
pub struct Shape {
    /// Columns, in the order wanted.
    pub columns: Vec<Column>,
    /// How they are shown.
    pub flavor: Flavor,
    /// A record batch is handed out when it has so many rows,
    pub rows: usize,
    /// or so many bytes of keys, values and headers. One Kafka batch is never divided over two, so it may be more.
    pub bytes: usize,
}

impl Default for Shape {
    fn default() -> Self {
        Self { columns: Column::DEFAULT.to_vec(), flavor: Flavor::default(), rows: 64 << 10, bytes: 4 << 20 }
    }
}

impl Shape {
    /// The Arrow schema.
    #[must_use]
    pub fn schema(&self) -> SchemaRef {
        let fields = self.columns.iter().map(|column| column.field(self.flavor));
        Arc::new(Schema::new(fields.collect::<Vec<_>>()))
    }
}

/// Where viewed bytes lie: the address that offsets count from, and the buffer's number in the record batch.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::arrow) struct Origin {
    pub(in crate::arrow) address: usize,
    pub(in crate::arrow) buffer: u32,
}

#[derive(Debug)]
pub(in crate::arrow) struct HeaderColumn {
    pub(in crate::arrow) ends: Ends,
    pub(in crate::arrow) keys: Strings,
    pub(in crate::arrow) values: Strings,
}

#[derive(Debug)]
pub(in crate::arrow) struct KeyColumn {
    pub(in crate::arrow) ends: Ends,
    pub(in crate::arrow) keys: Strings,
}

/// How far the columns were before a batch began.
#[derive(Clone, Copy, Debug, Default)]
struct Marks {
    rows: usize,
    key: Mark,
    value: Mark,
    header_keys: Mark,
    header_values: Mark,
    raw_keys: Mark,
}

/// Grows the columns of one record batch. It takes a batch whole or not at all.
#[derive(Debug)]
pub struct Builder {
    pub(in crate::arrow) shape: Shape,
    schema: SchemaRef,
    pool: Arc<Pool>,
    selection: Selection,
    takes_all: bool,
    append_time: Option<i64>,
    pub(in crate::arrow) base: Option<Head>,
    pub(in crate::arrow) origin: Origin,
    buffers: Vec<Buffer>,
    /// Whether the columns have taken their memory.
    begun: bool,
    /// A batch came whose bytes do not lie in the buffer that was named for it.
    unseen: bool,
    pub(in crate::arrow) rows: usize,
    marks: Marks,
    /// Memory for [`Builder::fill`].
    pub(in crate::arrow) gathered: Rows,
    /// Memory for [`Direct`](super::direct::Direct).
    pub(in crate::arrow) nulls: Nulls,
    pub(in crate::arrow) key: Option<Strings>,
    pub(in crate::arrow) value: Option<Strings>,
    pub(in crate::arrow) headers: Option<HeaderColumn>,
    pub(in crate::arrow) raw_keys: Option<KeyColumn>,
    pub(in crate::arrow) offsets: Option<Grown<i64>>,
    pub(in crate::arrow) timestamps: Option<Grown<i64>>,
    pub(in crate::arrow) tombstones: Option<Bitmap>,
    pub(in crate::arrow) sequences: Option<Grown<i32>>,
    shared: Vec<(Column, Runs)>,
    topic: Arc<str>,
    partition: i32,
    transaction_state: Option<TransactionState>,
    /// Rows of this batch that have no timestamp although the batch has.
    pub(in crate::arrow) untimed: Vec<usize>,
    /// Rows of damage, which are null in every column that a record fills.
    null_rows: Vec<usize>,
}

impl Builder {
    /// An empty builder.
    #[must_use]
    pub fn new(shape: Shape, selection: Selection, pool: Arc<Pool>) -> Self {
        let has = |column: Column| shape.columns.contains(&column);
        let any = |columns: &[Column]| columns.iter().any(|&column| has(column));
        let views = shape.flavor.views;
        let strings = || Strings::new(views);
        let hot = [
            Column::Key,
            Column::Value,
            Column::Headers,
            Column::RawHeaderKeys,
            Column::Offset,
            Column::Timestamp,
            Column::TimestampMs,
            Column::Tombstone,
            Column::Sequence,
        ];
        let shared = Column::ALL.into_iter().filter(|column| has(*column) && !hot.contains(column));
        Self {
            schema: shape.schema(),
            takes_all: selection.takes_all(),
            selection,
            append_time: None,
            base: None,
            origin: Origin::default(),
            buffers: Vec::new(),
            begun: false,
            unseen: false,
            rows: 0,
            marks: Marks::default(),
            gathered: Rows::new(),
            nulls: Nulls::default(),
            key: has(Column::Key).then(strings),
            value: has(Column::Value).then(strings),
            headers: has(Column::Headers).then(|| HeaderColumn {
                ends: Ends::new(),
                keys: strings(),
                values: strings(),
            }),
            raw_keys: has(Column::RawHeaderKeys)
                .then(|| KeyColumn { ends: Ends::new(), keys: Strings::new(false) }),
            offsets: has(Column::Offset).then(Grown::new),
            timestamps: any(&[Column::Timestamp, Column::TimestampMs]).then(Grown::new),
            tombstones: has(Column::Tombstone).then(Bitmap::default),
            sequences: has(Column::Sequence).then(Grown::new),
            shared: shared.map(|column| (column, Runs::default())).collect(),
            topic: "".into(),
            partition: -1,
            transaction_state: None,
            untimed: Vec::new(),
            null_rows: Vec::new(),
            shape,
            pool,
        }
    }

    /// The schema of what it builds.
    #[must_use]
    pub fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    /// Which records it takes.
    #[must_use]
    pub const fn selection(&self) -> &Selection {
        &self.selection
    }

    /// Takes other records from here on: each partition has its own offsets.
    pub fn set_selection(&mut self, selection: Selection) {
        self.takes_all = selection.takes_all();
        self.selection = selection;
    }

    /// The topic and partition of the records that come from here on.
    pub fn set_partition(&mut self, topic: &str, partition: i32) {
        if *self.topic != *topic {
            self.topic = topic.into();
        }
        self.partition = partition;
    }

    /// What became of the transaction of the batches that come from here on, if that is known.
    pub const fn set_transaction_state(&mut self, state: Option<TransactionState>) {
        self.transaction_state = state;
    }

    /// Rows so far.
    #[must_use]
    pub const fn rows(&self) -> usize {
        self.rows
    }

    /// Whether it wants views of buffers.
    #[must_use]
    pub const fn wants_views(&self) -> bool {
        self.shape.flavor.views
    }

    fn bytes(&self) -> usize {
        let strings = |column: &Option<Strings>| column.as_ref().map_or(0, Strings::bytes);
        let headers = self.headers.as_ref().map_or(0, |h| h.keys.bytes() + h.values.bytes());
        strings(&self.key) + strings(&self.value) + headers + 16 * self.rows
    }

    /// Whether it is time to hand out what there is.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.rows >= self.shape.rows || self.bytes() >= self.shape.bytes
    }

    /// Whether a batch of so many record bytes still fits below the 2 GiB that Arrow's offsets reach.
    #[must_use]
    pub fn has_room(&self, bytes: usize) -> bool {
        self.bytes().saturating_add(bytes) < i32::MAX as usize
    }

    /// Whether the buffer that was named last begins at this address.
    pub(in crate::arrow) fn is_origin(&self, address: usize) -> bool {
        self.buffers.last().is_some_and(|last| last.as_ptr() as usize == address)
    }

    /// Names the buffer that the records of the next batch lie in, for views. Offsets reach 2 GiB, so a larger
    /// mapping is handed in as slices.
    pub fn set_origin(&mut self, buffer: &Buffer) {
        let address = buffer.as_ptr() as usize;
        let same = self.buffers.last().is_some_and(|last| last.as_ptr() == buffer.as_ptr());
        if !same {
            self.buffers.push(buffer.clone());
        }
        self.origin = Origin { address, buffer: (self.buffers.len() - 1) as u32 };
    }

    /// Looks whether views of `bytes` are views of the buffer that was named last.
    pub(in crate::arrow) fn sees_views(&mut self, bytes: &[u8]) {
        let Some(buffer) = self.buffers.last() else {
            self.unseen = true;
            return;
        };
        let at = (bytes.as_ptr() as usize).wrapping_sub(buffer.as_ptr() as usize);
        let end = at.checked_add(bytes.len());
        self.unseen |= end.is_none_or(|end| end > buffer.len() || u32::try_from(end).is_err());
    }

    pub(in crate::arrow) const fn takes_all(&self) -> bool {
        self.takes_all
    }

    /// Whether records are taken without asking the selection.
    pub(in crate::arrow) const fn set_takes_all(&mut self, takes_all: bool) {
        self.takes_all = takes_all;
    }

    /// Whether the selection has the offsets of all rows of the batch that was begun.
    pub(in crate::arrow) fn selection_has_offsets(&self) -> bool {
        let rows = self.offsets.as_ref().and_then(|column| column.values.get(self.marks.rows..));
        rows.is_some_and(|rows| rows.iter().all(|offset| self.selection.offsets.contains(offset)))
    }

    pub(in crate::arrow) const fn wants_headers(&self) -> bool {
        self.headers.is_some() || self.raw_keys.is_some()
    }

    /// Whether the selection has a record of the batch that was begun. By value: a record that is borrowed for a call
    /// has to be written to memory first.
    pub(in crate::arrow) fn wants(
        &self,
        offset: i64,
        timestamp: i64,
        untimed: bool,
        headers: Headers<'_>,
    ) -> bool {
        let append_time = self.append_time.filter(|_| !untimed);
        self.selection.wants(offset, append_time.unwrap_or(timestamp))
            && self.selection.wants_headers(headers)
    }

    /// Takes memory for the columns that have none.
    fn take_memory(&mut self) {
        if std::mem::replace(&mut self.begun, true) {
            return;
        }
        let pool = &*self.pool;
        for column in [&mut self.key, &mut self.value].into_iter().flatten() {
            column.begin(pool);
        }
        for column in [&mut self.offsets, &mut self.timestamps].into_iter().flatten() {
            column.begin(pool);
        }
        if let Some(column) = &mut self.sequences {
            column.begin(pool);
        }
        if let Some(headers) = &mut self.headers {
            headers.ends.begin(pool);
            headers.keys.begin(pool);
            headers.values.begin(pool);
        }
        if let Some(raw) = &mut self.raw_keys {
            raw.ends.begin(pool);
            raw.keys.begin(pool);
        }
    }

    /// Rows and headers so far.
    pub(in crate::arrow) fn place(&self) -> (usize, usize) {
        (self.rows, self.headers.as_ref().map_or(0, |headers| headers.keys.rows()))
    }

    /// The columns that [`Direct`](super::direct::Direct) writes, if all are there.
    pub(in crate::arrow) fn parts(&mut self) -> Option<Parts<'_>> {
        Some(Parts {
            nulls: &mut self.nulls,
            offsets: &mut self.offsets.as_mut()?.values,
            timestamps: &mut self.timestamps.as_mut()?.values,
            strings: self.key.as_mut().zip(self.value.as_mut()),
            headers: self.headers.as_mut().map(|it| (&mut it.ends, &mut it.keys, &mut it.values)),
        })
    }

    /// Counts rows that were written to all columns of [`Builder::parts`].
    pub(in crate::arrow) fn count_to(&mut self, rows: usize) {
        self.rows = rows;
    }

    /// Begins a batch.
    pub(in crate::arrow) fn begin(&mut self, head: &Head) {
        self.take_memory();
        let mark = |column: &Option<Strings>| column.as_ref().map(Strings::mark).unwrap_or_default();
        self.append_time = head.append_time();
        self.base = Some(*head);
        self.untimed.clear();
        self.marks = Marks {
            rows: self.rows,
            key: mark(&self.key),
            value: mark(&self.value),
            header_keys: self.headers.as_ref().map(|h| h.keys.mark()).unwrap_or_default(),
            header_values: self.headers.as_ref().map(|h| h.values.mark()).unwrap_or_default(),
            raw_keys: self.raw_keys.as_ref().map(|k| k.keys.mark()).unwrap_or_default(),
        };
    }

    /// Undoes what the batch brought.
    pub(in crate::arrow) fn rollback(&mut self) {
        let to = self.marks;
        let cut = |column: &mut Option<Strings>, mark| {
            if let Some(column) = column {
                column.truncate(mark);
            }
        };
        cut(&mut self.key, to.key);
        cut(&mut self.value, to.value);
        if let Some(headers) = &mut self.headers {
            headers.ends.truncate(to.rows);
            headers.keys.truncate(to.header_keys);
            headers.values.truncate(to.header_values);
        }
        if let Some(raw) = &mut self.raw_keys {
            raw.ends.truncate(to.rows);
            raw.keys.truncate(to.raw_keys);
        }
        for column in [&mut self.offsets, &mut self.timestamps].into_iter().flatten() {
            column.values.truncate(to.rows);
        }
        if let Some(tombstones) = &mut self.tombstones {
            tombstones.truncate(to.rows);
        }
        if let Some(sequences) = &mut self.sequences {
            sequences.values.truncate(to.rows);
        }
        self.rows = to.rows;
    }

    /// Ends a batch whose records are all sound: fills in what holds for all of them.
    pub(in crate::arrow) fn commit(&mut self, head: &Head, base_offset: i64, position: u64) {
        let from = self.marks.rows;
        let rows = self.rows - from;
        if let (Some(time), Some(timestamps)) = (self.append_time, &mut self.timestamps) {
            timestamps.values[from..].fill(time);
            self.untimed.iter().for_each(|&row| timestamps.values[row] = -1);
        }
        for (column, runs) in &mut self.shared {
            if *column == Column::TimestampType && !self.untimed.is_empty() {
                let kind = |kind: TimestampType| Shared::Int(kind as i64);
                let mut next = from;
                for &row in &self.untimed {
                    runs.push(kind(head.timestamp_type), row - next);
                    runs.push(kind(TimestampType::None), 1);
                    next = row + 1;
                }
                runs.push(kind(head.timestamp_type), self.rows - next);
                continue;
            }
            // What nearly every batch has in common with the one before.
            let again = match column {
                Column::Topic => runs.repeats(rows, |value| value.is_text(&self.topic)),
                Column::Partition => runs.repeats(rows, |value| value.is_int(self.partition.into())),
                Column::TimestampType => runs.repeats(rows, |value| value.is_int(head.timestamp_type as i64)),
                _ => false,
            };
            if again {
                continue;
            }
            let value = match column {
                Column::Topic => Shared::Text(Arc::clone(&self.topic)),
                Column::Partition => Shared::Int(i64::from(self.partition)),
                Column::TimestampType => Shared::Int(head.timestamp_type as i64),
                Column::LeaderEpoch => Shared::Int(i64::from(head.leader_epoch)),
                Column::ProducerId => Shared::Int(head.producer_id),
                Column::ProducerEpoch => Shared::Int(i64::from(head.producer_epoch)),
                Column::BaseOffset => Shared::Int(base_offset),
                Column::BatchPosition => Shared::Int(position as i64),
                Column::Magic => Shared::Int(i64::from(head.format.traits().magic)),
                Column::Codec => head.codec().map_or(Shared::Null, |codec| Shared::Text(codec.name().into())),
                Column::IsTransactional => Shared::Bool(head.is_transactional()),
                Column::IsControl => Shared::Bool(head.is_control()),
                Column::TransactionState => {
                    self.transaction_state.map_or(Shared::Null, |state| Shared::Text(state.name().into()))
                }
                _ => Shared::Null,
            };
            runs.push(value, rows);
        }
    }

    /// Adds a row that tells of a damaged stretch.
    pub fn damage(&mut self, position: u64, what: &str) {
        self.take_memory();
        for column in [&mut self.key, &mut self.value].into_iter().flatten() {
            column.push_null();
        }
        if let Some(headers) = &mut self.headers {
            headers.ends.push_empty();
        }
        if let Some(raw) = &mut self.raw_keys {
            raw.ends.push_empty();
        }
        for column in [&mut self.offsets, &mut self.timestamps].into_iter().flatten() {
            column.values.push(-1);
        }
        if let Some(tombstones) = &mut self.tombstones {
            tombstones.push(false);
        }
        if let Some(sequences) = &mut self.sequences {
            sequences.values.push(-1);
        }
        for (column, runs) in &mut self.shared {
            let value = match column {
                Column::Topic => Shared::Text(Arc::clone(&self.topic)),
                Column::Partition => Shared::Int(i64::from(self.partition)),
                Column::BatchPosition => Shared::Int(position as i64),
                Column::CorruptRecord => Shared::Text(what.into()),
                _ => Shared::Null,
            };
            runs.push(value, 1);
        }
        self.null_rows.push(self.rows);
        self.rows += 1;
    }
}
