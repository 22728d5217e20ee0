//! The way back: the records of a file, already in memory as each peer has them, to the file's bytes again.
//!
//! Uncompressed v2 batches with their checksum, batch by batch, into a buffer that is used again where the peer lets
//! one. Each peer writes what its own reader handed out, which is not timed. Every output is held against the file's bytes first.

use std::io;

use bytes::{Buf, Bytes, BytesMut};
use kafka_protocol::records as protocol;
use krabka_protocol::records as krabka;
use magicbyte::{
    Buffer, Codec, Decompressor, Encoder, Format, Header, Limits, Log, NewHeaders, NewRecord, Options,
    Record, Sink,
};

use crate::Child;
use crate::common::data::{self, Spec};
use crate::common::table::{Case, Figure, measure};

/// How much of a file is written: every record takes much more memory as an object, in Java and Python most of all.
const MEBIBYTES: usize = 16;

/// Passes of a child before the first that counts.
const WARM: usize = 12;

/// Writes all records, and hands out the bytes of every batch.
type Encode<'a> = Box<dyn FnMut(&mut dyn FnMut(&[u8])) + 'a>;

/// The encoders of one file, in turns.
pub(crate) fn run(spec: Spec, children: &[Child], rounds: usize) -> io::Result<Vec<Figure>> {
    let part = crate::prefix(&Bytes::from(data::load(spec)?), MEBIBYTES << 20);
    let (_, size) = crate::expect(&part);
    let owned = krabka_batches(&part);
    let mut buffers: Vec<Buffer> = owned.iter().map(|_| Buffer::new()).collect();
    let gathered = gather(&part, &mut buffers);
    let borrowed: Vec<Vec<NewRecord<'_>>> = gathered.iter().map(records).collect();
    let headers: Vec<Vec<Vec<Header<'_>>>> = owned.iter().map(krabka_headers).collect();
    let of_krabka: Vec<Vec<NewRecord<'_>>> =
        owned.iter().zip(&headers).map(|(batch, headers)| krabka_records(batch, headers)).collect();
    let sets = protocol_batches(&part);
    let mut cases = Vec::new();
    for (name, mut encode) in encoders(&borrowed, &of_krabka, &owned, &sets) {
        let mut out = Vec::with_capacity(part.len());
        encode(&mut |batch| out.extend_from_slice(batch));
        assert!(out == part, "{name} on {}: other bytes than the file's", spec.name);
        cases.push(Case::new((spec.name, name), size, part.len(), move || {
            let mut bytes = 0;
            encode(&mut |batch| bytes += std::hint::black_box(batch).len());
            bytes
        }));
    }
    let writers = children.iter().filter_map(|child| child.encodes.map(|name| (child, name)));
    for (child, name) in writers {
        let path = data::path(spec)?;
        child.peer.borrow_mut().load(&path, MEBIBYTES)?;
        let out = child.peer.borrow_mut().written(&data::target().join("peer-written.bin"))?;
        let same = as_produced(&out) == as_produced(&part);
        assert!(same, "{name} on {}: other bytes than the file's", spec.name);
        for _ in 0..WARM {
            child.peer.borrow_mut().encode()?;
        }
        let want = part.len();
        cases.push(Case::timed((spec.name, name), size, move || {
            let (time, bytes) = child.peer.borrow_mut().encode().expect("a peer's pass");
            assert_eq!(bytes, want, "the bytes of {name}");
            time
        }));
    }
    Ok(measure(cases, rounds))
}

/// Batches with the two fields blank that only a broker fills in and that no checksum covers, so that a producer's
/// batch may be held against a log's.
fn as_produced(log: &[u8]) -> Vec<u8> {
    let (mut log, mut at) = (log.to_vec(), 0);
    while let Some(head) = log.get_mut(at..at + 16) {
        let size: [u8; 4] = head[8..12].try_into().expect("four bytes");
        head[..8].fill(0);
        head[12..].fill(0);
        at += 12 + u32::from_be_bytes(size) as usize;
    }
    log
}

fn krabka_batches(file: &Bytes) -> Vec<krabka::RecordBatch> {
    let (mut batches, mut rest) = (Vec::new(), file.clone());
    while rest.has_remaining() {
        batches.push(krabka::RecordBatch::decode_batch(&mut rest).expect("krabka: batch"));
    }
    batches
}

fn protocol_batches(file: &Bytes) -> Vec<Vec<protocol::Record>> {
    let (mut batches, mut rest) = (Vec::new(), file.clone());
    while rest.has_remaining() {
        let set = protocol::RecordBatchDecoder::decode(&mut rest).expect("kafka-protocol: batch");
        batches.push(set.records);
    }
    batches
}

/// The headers of krabka's records as magicbyte takes them.
fn krabka_headers(batch: &krabka::RecordBatch) -> Vec<Vec<Header<'_>>> {
    fn of(record: &krabka::Record) -> Vec<Header<'_>> {
        let headers = record.headers.iter();
        headers.map(|header| Header { key: header.key.as_bytes(), value: header.value.as_deref() }).collect()
    }
    batch.records.iter().map(of).collect()
}

/// krabka's records to be written by magicbyte: both then read the same memory, where every header key and every list
/// of headers is an allocation of its own.
fn krabka_records<'a>(batch: &'a krabka::RecordBatch, headers: &'a [Vec<Header<'a>>]) -> Vec<NewRecord<'a>> {
    let record = |(record, headers): (&'a krabka::Record, &'a Vec<Header<'a>>)| NewRecord {
        offset: batch.base_offset + i64::from(record.offset_delta),
        timestamp: batch.base_timestamp + record.timestamp_delta,
        key: record.key.as_deref(),
        value: record.value.as_deref(),
        headers: NewHeaders::List(headers),
        ..NewRecord::default()
    };
    batch.records.iter().zip(headers).map(record).collect()
}

/// magicbyte's records and, record by record, their headers.
#[derive(Default)]
struct Gather<'a> {
    records: Vec<Record<'a>>,
    headers: Vec<Header<'a>>,
}

impl<'a> Sink<'a> for Gather<'a> {
    fn record(&mut self, record: &Record<'a>) -> bool {
        self.records.push(*record);
        true
    }

    fn header(&mut self, key: &'a [u8], value: Option<&'a [u8]>) {
        self.headers.push(Header { key, value });
    }
}

/// What magicbyte's reader hands out of one entry after another.
fn gather<'a>(file: &'a [u8], buffers: &'a mut [Buffer]) -> Vec<Gather<'a>> {
    let (limits, mut decompressor) = (Limits::default(), Decompressor::new());
    let mut batches = Vec::new();
    for (entry, buffer) in Log::new(file, Options::default()).zip(buffers) {
        let (entry, mut batch) = (entry.expect("magicbyte: batch"), Gather::default());
        let payload = entry.open(&mut decompressor, &limits, buffer).expect("magicbyte: batch");
        payload.decode(&limits, &mut batch).expect("magicbyte: records");
        batches.push(batch);
    }
    batches
}

/// The same to be written, headers one by one: copied as a block they would be less work than the peers have.
fn records<'a>(batch: &'a Gather<'a>) -> Vec<NewRecord<'a>> {
    let mut rest = &batch.headers[..];
    let record = |record: &'a Record<'a>| {
        let (headers, others) = rest.split_at(record.headers.len());
        rest = others;
        NewRecord { headers: NewHeaders::List(headers), ..NewRecord::from(record) }
    };
    batch.records.iter().map(record).collect()
}

fn magicbyte<'a>(batches: &'a [Vec<NewRecord<'a>>]) -> Encode<'a> {
    let (mut encoder, mut out, fields) = (Encoder::new(), Vec::new(), data::fields(Codec::None));
    Box::new(move |take| {
        for batch in batches {
            out.clear();
            encoder.encode(Format::V2, &fields, batch, &mut out).expect("magicbyte: batch");
            take(&out);
        }
    })
}

fn encoders<'a>(
    borrowed: &'a [Vec<NewRecord<'a>>],
    of_krabka: &'a [Vec<NewRecord<'a>>],
    owned: &'a [krabka::RecordBatch],
    sets: &'a [Vec<protocol::Record>],
) -> [(&'static str, Encode<'a>); 5] {
    let mut buffer = BytesMut::new();
    let krabka = move |take: &mut dyn FnMut(&[u8])| {
        for batch in owned {
            buffer.clear();
            batch.encode_batch(&mut buffer).expect("krabka: batch");
            take(&buffer);
        }
    };
    let krabka_bytes = move |take: &mut dyn FnMut(&[u8])| {
        for batch in owned {
            take(&batch.encode_to_bytes().expect("krabka: batch"));
        }
    };
    let options = protocol::RecordEncodeOptions { version: 2, compression: protocol::Compression::None };
    let mut buffer = BytesMut::new();
    let kafka_protocol = move |take: &mut dyn FnMut(&[u8])| {
        for batch in sets {
            buffer.clear();
            protocol::RecordBatchEncoder::encode(&mut buffer, batch, &options)
                .expect("kafka-protocol: batch");
            take(&buffer);
        }
    };
    [
        ("magicbyte encode", magicbyte(borrowed)),
        ("magicbyte encode, krabka's records", magicbyte(of_krabka)),
        ("krabka encode", Box::new(krabka)),
        ("krabka encode, to bytes", Box::new(krabka_bytes)),
        ("kafka-protocol encode", Box::new(kafka_protocol)),
    ]
}
