//! The files A–H that every figure is about.
//!
//! | file | key | value | headers | records a batch | codec |
//! |---|---|---|---|---|---|
//! | A | 16 B hex | 100 B JSON | 3 | 100 | none |
//! | B | 16 B | 100 B | none | 100 | none |
//! | C | 16 B | 1 KiB | none | 16 | none |
//! | D–G | as A | | | | lz4, zstd, gzip, snappy |
//! | H | null | 8 B | none | 1,000 | none |
//!
//! A, B, C and H are byte for byte what Kafka's `MemoryRecordsBuilder` writes from the same random numbers; D–G hold
//! the same records as A, under our compressors.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use magicbyte::varint::{varint_len, varlong_len};
use magicbyte::{BatchFields, Codec, Encoder, Format, Header, NewHeaders, NewRecord};

use super::java_random::JavaRandom;

/// One of the files.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spec {
    pub(crate) name: &'static str,
    key: Option<usize>,
    value: usize,
    headers: bool,
    pub(crate) batch: usize,
    pub(crate) codec: Codec,
}

const fn like_a(name: &'static str, codec: Codec) -> Spec {
    Spec { name, key: Some(16), value: 100, headers: true, batch: 100, codec }
}

/// All files, by name.
pub(crate) const FILES: [Spec; 8] = [
    like_a("A", Codec::None),
    Spec { name: "B", key: Some(16), value: 100, headers: false, batch: 100, codec: Codec::None },
    Spec { name: "C", key: Some(16), value: 1024, headers: false, batch: 16, codec: Codec::None },
    like_a("D", Codec::Lz4),
    like_a("E", Codec::Zstd),
    like_a("F", Codec::Gzip),
    like_a("G", Codec::Snappy),
    Spec { name: "H", key: None, value: 8, headers: false, batch: 1000, codec: Codec::None },
];

const EVENTS: [&str; 8] = ["click", "view", "purchase", "scroll", "login", "logout", "search", "add"];
const FIRST_TIMESTAMP: i64 = 1_700_000_000_000;
const HEADER_KEYS: [&str; 3] = ["trace-id", "source-a", "schemaid"];
const BATCH_HEADER: usize = 61;

/// One record before it is encoded.
pub(crate) struct Row {
    pub(crate) timestamp: i64,
    pub(crate) key: Option<Vec<u8>>,
    pub(crate) value: Vec<u8>,
    pub(crate) headers: Vec<(&'static str, Vec<u8>)>,
}

/// The records of one file, batch by batch.
pub(crate) struct Rows {
    spec: Spec,
    random: JavaRandom,
    timestamp: i64,
    size: usize,
}

impl Rows {
    pub(crate) const fn new(spec: Spec) -> Self {
        Self { spec, random: JavaRandom::new(42), timestamp: FIRST_TIMESTAMP, size: 0 }
    }

    /// The next batch, until the records before it take `bytes` in all.
    pub(crate) fn next_batch(&mut self, bytes: usize) -> Option<Vec<Row>> {
        if self.size >= bytes {
            return None;
        }
        let rows: Vec<Row> = (0..self.spec.batch).map(|_| self.row()).collect();
        self.size += BATCH_HEADER;
        for (i, row) in rows.iter().enumerate() {
            // The estimate that the Java program ends by: it takes timestamps to be ten apart.
            let body = body_len(row, i, i as i64 * 10);
            self.size += body + varint_len(body as i32);
        }
        Some(rows)
    }

    fn row(&mut self) -> Row {
        self.timestamp += i64::from(self.random.below(20));
        let key = self.spec.key.map(|length| self.hex(length).into_bytes());
        let value = match self.spec.value {
            8 => self.random.next_long().to_be_bytes().to_vec(),
            length => self.json(length),
        };
        let mut headers = Vec::new();
        if self.spec.headers {
            let trace = self.hex(20);
            let source = format!("svc-{}-000000000000000", EVENTS[self.random.below(8) as usize]);
            let schema = format!("schema/v1/event/{:04}", self.random.below(100));
            let values = [trace, source[..20].to_owned(), schema];
            headers.extend(HEADER_KEYS.into_iter().zip(values.map(String::into_bytes)));
        }
        Row { timestamp: self.timestamp, key, value, headers }
    }

    fn hex(&mut self, length: usize) -> String {
        (0..length).filter_map(|_| char::from_digit(self.random.below(16), 16)).collect()
    }

    /// About half template, half noise.
    fn json(&mut self, length: usize) -> Vec<u8> {
        let mut text = String::with_capacity(length + 128);
        while text.len() < length {
            let user = self.hex(12);
            let event = EVENTS[self.random.below(8) as usize];
            let amount = self.random.below(1_000_000);
            let session = self.hex(16);
            let timestamp = self.timestamp;
            text += &format!(
                r#"{{"user":"{user}","event":"{event}","amt":{amount},"ts":{timestamp},"s":"{session}"}}"#
            );
        }
        text.truncate(length);
        text.into_bytes()
    }
}

fn body_len(row: &Row, delta: usize, timestamp_delta: i64) -> usize {
    let bytes = |bytes: &[u8]| varint_len(bytes.len() as i32) + bytes.len();
    let headers = row.headers.iter().map(|(key, value)| bytes(key.as_bytes()) + bytes(value)).sum::<usize>();
    1 + varlong_len(timestamp_delta)
        + varint_len(delta as i32)
        + row.key.as_deref().map_or(1, bytes)
        + bytes(&row.value)
        + varint_len(row.headers.len() as i32)
        + headers
}

/// The headers of all rows, one behind the other, as the encoder takes them.
pub(crate) fn headers_of(rows: &[Row]) -> Vec<Header<'_>> {
    let all = rows.iter().flat_map(|row| &row.headers);
    all.map(|(key, value)| Header { key: key.as_bytes(), value: Some(value) }).collect()
}

/// Rows as the encoder takes them; the first has that offset.
pub(crate) fn records<'a>(
    rows: &'a [Row],
    headers: &'a [Header<'a>],
    offset: i64,
) -> impl Iterator<Item = NewRecord<'a>> {
    let mut rest = headers;
    rows.iter().zip(offset..).map(move |(row, offset)| {
        let (mine, others) = rest.split_at(row.headers.len());
        rest = others;
        NewRecord {
            offset,
            timestamp: row.timestamp,
            key: row.key.as_deref(),
            value: Some(&row.value),
            headers: NewHeaders::List(mine),
            ..NewRecord::default()
        }
    })
}

/// The batch fields of every file.
pub(crate) fn fields(codec: Codec) -> BatchFields {
    BatchFields { codec, leader_epoch: 0, ..BatchFields::default() }
}

/// One file's bytes.
pub(crate) fn generate(spec: Spec, bytes: usize) -> Vec<u8> {
    let (mut rows, mut encoder) = (Rows::new(spec), Encoder::new());
    let (mut offset, mut out) = (0, Vec::with_capacity(bytes + (64 << 10)));
    while let Some(batch) = rows.next_batch(bytes) {
        let headers = headers_of(&batch);
        let records = records(&batch, &headers, offset);
        encoder.encode(Format::V2, &fields(spec.codec), records, &mut out).expect("rows that can be written");
        offset += batch.len() as i64;
    }
    out
}

/// Size of the files in MiB of uncompressed records: `MAGICBYTE_BENCH_MB`, or 128.
pub(crate) fn mebibytes() -> usize {
    std::env::var("MAGICBYTE_BENCH_MB").ok().and_then(|mb| mb.parse().ok()).unwrap_or(128)
}

fn directory() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    // Benches of a workspace below this one share the files of the outer one.
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().find(|path| path.join("rust/core").is_dir());
    let outer = || root.unwrap_or(Path::new(".")).join("target");
    target.unwrap_or_else(outer).join("bench-data")
}

/// Where results are written.
pub(crate) fn target() -> PathBuf {
    directory().parent().map(Path::to_path_buf).unwrap_or_default()
}

/// The path of one file, made first if it is not there.
pub(crate) fn path(spec: Spec) -> io::Result<PathBuf> {
    let directory = directory();
    let path = directory.join(format!("{}-{}.bin", spec.name, mebibytes()));
    if !path.is_file() {
        fs::create_dir_all(&directory)?;
        let unfinished = path.with_extension("part");
        fs::write(&unfinished, generate(spec, mebibytes() << 20))?;
        fs::rename(unfinished, &path)?;
    }
    Ok(path)
}

/// The bytes of one file.
pub(crate) fn load(spec: Spec) -> io::Result<Vec<u8>> {
    fs::read(path(spec)?)
}
