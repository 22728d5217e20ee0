//! One pass over a file by each of the Rust peers, in the fastest way that shows every field of every record.

use std::io::Cursor;

use bytes::{Buf, Bytes};
use kafka_protocol::records::RecordBatchDecoder;
use rskafka::protocol::{record as rskafka_record, traits::ReadType};
use tansu_sans_io::record::{deflated, inflated};

use crate::common::work::Sums;

/// A pass over a file.
pub(crate) type Pass = fn(&Bytes) -> Sums;

/// The one that goals are set against.
pub(crate) const FASTEST: &str = "krabka, borrowed";

/// The Rust peers by name.
pub(crate) const PEERS: [(&str, Pass); 5] = [
    (FASTEST, krabka_borrowed),
    ("krabka, owned", krabka_owned),
    ("kafka-protocol", kafka_protocol),
    ("rskafka", rskafka),
    ("tansu-sans-io", tansu),
];

fn length<T: AsRef<[u8]>>(bytes: &Option<T>) -> u64 {
    bytes.as_ref().map_or(0, |bytes| bytes.as_ref().len() as u64)
}

impl Sums {
    fn add(&mut self, offset: i64, timestamp: i64, key: u64, value: u64) {
        self.records += 1;
        self.offsets = self.offsets.wrapping_add(offset);
        self.timestamps = self.timestamps.wrapping_add(timestamp);
        self.key_bytes += key;
        self.value_bytes += value;
    }

    fn add_header(&mut self, key: u64, value: u64) {
        self.header_key_bytes += key;
        self.header_value_bytes += value;
    }
}

fn krabka_borrowed(file: &Bytes) -> Sums {
    let (mut sums, mut rest) = (Sums::default(), &file[..]);
    while !rest.is_empty() {
        let batch = krabka_protocol::records::validate_one_v2_batch(rest).expect("krabka: batch");
        let (offset, timestamp) = (batch.header.base_offset.get(), batch.header.base_timestamp.get());
        let visited = batch.validate_records_with(Default::default(), |record| {
            sums.add(
                offset + i64::from(record.offset_delta),
                timestamp + record.timestamp_delta,
                length(&record.key),
                length(&record.value),
            );
            for header in &record.headers {
                sums.add_header(header.key.len() as u64, length(&header.value));
            }
        });
        visited.expect("krabka: records");
        rest = &rest[batch.total_len..];
    }
    sums
}

fn krabka_owned(file: &Bytes) -> Sums {
    let (mut sums, mut rest) = (Sums::default(), file.clone());
    while rest.has_remaining() {
        let batch = krabka_protocol::records::RecordBatch::decode_batch(&mut rest).expect("krabka: batch");
        for record in &batch.records {
            sums.add(
                batch.base_offset + i64::from(record.offset_delta),
                batch.base_timestamp + record.timestamp_delta,
                length(&record.key),
                length(&record.value),
            );
            for header in &record.headers {
                sums.add_header(header.key.len() as u64, length(&header.value));
            }
        }
    }
    sums
}

fn kafka_protocol(file: &Bytes) -> Sums {
    let (mut sums, mut rest) = (Sums::default(), file.clone());
    while rest.has_remaining() {
        let batch = RecordBatchDecoder::decode(&mut rest).expect("kafka-protocol: batch");
        for record in &batch.records {
            sums.add(record.offset, record.timestamp, length(&record.key), length(&record.value));
            for (key, value) in &record.headers {
                sums.add_header(key.len() as u64, length(value));
            }
        }
    }
    sums
}

fn rskafka(file: &Bytes) -> Sums {
    let (mut sums, mut input) = (Sums::default(), Cursor::new(&file[..]));
    while (input.position() as usize) < file.len() {
        let batch = rskafka_record::RecordBatch::read(&mut input).expect("rskafka: batch");
        let rskafka_record::ControlBatchOrRecords::Records(records) = &batch.records else { continue };
        for record in records {
            sums.add(
                batch.base_offset + i64::from(record.offset_delta),
                batch.first_timestamp + record.timestamp_delta,
                length(&record.key),
                length(&record.value),
            );
            for header in &record.headers {
                sums.add_header(header.key.len() as u64, header.value.len() as u64);
            }
        }
    }
    sums
}

/// It computes the checksum, and only logs where it is wrong.
fn tansu(file: &Bytes) -> Sums {
    let (mut sums, mut rest) = (Sums::default(), file.clone());
    while rest.has_remaining() {
        let size = 12 + (&rest[8..12]).get_u32() as usize;
        let batch = deflated::Batch::try_from(rest.split_to(size)).expect("tansu: batch");
        let batch = inflated::Batch::try_from(batch).expect("tansu: records");
        for record in &batch.records {
            sums.add(
                batch.base_offset + i64::from(record.offset_delta),
                batch.base_timestamp + record.timestamp_delta,
                length(&record.key),
                length(&record.value),
            );
            for header in &record.headers {
                sums.add_header(length(&header.key), length(&header.value));
            }
        }
    }
    sums
}
