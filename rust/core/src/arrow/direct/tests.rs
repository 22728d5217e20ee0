//! Columns written directly against columns that were gathered first: a column of tombstones asks for that.

use proptest::collection::vec;
use proptest::prelude::*;

use crate::arrow::tests::{Bytes, Row, back, encode_as, read, rows};
use crate::arrow::{Column, Flavor, Shape};
use crate::log::Mode;
use crate::{Codec, Format, Selection};

fn both_ways(log: &[u8], bytes: usize) -> (Vec<Row>, Vec<Row>) {
    let rows_of = |more: &[Column]| {
        let shape = Shape { columns: [&Column::DEFAULT, more].concat(), bytes, ..Shape::default() };
        back(&read(log, shape, Selection::default(), Mode::DropMalformed))
    };
    (rows_of(&[]), rows_of(&[Column::Tombstone]))
}

fn row(offset: i64, key: Option<usize>, value: Option<usize>, headers: &[(&str, Option<usize>)]) -> Row {
    let bytes = |length: usize| (0..length).map(|at| (at * 31 + length) as u8).collect::<Bytes>();
    let headers = headers.iter().map(|(key, value)| ((*key).to_owned(), value.map(bytes))).collect();
    Row { offset, timestamp: 5 + offset * offset, key: key.map(bytes), value: value.map(bytes), headers }
}

/// Small, so that Miri walks through every pointer.
#[test]
fn strings_of_every_length_and_nulls() {
    let lengths: &[usize] =
        if cfg!(miri) { &[0, 32, 33, 65, 129] } else { &[0, 1, 31, 32, 33, 63, 64, 65, 127, 128, 129, 300] };
    let mut batch: Vec<Row> = Vec::new();
    for (at, &length) in lengths.iter().enumerate() {
        let other = lengths[(at * 5) % lengths.len()];
        batch.push(row(0, Some(length), None, &[("ä", Some(other)), ("", None)]));
        batch.push(row(0, None, Some(length), &[]));
        batch.push(row(0, Some(other), Some(length), &[("k", Some(0))]));
    }
    for format in [Format::V2, Format::V3] {
        let mut batches = [batch.clone(), batch[..1].to_vec(), batch.clone()];
        let log = encode_as(format, &mut batches, Codec::None);
        let (direct, gathered) = both_ways(&log, 1);
        assert_eq!(direct, gathered);
        assert_eq!(direct, batches.concat());
    }
}

/// A batch that is more than room is made for at a time, with records that are, too.
#[test]
#[cfg_attr(miri, ignore = "megabytes")]
fn more_than_one_chunk() {
    let large = super::CHUNK + 1000;
    let batch: Vec<Row> = [10, large, 40, 100_000, 0, 200_000, large, 7, 32]
        .map(|length| row(0, Some(length % 100), Some(length), &[("h", Some(length / 2))]))
        .to_vec();
    let mut batches = [batch.clone(), batch];
    let log = encode_as(Format::V2, &mut batches, Codec::None);
    let (direct, gathered) = both_ways(&log, 1 << 20);
    assert_eq!(direct, gathered);
    assert_eq!(direct, batches.concat());
    // A record whose header is written after room was made for it anew still has headers.
    let shape = Shape { flavor: Flavor { spark: true, ..Flavor::default() }, ..Shape::default() };
    for some in read(&log, shape, Selection::default(), Mode::FailFast) {
        assert_eq!(some.column_by_name("headers").map(|headers| headers.null_count()), Some(0));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    /// Whatever bytes a batch with a sound checksum holds.
    #[test]
    #[cfg_attr(miri, ignore = "hundreds of batches")]
    fn broken_records(
        batch in vec(rows(), 1..60),
        flips in vec((0.0f64..1.0, any::<u8>()), 0..6),
    ) {
        let mut log = encode_as(Format::V2, &mut [batch.clone(), batch], Codec::None);
        let size = 12 + i32::from_be_bytes(log[8..12].try_into().expect("4")) as usize;
        for (place, mask) in flips {
            let at = 61 + ((size - 61) as f64 * place) as usize;
            log[at.min(size - 1)] ^= mask;
        }
        let crc = crate::checksum::Checksum::Crc32C.of(&log[21..size]).to_be_bytes();
        log[17..21].copy_from_slice(&crc);
        // Header keys that are not UTF-8 any more are shown alike, too.
        let (direct, gathered) = both_ways(&log, 4096);
        prop_assert_eq!(direct, gathered);
    }
}
