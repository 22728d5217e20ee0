//! The work that is measured.

use std::hint::black_box;
use std::sync::Arc;

use magicbyte::arrow::{Builder, Column, Columnar, Flavor, Pool, Pulled, Shape};
use magicbyte::{
    Buffer, Codec, Decompressor, Encoder, Entries, Entry, Format, Limits, Log, Mode, Options, Record,
    Selection, Sink,
};

use super::data::{Row, Rows, Spec, fields, headers_of, records};

/// What a pass over a file adds up, so that no field is left unread and every reader can be held against another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sums {
    pub(crate) records: u64,
    pub(crate) key_bytes: u64,
    pub(crate) value_bytes: u64,
    pub(crate) header_key_bytes: u64,
    pub(crate) header_value_bytes: u64,
    pub(crate) offsets: i64,
    pub(crate) timestamps: i64,
}

impl<'a> Sink<'a> for Sums {
    #[inline(always)]
    fn record(&mut self, record: &Record<'a>) -> bool {
        self.records += 1;
        self.offsets = self.offsets.wrapping_add(record.offset);
        self.timestamps = self.timestamps.wrapping_add(record.timestamp);
        self.key_bytes += record.key.map_or(0, <[u8]>::len) as u64;
        self.value_bytes += record.value.map_or(0, <[u8]>::len) as u64;
        true
    }

    #[inline(always)]
    fn header(&mut self, key: &'a [u8], value: Option<&'a [u8]>) {
        self.header_key_bytes += key.len() as u64;
        self.header_value_bytes += value.map_or(0, <[u8]>::len) as u64;
    }
}

/// A scan that copies each string into memory that is used again and again: the least that columns cost beside it.
struct Copies {
    memory: Vec<u8>,
    filled: usize,
    sums: Sums,
}

impl Copies {
    /// As much as a record batch of columns has.
    const MEMORY: usize = 512 << 10;

    #[inline(always)]
    fn copy(&mut self, string: &[u8]) {
        if self.filled + string.len() > self.memory.len() {
            self.filled = 0;
        }
        let to = self.filled..self.filled + string.len();
        self.memory[to.clone()].copy_from_slice(string);
        self.filled = to.end;
    }
}

impl<'a> Sink<'a> for Copies {
    #[inline(always)]
    fn record(&mut self, record: &Record<'a>) -> bool {
        self.copy(record.key.unwrap_or_default());
        self.copy(record.value.unwrap_or_default());
        self.sums.record(record)
    }

    #[inline(always)]
    fn header(&mut self, key: &'a [u8], value: Option<&'a [u8]>) {
        self.copy(key);
        self.copy(value.unwrap_or_default());
        self.sums.header(key, value);
    }
}

/// The log's entries; a generated file has no damage.
fn entries(file: &[u8], check_crc: bool) -> impl Iterator<Item = Entry<'_>> {
    let options = Options { check_crc, ..Options::default() };
    Log::new(file, options).map(|entry| entry.expect("a sound file"))
}

/// What reading keeps from one pass to the next.
#[derive(Default)]
pub(crate) struct Reader {
    decompressor: Decompressor,
    buffer: Buffer,
}

impl Reader {
    /// Every field of every record, borrowed.
    pub(crate) fn scan(&mut self, file: &[u8], check_crc: bool) -> Sums {
        let (limits, mut sums) = (Limits::default(), Sums::default());
        for entry in entries(file, check_crc) {
            let opened = entry.open(&mut self.decompressor, &limits, &mut self.buffer);
            opened.expect("sound").decode(&limits, &mut sums).expect("sound");
        }
        sums
    }

    /// As [`Reader::scan`], and each string copied.
    pub(crate) fn copy(&mut self, file: &[u8]) -> Sums {
        let limits = Limits::default();
        let mut sink = Copies { memory: vec![0; Copies::MEMORY], filled: 0, sums: Sums::default() };
        for entry in entries(file, true) {
            let opened = entry.open(&mut self.decompressor, &limits, &mut self.buffer);
            opened.expect("sound").decode(&limits, &mut sink).expect("sound");
        }
        sink.sums
    }

    /// Decompression alone: bytes that come out, batch headers counted.
    pub(crate) fn decompress(&mut self, file: &[u8], check_crc: bool) -> u64 {
        let limits = Limits::default();
        let mut bytes = 0;
        for entry in entries(file, check_crc) {
            let opened = entry.open(&mut self.decompressor, &limits, &mut self.buffer).expect("sound");
            bytes += (entry.head.body + black_box(opened.bytes()).len()) as u64;
        }
        bytes
    }
}

/// Checksums alone: how many batches hold.
pub(crate) fn checksums(file: &[u8]) -> u64 {
    entries(file, true).count() as u64
}

/// Columns into buffers that are used again.
pub(crate) struct Columns {
    columnar: Columnar,
    options: Options,
}

impl Columns {
    /// All columns of the Kafka schema, in record batches of `bytes`.
    pub(crate) fn all(bytes: usize, views: bool) -> Self {
        let flavor = Flavor { views, spark: false };
        Self::new(Shape { flavor, rows: usize::MAX, bytes, ..Shape::default() }, Selection::default())
    }

    /// Some columns, of some offsets.
    pub(crate) fn some(columns: &[Column], selection: Selection) -> Self {
        let shape = Shape { columns: columns.to_vec(), rows: usize::MAX, bytes: 1 << 20, ..Shape::default() };
        Self::new(shape, selection)
    }

    fn new(shape: Shape, selection: Selection) -> Self {
        let mut builder = Builder::new(shape, selection, Pool::new());
        builder.set_partition(&Arc::<str>::from("topic"), 0);
        let columnar = Columnar::new(builder, Limits::default(), Mode::FailFast);
        Self { columnar, options: Options::default() }
    }

    /// Compares no checksums from here on.
    pub(crate) const fn skip_checksums(&mut self) {
        self.options.check_crc = false;
    }

    /// Rows of one pass over the file.
    pub(crate) fn pass(&mut self, file: &arrow_buffer::Buffer) -> u64 {
        let mut entries = Entries::new(file, self.options, 0);
        let mut rows = 0;
        loop {
            let pulled = self.columnar.pull(&mut entries).expect("sound");
            if let Some(batch) = self.columnar.take().expect("sound") {
                rows += black_box(&batch).num_rows() as u64;
            }
            if pulled == Pulled::End {
                return rows;
            }
        }
    }
}

/// The middle hundredth of a file's offsets.
pub(crate) fn hundredth(records: u64) -> Selection {
    let (half, part) = (records as i64 / 2, records as i64 / 100);
    Selection { offsets: half..half + part, ..Selection::default() }
}

/// The rows of a file, ready to be written.
pub(crate) struct Writer {
    batches: Vec<Vec<Row>>,
    encoder: Encoder,
    out: Vec<u8>,
}

impl Writer {
    /// Makes the rows; `bytes` as in [`super::data::generate`].
    pub(crate) fn new(spec: Spec, bytes: usize) -> Self {
        let mut rows = Rows::new(spec);
        let batches = std::iter::from_fn(|| rows.next_batch(bytes)).collect();
        Self { batches, encoder: Encoder::new(), out: Vec::with_capacity(1 << 20) }
    }

    /// Encodes all of them, batch by batch into a buffer that is used again. Headers are gathered here, too: a
    /// producer has them as a list.
    pub(crate) fn pass(&mut self, codec: Codec) -> u64 {
        let (mut offset, mut bytes) = (0, 0);
        for batch in &self.batches {
            let headers = headers_of(batch);
            let records = records(batch, &headers, offset);
            self.out.clear();
            self.encoder.encode(Format::V2, &fields(codec), records, &mut self.out).expect("sound rows");
            bytes += black_box(&self.out).len() as u64;
            offset += batch.len() as i64;
        }
        bytes
    }
}
