//! Criterion's figures: throughput in uncompressed bytes, case by case, with its history in `target/criterion`.
//!
//! `table.rs` beside it lets the cases take turns, which compares them more fairly on a busy machine.

mod common;

use std::time::Duration;

use arrow_buffer::Buffer;
use common::data::{self, FILES, Spec};
use common::work::{Columns, Reader, Writer, checksums, hundredth};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use magicbyte::arrow::Column;
use magicbyte::{Codec, Selection};

const MIB: usize = 1 << 20;

fn load(spec: Spec) -> (Buffer, Throughput, u64) {
    let file = Buffer::from_vec(data::load(spec).expect("a file to read"));
    let mut reader = Reader::default();
    let records = reader.scan(&file, true).records;
    let bytes = Throughput::Bytes(reader.decompress(&file, true));
    (file, bytes, records)
}

fn file(criterion: &mut Criterion, spec: Spec) {
    let (file, bytes, records) = load(spec);
    let mut reader = Reader::default();
    let mut group = criterion.benchmark_group(spec.name);
    group.throughput(bytes);
    group.bench_function("scan", |b| b.iter(|| reader.scan(&file, true)));
    group.bench_function("scan, no CRC", |b| b.iter(|| reader.scan(&file, false)));
    group.bench_function("CRC", |b| b.iter(|| checksums(&file)));
    if spec.codec != Codec::None {
        group.bench_function("decompress", |b| b.iter(|| reader.decompress(&file, false)));
    }
    for mib in [1, 16] {
        let mut columns = Columns::all(mib * MIB, false);
        let id = BenchmarkId::new("columns", format!("{mib} MiB"));
        group.bench_function(id, |b| b.iter(|| columns.pass(&file)));
    }
    if spec.name == "C" {
        let mut columns = Columns::all(MIB, true);
        group.bench_function("views", |b| b.iter(|| columns.pass(&file)));
    }
    if spec.name == "A" {
        let mut columns = Columns::some(&[Column::Offset, Column::Timestamp], Selection::default());
        group.bench_function("offset + timestamp", |b| b.iter(|| columns.pass(&file)));
        let mut columns = Columns::some(&Column::DEFAULT, hundredth(records));
        group.bench_function("1 % of offsets", |b| b.iter(|| columns.pass(&file)));
        let mut writer = Writer::new(spec, data::mebibytes() << 20);
        group.bench_function("encode", |b| b.iter(|| writer.pass(Codec::None)));
    }
    group.throughput(Throughput::Elements(records));
    group.bench_function("scan, records", |b| b.iter(|| reader.scan(&file, true)));
    group.finish();
}

fn all(criterion: &mut Criterion) {
    FILES.into_iter().for_each(|spec| file(criterion, spec));
}

criterion_group! {
    name = core;
    config = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1));
    targets = all
}
criterion_main!(core);
