//! Entries of each format, decoded twice: record by record, and as Arrow columns. Both must say the same, and the
//! strict pass must agree on what is readable.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int8Type, Int16Type, Int32Type, Int64Type, TimestampMicrosecondType};
use arrow_array::{Array, ArrayRef, RecordBatch};
use magicbyte::arrow::{Builder, Column, Columnar, Flavor, Pool, Pulled, Shape};
use magicbyte::header::key_text;
use magicbyte::verify::{Beside, Verifier};
use magicbyte::{Dialect, Entries, Entry, Format, Log, Mode, Options, Selection, Source};

use super::rows::{Row, rows};
use super::{LIMITS, control, mended};

/// How to read nothing but this format, or one of those that share its magic.
pub(crate) fn dialect(format: Format) -> Dialect {
    match format {
        Format::Kip87 => Dialect::Kip87,
        Format::Kip82a => Dialect::Kip82a,
        Format::Kip82b => Dialect::Kip82b,
        other => Dialect::Only(other),
    }
}

/// See the module.
pub fn run(data: &[u8]) {
    let Some((bytes, [choice, flags])) = control(data) else { return };
    let format = Format::ALL[usize::from(choice) % Format::ALL.len()];
    let dialect = dialect(format);
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
        compare(&all, &columns(&bytes, options, flavor), flavor);
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
    batch: bool,
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
            batch: head.count.is_some(),
        }
    }
}

/// A log in memory that views may point into.
struct InMemory<'a>(&'a arrow_buffer::Buffer);

impl Source for InMemory<'_> {
    fn fill(&mut self, _position: u64, _need: u64) -> std::io::Result<()> {
        Ok(())
    }

    fn window(&self) -> (&[u8], u64, bool) {
        (self.0, 0, true)
    }

    fn buffer(&self) -> Option<arrow_buffer::Buffer> {
        Some(self.0.clone())
    }
}

fn columns(bytes: &[u8], options: Options, flavor: Flavor) -> Vec<RecordBatch> {
    let log = arrow_buffer::Buffer::from(bytes.to_vec());
    let shape = Shape { columns: Column::ALL.to_vec(), flavor, rows: 7, ..Shape::default() };
    let selection = Selection { control: true, ..Selection::default() };
    let mut builder = Builder::new(shape, selection, Pool::new());
    builder.set_partition("t", 3);
    let mut columnar = Columnar::new(builder, options.limits, options.mode);
    let mut entries = Entries::new(InMemory(&log), options, 0);
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

/// The columns of a record batch, out of their types.
struct Table<'a> {
    batch: &'a RecordBatch,
    keys: Vec<Option<Vec<u8>>>,
    values: Vec<Option<Vec<u8>>>,
}

impl<'a> Table<'a> {
    fn of(batch: &'a RecordBatch) -> Self {
        let column = |name: &str| binaries(batch.column_by_name(name).expect("a column"));
        Self { batch, keys: column("key"), values: column("value") }
    }

    fn column(&self, name: &str) -> &'a ArrayRef {
        self.batch.column_by_name(name).expect("a column")
    }

    fn long(&self, name: &str, at: usize) -> Option<i64> {
        let array = self.column(name).as_primitive::<Int64Type>();
        array.is_valid(at).then(|| array.value(at))
    }

    fn int(&self, name: &str, at: usize) -> Option<i32> {
        let array = self.column(name).as_primitive::<Int32Type>();
        array.is_valid(at).then(|| array.value(at))
    }

    fn flag(&self, name: &str, at: usize) -> Option<bool> {
        let array = self.column(name).as_boolean();
        array.is_valid(at).then(|| array.value(at))
    }

    fn text(&self, name: &str, at: usize) -> Option<&'a str> {
        let array = self.column(name).as_string::<i32>();
        array.is_valid(at).then(|| array.value(at))
    }

    fn check(&self, at: usize, entry: &Expected, row: &Row, flavor: Flavor) {
        assert_eq!(self.keys[at], row.key);
        assert_eq!(self.values[at], row.value);
        assert_eq!(self.long("offset", at), Some(row.offset));
        assert_eq!(self.long("timestampMs", at), Some(row.seen));
        assert_eq!(self.int("timestampType", at), Some(i32::from(row.timestamp_type)));
        let micros = self.column("timestamp").as_primitive::<TimestampMicrosecondType>();
        let micros = micros.is_valid(at).then(|| micros.value(at));
        // What does not fit in microseconds is null there, and stays in milliseconds.
        let fits = row.seen.checked_mul(1000).filter(|_| flavor.spark || row.seen != -1);
        assert_eq!(micros, fits);
        self.check_headers(at, row, flavor);
        assert_eq!(self.text("topic", at), Some("t"));
        assert_eq!(self.int("partition", at), Some(3));
        assert_eq!(self.long("batchPosition", at), Some(entry.position as i64));
        assert_eq!(self.column("magic").as_primitive::<Int8Type>().value(at), entry.magic);
        assert_eq!(self.text("codec", at), Some(entry.codec));
        assert_eq!(self.int("leaderEpoch", at), Some(entry.leader_epoch));
        assert_eq!(self.long("producerId", at), Some(entry.producer_id));
        assert_eq!(self.column("producerEpoch").as_primitive::<Int16Type>().value(at), entry.producer_epoch);
        assert_eq!(self.flag("isTransactional", at), Some(entry.transactional));
        assert_eq!(self.flag("isControl", at), Some(entry.control));
        assert_eq!(self.flag("tombstone", at), Some(row.tombstone.unwrap_or(row.value.is_none())));
        assert_eq!(self.text("_corrupt_record", at), None);
        if let Some(base) = entry.base {
            assert_eq!(self.long("baseOffset", at), Some(base));
            let delta = row.offset.wrapping_sub(base);
            let next = i64::from(entry.sequence).wrapping_add(delta).rem_euclid(1 << 31) as i32;
            let sequence = if entry.sequence < 0 { -1 } else { next };
            assert_eq!(self.int("sequence", at), Some(sequence));
        }
        assert!(entry.batch || self.int("sequence", at) == Some(-1));
    }

    fn check_headers(&self, at: usize, row: &Row, flavor: Flavor) {
        let list = self.column("headers").as_list::<i32>();
        assert_eq!(list.is_null(at), flavor.spark && row.headers.is_empty());
        let raw = self.column("rawHeaderKeys").as_list::<i32>();
        let raw = if raw.is_null(at) { Vec::new() } else { binaries(&raw.value(at)) };
        let pairs = list.value(at);
        let pairs = pairs.as_struct();
        let (keys, values) = (texts(pairs.column(0)), binaries(pairs.column(1)));
        assert_eq!((keys.len(), raw.len()), (row.headers.len(), row.headers.len()));
        for (index, (key, value)) in row.headers.iter().enumerate() {
            assert_eq!(keys[index].as_deref(), Some(&*key_text(key)));
            assert_eq!(raw[index].as_ref(), Some(key));
            assert_eq!(&values[index], value);
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
