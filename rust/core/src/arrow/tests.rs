//! Columns against the records that they come from.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type, TimestampMicrosecondType};
use arrow_array::{Array, ArrayRef, RecordBatch};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::*;
use crate::encode::Encoder;
use crate::limits::Limits;
use crate::log::{Mode, Options};
use crate::new_record::{BatchFields, NewHeaders, NewRecord};
use crate::source::Entries;
use crate::{Codec, Format, Header, Selection};

pub(super) type Bytes = Vec<u8>;

/// Records of a batch that is more than its neighbours: few under Miri, which takes a thousand times as long.
const MANY: usize = if cfg!(miri) { 6 } else { 600 };

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Row {
    pub(super) offset: i64,
    pub(super) timestamp: i64,
    pub(super) key: Option<Bytes>,
    pub(super) value: Option<Bytes>,
    pub(super) headers: Vec<(String, Option<Bytes>)>,
}

fn strings(longest: usize) -> impl Strategy<Value = Bytes> {
    // The lengths around which copies change their way.
    let lengths =
        prop_oneof![0..=longest, Just(12), Just(13), Just(16), Just(32), Just(33), Just(64), Just(128)];
    lengths.prop_flat_map(|length| vec(any::<u8>(), length))
}

pub(super) fn rows() -> impl Strategy<Value = Row> {
    let headers = vec(("[a-zé]{0,20}", option::of(strings(40))), 0..4);
    let fields = (0i64..9_000_000, option::of(strings(40)), option::of(strings(300)), headers);
    fields.prop_map(|(timestamp, key, value, headers)| Row { offset: 0, timestamp, key, value, headers })
}

fn encode(batches: &mut [Vec<Row>], codec: Codec) -> Bytes {
    encode_as(Format::V2, batches, codec)
}

pub(super) fn encode_as(format: Format, batches: &mut [Vec<Row>], codec: Codec) -> Bytes {
    let (mut encoder, mut out, mut offset) = (Encoder::new(), Bytes::new(), 0);
    for batch in batches {
        batch.iter_mut().zip(offset..).for_each(|(row, offset)| row.offset = offset);
        offset += batch.len() as i64;
        let headers: Vec<Vec<Header<'_>>> = batch
            .iter()
            .map(|row| {
                let header = row.headers.iter();
                header.map(|(key, value)| Header { key: key.as_bytes(), value: value.as_deref() }).collect()
            })
            .collect();
        let records = batch.iter().zip(&headers).map(|(row, headers)| NewRecord {
            offset: row.offset,
            timestamp: row.timestamp,
            key: row.key.as_deref(),
            value: row.value.as_deref(),
            headers: NewHeaders::List(headers),
            ..NewRecord::default()
        });
        let fields = BatchFields { codec, ..BatchFields::default() };
        encoder.encode(format, &fields, records, &mut out).expect("can be written");
    }
    out
}

pub(super) fn read(log: &[u8], shape: Shape, selection: Selection, mode: Mode) -> Vec<RecordBatch> {
    let log = arrow_buffer::Buffer::from(log.to_vec());
    let mut builder = Builder::new(shape, selection, Pool::new());
    builder.set_partition("t", 3);
    let mut columnar = Columnar::new(builder, Limits::default(), mode);
    let mut entries = Entries::new(&log, Options { mode, ..Options::default() }, 0);
    let mut batches = Vec::new();
    loop {
        let pulled = columnar.pull(&mut entries).expect("no failure in this mode");
        batches.extend(columnar.take().expect("columns"));
        if pulled == Pulled::End {
            return batches;
        }
    }
}

fn bytes(array: &ArrayRef) -> Vec<Option<Bytes>> {
    match array.as_binary_opt::<i32>() {
        Some(array) => array.iter().map(|bytes| bytes.map(<[u8]>::to_vec)).collect(),
        None => array.as_binary_view().iter().map(|bytes| bytes.map(<[u8]>::to_vec)).collect(),
    }
}

fn texts(array: &ArrayRef) -> Vec<Option<String>> {
    match array.as_string_opt::<i32>() {
        Some(array) => array.iter().map(|text| text.map(str::to_owned)).collect(),
        None => array.as_string_view().iter().map(|text| text.map(str::to_owned)).collect(),
    }
}

pub(super) fn back(batches: &[RecordBatch]) -> Vec<Row> {
    let mut rows = Vec::new();
    for batch in batches {
        let column = |name: &str| Arc::clone(batch.column_by_name(name).expect("a column"));
        let (keys, values) = (bytes(&column("key")), bytes(&column("value")));
        let (offsets, times) = (column("offset"), column("timestamp"));
        let (offsets, times) =
            (offsets.as_primitive::<Int64Type>(), times.as_primitive::<TimestampMicrosecondType>());
        assert!(column("partition").as_primitive::<Int32Type>().iter().all(|number| number == Some(3)));
        assert!(texts(&column("topic")).iter().all(|topic| topic.as_deref() == Some("t")));
        let headers = column("headers");
        for row in 0..batch.num_rows() {
            let pairs = headers.as_list::<i32>();
            let pairs = if pairs.is_null(row) { None } else { Some(pairs.value(row)) };
            let headers = pairs.map_or_else(Vec::new, |pairs| {
                let pairs = pairs.as_struct();
                let keys = texts(pairs.column(0)).into_iter().map(|key| key.expect("never null"));
                keys.zip(bytes(pairs.column(1))).collect()
            });
            let (offset, timestamp) = (offsets.value(row), times.value(row) / 1000);
            rows.push(Row { offset, timestamp, key: keys[row].clone(), value: values[row].clone(), headers });
        }
    }
    rows
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 1 } else { 64 }))]
    #[test]
    fn every_field_of_every_record(
        batches in vec(vec(rows(), 1..MANY.min(40)), 1..MANY.min(8)),
        wide in vec(rows(), MANY / 2..MANY),
        views: bool,
        spark: bool,
        lz4: bool,
        size in prop_oneof![Just(1usize), Just(4096), Just(1 << 20)],
    ) {
        let mut batches = batches;
        batches.push(wide);
        // Miri runs no C.
        let log = encode(&mut batches, if lz4 && !cfg!(miri) { Codec::Lz4 } else { Codec::None });
        let all: Vec<Row> = batches.concat();
        let shape = || Shape { flavor: Flavor { views, spark }, bytes: size, ..Shape::default() };
        prop_assert_eq!(&back(&read(&log, shape(), Selection::default(), Mode::FailFast)), &all);

        // The middle third only.
        let (from, to) = (all.len() as i64 / 3, all.len() as i64 * 2 / 3);
        let selection = Selection { offsets: from..to, ..Selection::default() };
        let part = back(&read(&log, shape(), selection, Mode::FailFast));
        prop_assert_eq!(&part[..], &all[from as usize..to as usize]);
    }

    /// The checksum holds and the records break: the batch leaves no trace, what is around it stays.
    #[test]
    fn a_batch_whole_or_not_at_all(
        before in vec(rows(), 1..MANY / 2),
        broken in vec(rows(), 1..MANY),
        after in vec(rows(), 1..MANY / 2),
        views: bool,
        spark: bool,
        cut in 0.0f64..1.0,
    ) {
        let mut batches = [before, broken, after];
        let logs: Vec<Bytes> = {
            let whole = encode(&mut batches, Codec::None);
            let size = |at: usize| 12 + i32::from_be_bytes(whole[at + 8..at + 12].try_into().expect("4")) as usize;
            let (first, second) = (size(0), size(size(0)));
            vec![whole[..first].to_vec(), whole[first..first + second].to_vec(), whole[first + second..].to_vec()]
        };
        let mut bad = logs[1].clone();
        // A record's length that cannot be.
        let at = 61 + ((bad.len() - 61) as f64 * cut) as usize;
        bad[at] ^= 0x55;
        let crc = crate::checksum::Checksum::Crc32C.of(&bad[21..]).to_be_bytes();
        bad[17..21].copy_from_slice(&crc);
        let log = [&logs[0][..], &bad, &logs[2]].concat();
        let shape = Shape { flavor: Flavor { views, spark }, ..Shape::default() };
        let rows = back(&read(&log, shape, Selection::default(), Mode::DropMalformed));
        // A flipped byte may also hit a payload, which leaves the batch sound.
        if rows.len() < batches.concat().len() {
            prop_assert_eq!(rows, [&batches[0][..], &batches[2]].concat());
        }
    }

    /// By its header all of a batch is wanted, by its records some: the records decide, and no row comes twice.
    #[test]
    fn a_header_that_hides_some_of_its_offsets(rows in vec(rows(), 11..MANY.clamp(13, 60)), views: bool, spark: bool) {
        let mut batches = [rows];
        let mut log = encode(&mut batches, Codec::None);
        log[23..27].copy_from_slice(&4i32.to_be_bytes());
        let crc = crate::checksum::Checksum::Crc32C.of(&log[21..]).to_be_bytes();
        log[17..21].copy_from_slice(&crc);
        let shape = Shape { flavor: Flavor { views, spark }, ..Shape::default() };
        let selection = Selection { offsets: 0..10, ..Selection::default() };
        prop_assert_eq!(&back(&read(&log, shape, selection, Mode::FailFast))[..], &batches[0][..10]);
    }
}

/// In the midst of sound batches, whatever the columns are and however they are shown.
#[test]
fn damage_is_a_row_of_its_own() {
    let row = |value: &str| Row {
        offset: 0,
        timestamp: 5,
        key: Some(b"k".to_vec()),
        value: Some(value.into()),
        headers: vec![("h".into(), None)],
    };
    let mut batches = ["one", "two", "three"].map(|value| vec![row(value)]);
    let mut log = encode(&mut batches, Codec::None);
    let size = 12 + i32::from_be_bytes(log[8..12].try_into().expect("4")) as usize;
    log[size + 17] ^= 1; // the second one's checksum
    for flavor in [(false, false), (true, false), (false, true), (true, true)] {
        let flavor = Flavor { views: flavor.0, spark: flavor.1 };
        let shape = Shape { columns: Column::ALL.to_vec(), flavor, ..Shape::default() };
        let found = read(&log, shape.clone(), Selection::default(), Mode::Permissive);
        let [batch] = &found[..] else { panic!("one record batch") };
        assert_eq!(batch.num_rows(), 3);
        let column = |name: &str| batch.column_by_name(name).expect("a column");
        let told = texts(column("_corrupt_record"));
        let said = told[1].as_deref().expect("damage");
        assert!(said.starts_with(&format!("crc: {size} bytes at {size}: wrong checksum")), "{said}");
        assert_eq!((&told[0], &told[2]), (&None, &None));
        let all = ["topic", "partition", "batchPosition", "_corrupt_record"];
        for (field, array) in batch.schema().fields().iter().zip(batch.columns()) {
            assert_eq!(array.is_valid(1), all.contains(&field.name().as_str()), "{}", field.name());
        }
        assert_eq!(column("batchPosition").as_primitive::<Int64Type>().value(1), size as i64);
        assert_eq!(column("partition").as_primitive::<Int32Type>().value(1), 3);
        assert_eq!(texts(column("topic"))[1].as_deref(), Some("t"));
        let values = bytes(column("value"));
        assert_eq!((values[0].as_deref(), values[2].as_deref()), (Some(&b"one"[..]), Some(&b"three"[..])));
        // Passed over in one mode, an error in the other.
        let rest = read(&log, shape.clone(), Selection::default(), Mode::DropMalformed);
        assert_eq!(rest.iter().map(RecordBatch::num_rows).sum::<usize>(), 2);
        let mut columnar = Columnar::new(
            Builder::new(shape, Selection::default(), Pool::new()),
            Limits::default(),
            Mode::FailFast,
        );
        let whole = arrow_buffer::Buffer::from(log.clone());
        let error = columnar.pull(&mut Entries::new(&whole, Options::default(), 0)).expect_err("damage");
        assert!(error.to_string().starts_with(&format!("at byte {size}: wrong checksum")), "{error}");
    }
}

/// Batches outside of the range are passed over by their headers; a hole and a torn tail between them are still told.
#[test]
fn damage_between_what_is_passed_over() {
    let row = Row { offset: 0, timestamp: 7, key: None, value: Some(vec![1; 50]), headers: Vec::new() };
    let mut batches: Vec<Vec<Row>> = (0..4).map(|_| vec![row.clone(); 10]).collect();
    let whole = encode(&mut batches, Codec::None);
    let size = whole.len() / 4;
    let hole = vec![0xee; 100];
    let log = [&whole[..size], &hole, &whole[size..], &whole[..size - 1]].concat();
    for (range, rows) in [(20..30, 20..30), (5..15, 5..15), (100..200, 0..0), (i64::MIN..i64::MAX, 0..40)] {
        let selection = Selection { offsets: range, ..Selection::default() };
        let mut builder = Builder::new(Shape::default(), selection, Pool::new());
        builder.set_partition("t", 3);
        let mut columnar = Columnar::new(builder, Limits::default(), Mode::DropMalformed);
        let options = Options { mode: Mode::DropMalformed, ..Options::default() };
        let mut entries = Entries::new(&log[..], options, 0);
        assert_eq!(columnar.pull(&mut entries).expect("bytes in hand"), Pulled::End);
        let found: Vec<_> = columnar.found.iter().map(|damage| damage.range.clone()).collect();
        let (at, end) = (size as u64, log.len() as u64);
        assert_eq!(found, [at..at + 100, end - (at - 1)..end]);
        let taken: Vec<_> = columnar.take().expect("columns").into_iter().collect();
        assert_eq!(back(&taken), batches.concat()[rows]);
    }
}
