//! Arrow columns to batches: held against the columns and the bytes that they come from, and against columns that cannot be.

mod columns;
mod flaws;

use std::sync::Arc;

use arrow_array::{ArrayRef, BinaryArray, BooleanArray, Int32Array, Int64Array, RecordBatch, StringArray};
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::Selection;
use crate::arrow::tests::{Row, back, encode_as, read, rows};
use crate::arrow::{Column, Flavor, Shape};
use crate::codec::Codec;
use crate::encode::Encoder;
use crate::format::Dialect;
use crate::limits::Limits;
use crate::log::{Log, Mode, Options};
use crate::record::{Record, Sink};

/// Topic, partition, batches.
type Made = (String, i32, Vec<u8>);

fn incoming() -> Incoming {
    Incoming {
        format: Format::V2,
        fields: BatchFields::default(),
        batch_bytes: 1 << 20,
        topic: None,
        partition: None,
        timestamp: 7,
        keep_offsets: false,
        base_offset: 0,
        keep_producers: false,
    }
}

fn table(columns: &[(&str, ArrayRef)]) -> RecordBatch {
    RecordBatch::try_from_iter(columns.iter().map(|(name, array)| (*name, Arc::clone(array))))
        .expect("a table")
}

fn encode(incoming: Incoming, batches: &[RecordBatch]) -> Result<Vec<Made>, ColumnsError> {
    let mut made: Vec<Made> = Vec::new();
    let mut encoder = ColumnEncoder::new(incoming);
    let mut take = |encoder: &mut ColumnEncoder| {
        encoder.take(|ready| {
            let place = made.iter_mut().find(|it| it.0 == ready.topic && it.1 == ready.partition);
            match place {
                Some(place) => place.2.extend_from_slice(ready.bytes),
                None => made.push((ready.topic.to_owned(), ready.partition, ready.bytes.to_vec())),
            }
        });
    };
    for batch in batches {
        encoder.push(batch)?;
        take(&mut encoder);
    }
    encoder.finish()?;
    take(&mut encoder);
    encoder.take(|ready| panic!("{ready:?} was taken"));
    Ok(made)
}

/// The rows of one partition's batches.
fn shown(log: &[u8]) -> Vec<Row> {
    back(&read(log, Shape::default(), Selection::default(), Mode::FailFast))
}

fn sizes(log: &[u8]) -> Vec<i32> {
    Log::new(log, Options::default())
        .map(|entry| entry.expect("sound").head.count.expect("a batch"))
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 1 } else { 48 }))]
    #[test]
    fn what_was_read_is_written(
        batches in vec(vec(rows(), 1..if cfg!(miri) { 3 } else { 40 }), 1..if cfg!(miri) { 3 } else { 5 }),
        views: bool,
        spark: bool,
        all: bool,
        v3: bool,
    ) {
        let mut batches = batches;
        let format = if v3 { Format::V3 } else { Format::V2 };
        let log = encode_as(format, &mut batches, Codec::None);
        let columns = if all { Column::ALL.to_vec() } else { Column::DEFAULT.to_vec() };
        let shape = Shape { columns, flavor: Flavor { views, spark }, bytes: 4096, ..Shape::default() };
        let read = read(&log, shape, Selection::default(), Mode::FailFast);
        let kept = Incoming { format, keep_offsets: true, ..incoming() };
        let [(topic, partition, bytes)] = &encode(kept, &read).expect("written")[..] else { panic!("one partition") };
        prop_assert_eq!((topic.as_str(), *partition), ("t", 3));
        prop_assert_eq!(shown(bytes), batches.concat());
        let whole = Incoming { format, base_offset: 0, ..incoming() };
        prop_assert_eq!(&encode(whole, &read).expect("written")[0].2, bytes, "the same offsets, counted");
    }
}

/// Batches of producers, a transaction and its marker, an append time, an epoch: fields that rows hand back to a batch.
fn of_producers() -> Vec<u8> {
    let (mut encoder, mut out) = (Encoder::new(), Vec::new());
    let usual = BatchFields::default;
    let producer =
        |base_sequence| BatchFields { producer_id: 9, producer_epoch: 2, base_sequence, ..usual() };
    let record = |offset, value: &'static [u8]| NewRecord {
        offset,
        timestamp: 50,
        value: Some(value),
        ..NewRecord::default()
    };
    let mut put = |fields: BatchFields, offsets: std::ops::Range<i64>| {
        let records: Vec<_> = offsets.map(|offset| record(offset, b"value")).collect();
        encoder.encode(Format::V2, &fields, &records, &mut out).expect("written");
    };
    put(usual(), 0..3);
    put(producer(i32::MAX - 1), 3..7); // 2147483646, 2147483647, 0, 1
    put(producer(2), 7..8); // goes on with the batch before
    put(producer(40), 8..10);
    put(BatchFields { transactional: true, ..producer(42) }, 10..12);
    put(BatchFields { leader_epoch: 4, ..usual() }, 12..13);
    let append =
        BatchFields { timestamp_type: TimestampType::LogAppendTime, max_timestamp: Some(50), ..usual() };
    put(append, 13..16);
    for offset in [16, 17] {
        let marker =
            NewRecord { key: Some(&[0, 0, 0, 1]), value: Some(&[0, 0, 0, 0, 0, 3]), ..record(offset, b"") };
        let fields = BatchFields { control: true, ..producer(-1) };
        let fields = BatchFields { transactional: true, ..fields };
        encoder.encode(Format::V2, &fields, [marker], &mut out).expect("written");
    }
    out
}

fn every_column(log: &[u8]) -> Vec<RecordBatch> {
    let shape = Shape { columns: Column::ALL.to_vec(), ..Shape::default() };
    read(log, shape, Selection { control: true, ..Selection::default() }, Mode::FailFast)
}

#[test]
fn producers_transactions_and_markers_come_back_to_the_byte() {
    let log = of_producers();
    let columns = every_column(&log);
    let kept = Incoming { keep_offsets: true, keep_producers: true, ..incoming() };
    let [(_, _, bytes)] = &encode(kept, &columns).expect("written")[..] else { panic!("one partition") };
    // Two batches are one where the second goes on with the first, its sequences over the end of an int32 included.
    assert_eq!(sizes(&log), [3, 4, 1, 2, 2, 1, 3, 1, 1]);
    assert_eq!(sizes(bytes), [3, 5, 2, 2, 1, 3, 1, 1]);
    let columns_of = |log: &[u8]| {
        let keep = Column::ALL.iter().filter(|it| !matches!(it, Column::BaseOffset | Column::BatchPosition));
        let shape = Shape { columns: keep.copied().collect(), ..Shape::default() };
        read(log, shape, Selection { control: true, ..Selection::default() }, Mode::FailFast)
    };
    assert_eq!(columns_of(bytes), columns_of(&log));
    let again = Incoming { keep_offsets: true, keep_producers: true, ..incoming() };
    assert_eq!(encode(again, &every_column(bytes)).expect("written")[0].2, *bytes);
}

#[test]
fn producers_are_left_out_unless_they_are_to_be_kept() {
    let log = of_producers();
    let shape = Shape { columns: Column::ALL.to_vec(), ..Shape::default() };
    let columns = read(&log, shape, Selection { offsets: 0..16, ..Selection::default() }, Mode::FailFast);
    let [(_, _, bytes)] = &encode(incoming(), &columns).expect("written")[..] else {
        panic!("one partition")
    };
    for entry in Log::new(bytes, Options::default()) {
        let head = entry.expect("sound").head;
        assert_eq!((head.producer_id, head.producer_epoch, head.base_sequence), (-1, -1, -1));
        assert!(!head.is_transactional());
    }
    assert_eq!(sizes(bytes), [12, 1, 3], "a leader's epoch and an append time are the batch's own");
    // A control record would be data for who reads it.
    let error = encode(incoming(), &every_column(&log)).expect_err("a marker");
    let partition = Some(("t".to_owned(), 3));
    assert_eq!(error, ColumnsError::Row { row: 16, partition, flaw: RowFlaw::Control });
    assert_eq!(error.to_string(), "row 16 (t-3): a control record, and producers' fields are not kept");
}

#[test]
fn partitions_in_any_mixture_keep_their_order() {
    let topics: ArrayRef = Arc::new(StringArray::from(vec!["a", "b", "a", "a", "b", "a"]));
    let partitions: ArrayRef = Arc::new(Int32Array::from(vec![0, 0, 1, 0, 0, 1]));
    let values: ArrayRef = Arc::new(BinaryArray::from_vec(vec![b"0", b"1", b"2", b"3", b"4", b"5"]));
    let rows = table(&[("topic", topics), ("partition", partitions), ("value", values)]);
    let given = Incoming { base_offset: 100, batch_bytes: 0, ..incoming() };
    let made = encode(given, &[rows.clone(), rows]).expect("written");
    let found: Vec<_> =
        made.iter().map(|(topic, partition, log)| (topic.as_str(), *partition, shown(log))).collect();
    let expected = [("a", 0, [b"0", b"3"]), ("b", 0, [b"1", b"4"]), ("a", 1, [b"2", b"5"])];
    for ((topic, partition, rows), (its_topic, its_partition, values)) in found.iter().zip(expected) {
        assert_eq!((*topic, *partition), (its_topic, its_partition));
        let values = [values, values].concat();
        let each: Vec<_> = rows.iter().map(|row| row.value.clone().expect("a value")).collect();
        assert_eq!(each, values);
        assert_eq!(rows.iter().map(|row| row.offset).collect::<Vec<_>>(), [100, 101, 102, 103]);
        assert!(rows.iter().all(|row| row.timestamp == 7));
    }
    // No record fits beside another into a batch of no bytes.
    assert!(made.iter().all(|(_, _, log)| sizes(log) == [1, 1, 1, 1]));
}

#[test]
fn what_is_given_for_all_rows_wins() {
    let columns: [(&str, ArrayRef); 3] = [
        ("topic", Arc::new(StringArray::from(vec!["a", "b"]))),
        ("partition", Arc::new(Int32Array::from(vec![1, 2]))),
        ("offset", Arc::new(Int64Array::from(vec![Some(5), Some(9)]))),
    ];
    let given = Incoming { topic: Some("all".into()), partition: Some(8), keep_offsets: true, ..incoming() };
    let [(topic, 8, log)] = &encode(given, &[table(&columns)]).expect("written")[..] else { panic!("one") };
    assert_eq!(topic, "all");
    assert_eq!(shown(log).iter().map(|row| row.offset).collect::<Vec<_>>(), [5, 9]);
}

#[derive(Default)]
struct Flags(Vec<Option<bool>>);

impl<'a> Sink<'a> for Flags {
    fn record(&mut self, record: &Record<'a>) -> bool {
        self.0.push(record.tombstone);
        false
    }

    fn header(&mut self, _key: &'a [u8], _value: Option<&'a [u8]>) {}
}

#[test]
fn a_tombstone_by_its_flag() {
    let columns: [(&str, ArrayRef); 3] = [
        ("key", Arc::new(BinaryArray::from_vec(vec![b"a", b"b", b"c"]))),
        ("value", Arc::new(BinaryArray::from_opt_vec(vec![Some(b"1"), Some(b"2"), None]))),
        ("tombstone", Arc::new(BooleanArray::from(vec![Some(true), Some(false), None]))),
    ];
    let given = Incoming { format: Format::Kip87, topic: Some("t".into()), partition: Some(0), ..incoming() };
    let [(_, _, log)] = &encode(given.clone(), &[table(&columns)]).expect("written")[..] else {
        panic!("one")
    };
    let mut flags = Flags::default();
    for entry in Log::new(log, Options { dialect: Dialect::Only(Format::Kip87), ..Options::default() }) {
        let (entry, limits) = (entry.expect("sound"), Limits::default());
        entry.payload(&[], None).expect("not compressed").decode(&limits, &mut flags).expect("sound");
    }
    assert_eq!(flags.0, [Some(true), Some(false), Some(true)]);
    let error =
        encode(Incoming { format: Format::V2, ..given }, &[table(&columns)]).expect_err("no such flag");
    let flaw = RowFlaw::Encode(EncodeFlaw::TombstoneValue);
    assert_eq!(error, ColumnsError::Row { row: 0, partition: Some(("t".into(), 0)), flaw });
}
