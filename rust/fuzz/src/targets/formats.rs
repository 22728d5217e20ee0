//! Entries of each format, decoded twice: record by record, and as Arrow columns. Both must say the same, and the
//! strict pass must agree on what is readable.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int8Type, Int16Type, Int32Type, Int64Type, TimestampMicrosecondType};
use arrow_array::{Array, ArrayRef, RecordBatch};
use magicbyte::arrow::{Builder, Column, Columnar, Flavor, Pool, Pulled, Shape};
use magicbyte::header::key_text;
use magicbyte::verify::{Beside, Verifier};
use magicbyte::{Dialect, Entries, Entry, Format, Log, Mode, Options, Selection};

use super::rows::{Row, rows};
use super::{LIMITS, control, mended};

const STRINGS: [Column; 4] = [Column::Key, Column::Value, Column::Offset, Column::Timestamp];
const NUMBERS: [Column; 3] = [Column::Offset, Column::TimestampMs, Column::BatchPosition];

/// See the module.
pub fn run(data: &[u8]) {
    let Some((bytes, [choice, flags])) = control(data) else { return };
    let format = Format::ALL[usize::from(choice) % Format::ALL.len()];
    let dialect = Dialect::of(format);
    let built;
    let bytes = if flags & 1 != 0 {
        built = headed(bytes, format, flags);
        &built[..]
    } else {
        bytes
    };
    let bytes = mended(bytes, dialect);
    let options = Options { dialect, mode: Mode::DropMalformed, limits: LIMITS, ..Options::default() };
    let mut verifier = Verifier::new(LIMITS);
    verifier.begin(None, true, &Beside::default());
    let mut all = Vec::new();
    for entry in Log::new(&bytes, options).filter_map(Result::ok) {
        let (mut read, whole) = rows(&entry, &LIMITS);
        let row = verifier.entry(&entry);
        assert_eq!(row.readable, whole.is_ok(), "{whole:?} {:?}", verifier.findings());
        assert_eq!(row.records as usize, read.len());
        // Columns take a batch whole or not at all.
        if whole.is_ok() {
            all.extend(read.drain(..).map(|row| (Expected::of(&entry), row)));
        }
    }
    for flavor in [(false, false), (false, true), (true, false), (true, true)] {
        let flavor = Flavor { views: flavor.0, spark: flavor.1 };
        // Each set is filled in a way of its own.
        for set in [&Column::ALL[..], &Column::DEFAULT, &STRINGS, &NUMBERS] {
            // Full record batches of a few rows, or one of all: then each Kafka batch goes on in the middle.
            for full in [7, 64 << 10] {
                compare(&all, &columns(&bytes, options, flavor, set, full), flavor);
            }
        }
    }
}

/// A record batch header in front of bytes that are taken for records; only for the formats with a fixed one.
fn headed(bytes: &[u8], format: Format, flags: u8) -> Vec<u8> {
    if !matches!(format, Format::V2 | Format::Kip82b) || bytes.len() > LIMITS.batch as usize / 2 {
        return bytes.to_vec();
    }
    let (records, count) = match bytes.split_last() {
        Some((count, records)) => (records, *count),
        None => (bytes, 0),
    };
    let mut out = vec![0; 8];
    out.extend_from_slice(&(49 + records.len() as i32).to_be_bytes());
    out.extend_from_slice(&[0, 0, 0, 7, 2, 0, 0, 0, 0, 0, flags >> 1]);
    out.extend_from_slice(&[0, 0, 0, 99]);
    out.extend_from_slice(&1_700_000_000_000_i64.to_be_bytes());
    out.extend_from_slice(&1_700_000_009_999_i64.to_be_bytes());
    out.extend_from_slice(&[0xff; 14]);
    out.extend_from_slice(&i32::from(count).to_be_bytes());
    out.extend_from_slice(records);
    out
}

/// What every record of an entry says of it.
#[derive(Clone, Copy, Debug)]
struct Expected {
    position: u64,
    magic: i8,
    codec: &'static str,
    leader_epoch: i32,
    producer_id: i64,
    producer_epoch: i16,
    transactional: bool,
    control: bool,
    base: Option<i64>,
    sequence: i32,
}

impl Expected {
    fn of(entry: &Entry<'_>) -> Self {
        let head = &entry.head;
        Self {
            position: entry.position,
            magic: head.format.traits().magic,
            codec: head.codec().map_or("?", magicbyte::Codec::name),
            leader_epoch: head.leader_epoch,
            producer_id: head.producer_id,
            producer_epoch: head.producer_epoch,
            transactional: head.is_transactional(),
            control: head.is_control(),
            // A wrapper's is known when it is open.
            base: head.count.map(|_| head.base_offset),
            sequence: head.base_sequence,
        }
    }
}

fn columns(
    bytes: &[u8],
    options: Options,
    flavor: Flavor,
    columns: &[Column],
    rows: usize,
) -> Vec<RecordBatch> {
    let log = arrow_buffer::Buffer::from(bytes.to_vec());
    let shape = Shape { columns: columns.to_vec(), flavor, rows, ..Shape::default() };
    let selection = Selection { control: true, ..Selection::default() };
    let mut builder = Builder::new(shape, selection, Pool::new());
    builder.set_partition("t", 3);
    let mut columnar = Columnar::new(builder, options.limits, options.mode);
    let mut entries = Entries::new(&log, options, 0);
    let mut batches = Vec::new();
    loop {
        let pulled = columnar.pull(&mut entries).expect("no failure in this mode");
        batches.extend(columnar.take().expect("columns"));
        if pulled == Pulled::End {
            return batches;
        }
    }
}

fn compare(want: &[(Expected, Row)], batches: &[RecordBatch], flavor: Flavor) {
    assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), want.len());
    let mut want = want.iter();
    for batch in batches {
        for column in batch.columns() {
            column.to_data().validate_full().expect("sound Arrow data");
        }
        let table = Table::of(batch);
        for at in 0..batch.num_rows() {
            let (entry, row) = want.next().expect("as many rows");
            table.check(at, entry, row, flavor);
        }
    }
}

/// The columns of a record batch, as far as they are there, out of their types.
struct Table<'a> {
    batch: &'a RecordBatch,
    keys: Option<Vec<Option<Vec<u8>>>>,
    values: Option<Vec<Option<Vec<u8>>>>,
}

/// A cell of a column of numbers; nothing where there is no such column.
macro_rules! cell {
    ($table:expr, $name:expr, $type:ty, $at:expr) => {
        $table.batch.column_by_name($name).map(|column| {
            let array = column.as_primitive::<$type>();
            array.is_valid($at).then(|| array.value($at))
        })
    };
}

/// What is there must be so.
fn same<T: PartialEq + std::fmt::Debug>(name: &str, have: Option<T>, want: T) {
    if let Some(have) = have {
        assert_eq!(have, want, "{name}");
    }
}

impl<'a> Table<'a> {
    fn of(batch: &'a RecordBatch) -> Self {
        let column = |name: &str| batch.column_by_name(name).map(binaries);
        Self { batch, keys: column("key"), values: column("value") }
    }

    fn flag(&self, name: &str, at: usize) -> Option<Option<bool>> {
        let array = self.batch.column_by_name(name)?.as_boolean();
        Some(array.is_valid(at).then(|| array.value(at)))
    }

    fn text(&self, name: &str, at: usize) -> Option<Option<&'a str>> {
        let array = self.batch.column_by_name(name)?.as_string::<i32>();
        Some(array.is_valid(at).then(|| array.value(at)))
    }

    fn check(&self, at: usize, entry: &Expected, row: &Row, flavor: Flavor) {
        same("key", self.keys.as_ref().map(|keys| &keys[at]), &row.key);
        same("value", self.values.as_ref().map(|values| &values[at]), &row.value);
        same("offset", cell!(self, "offset", Int64Type, at), Some(row.offset));
        same("timestampMs", cell!(self, "timestampMs", Int64Type, at), Some(row.seen));
        let kind = i32::from(row.timestamp_type);
        same("timestampType", cell!(self, "timestampType", Int32Type, at), Some(kind));
        // What does not fit in microseconds is null there, and stays in milliseconds.
        let fits = row.seen.checked_mul(1000).filter(|_| flavor.spark || row.seen != -1);
        same("timestamp", cell!(self, "timestamp", TimestampMicrosecondType, at), fits);
        self.check_headers(at, row, flavor);
        same("topic", self.text("topic", at), Some("t"));
        same("partition", cell!(self, "partition", Int32Type, at), Some(3));
        same("batchPosition", cell!(self, "batchPosition", Int64Type, at), Some(entry.position as i64));
        same("magic", cell!(self, "magic", Int8Type, at), Some(entry.magic));
        same("codec", self.text("codec", at), Some(entry.codec));
        same("leaderEpoch", cell!(self, "leaderEpoch", Int32Type, at), Some(entry.leader_epoch));
        same("producerId", cell!(self, "producerId", Int64Type, at), Some(entry.producer_id));
        same("producerEpoch", cell!(self, "producerEpoch", Int16Type, at), Some(entry.producer_epoch));
        same("isTransactional", self.flag("isTransactional", at), Some(entry.transactional));
        same("isControl", self.flag("isControl", at), Some(entry.control));
        let tombstone = row.tombstone.unwrap_or(row.value.is_none());
        same("tombstone", self.flag("tombstone", at), Some(tombstone));
        same("_corrupt_record", self.text("_corrupt_record", at), None);
        let mut sequence = -1;
        if let Some(base) = entry.base {
            same("baseOffset", cell!(self, "baseOffset", Int64Type, at), Some(base));
            if entry.sequence >= 0 {
                let next = i64::from(entry.sequence).wrapping_add(row.offset.wrapping_sub(base));
                sequence = next.rem_euclid(1 << 31) as i32;
            }
        }
        same("sequence", cell!(self, "sequence", Int32Type, at), Some(sequence));
    }

    fn check_headers(&self, at: usize, row: &Row, flavor: Flavor) {
        if let Some(list) = self.batch.column_by_name("headers") {
            let list = list.as_list::<i32>();
            assert_eq!(list.is_null(at), flavor.spark && row.headers.is_empty());
            let pairs = list.value(at);
            let pairs = pairs.as_struct();
            let (keys, values) = (texts(pairs.column(0)), binaries(pairs.column(1)));
            assert_eq!(keys.len(), row.headers.len());
            for (index, (key, value)) in row.headers.iter().enumerate() {
                assert_eq!(keys[index].as_deref(), Some(&*key_text(key)));
                assert_eq!(&values[index], value);
            }
        }
        if let Some(raw) = self.batch.column_by_name("rawHeaderKeys") {
            let raw = raw.as_list::<i32>();
            let raw = if raw.is_null(at) { Vec::new() } else { binaries(&raw.value(at)) };
            assert!(raw.iter().map(Option::as_ref).eq(row.headers.iter().map(|(key, _)| Some(key))));
        }
    }
}

fn binaries(array: &ArrayRef) -> Vec<Option<Vec<u8>>> {
    match Arc::clone(array).as_binary_opt::<i32>() {
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
