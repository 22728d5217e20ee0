//! Time a record as the work grows: larger segments, more records, more headers a record, more files. Lines that stay
//! level, as a table, `bench-growth.json` in the target directory, and a plot (`python/plot.py`).

mod common;

use std::time::Instant;

use arrow_buffer::Buffer;
use common::data::{self, FILES, Spec, fields};
use common::work::{Columns, Reader};
use magicbyte::{Codec, Encoder, Format, Header, NewHeaders, NewRecord};
use serde_json::{Value, json};

const MIB: usize = 1 << 20;

/// One point: what grew to where, and nanoseconds a record of a scan and of columns.
struct Point {
    line: &'static str,
    x: usize,
    /// What the nanoseconds are divided by beside records: headers, where these grow.
    parts: u64,
    scan: f64,
    columns: f64,
}

/// Whole batches of about this many bytes are timed at a time.
const STRETCH: usize = MIB / 2;

/// The files in stretches, in their order.
fn stretches(files: &[Buffer]) -> Vec<Buffer> {
    let mut found = Vec::new();
    for file in files {
        let (mut from, mut end) = (0, 0);
        while end < file.len() {
            let size: [u8; 4] = file[end + 8..end + 12].try_into().expect("four bytes");
            end += 12 + u32::from_be_bytes(size) as usize;
            if end - from >= STRETCH || end == file.len() {
                found.push(file.slice_with_length(from, end - from));
                from = end;
            }
        }
    }
    found
}

/// Nanoseconds a record of passes over all stretches in turn. Each stretch counts with its best time, so that a
/// neighbour who takes the processor for a moment does not look like growth.
fn best(stretches: &[Buffer], records: u64, mut pass: impl FnMut(&Buffer) -> u64) -> f64 {
    let rounds = (4_000_000 / records.max(1)).clamp(7, 400);
    let mut least = vec![u128::MAX; stretches.len()];
    for _ in 0..rounds {
        let mut found = 0;
        for (stretch, least) in stretches.iter().zip(&mut least) {
            let start = Instant::now();
            found += std::hint::black_box(pass(stretch));
            *least = start.elapsed().as_nanos().min(*least);
        }
        assert_eq!(found, records, "records of a pass");
    }
    least.iter().sum::<u128>() as f64 / records as f64
}

fn point(line: &'static str, x: usize, parts: u64, files: &[Buffer]) -> Point {
    let (mut reader, stretches) = (Reader::default(), stretches(files));
    let records = stretches.iter().map(|stretch| reader.scan(stretch, true).records).sum();
    let scan = best(&stretches, records, |stretch| reader.scan(stretch, true).records);
    let mut columns = Columns::all(MIB / 2, false);
    let columns = best(&stretches, records, |stretch| columns.pass(stretch));
    Point { line, x, parts, scan, columns }
}

/// A log of 16 MiB whose records have so many headers.
fn with_headers(count: usize) -> Buffer {
    let (mut encoder, mut out, mut offset) = (Encoder::new(), Vec::new(), 0);
    let headers = vec![Header { key: b"trace-id", value: Some(b"0123456789abcdef0123") }; count];
    while out.len() < 16 * MIB {
        let records = (offset..offset + 100).map(|offset| NewRecord {
            offset,
            timestamp: 1_700_000_000_000 + offset,
            key: Some(b"0123456789abcdef"),
            value: Some(&[b'v'; 100]),
            headers: NewHeaders::List(&headers),
            ..NewRecord::default()
        });
        encoder.encode(Format::V2, &fields(Codec::None), records, &mut out).expect("can be written");
        offset += 100;
    }
    Buffer::from_vec(out)
}

fn points() -> Vec<Point> {
    let file = |name: &str| FILES.into_iter().find(|spec| spec.name == name).expect("one of the files");
    let make = |spec: Spec, bytes: usize| Buffer::from_vec(data::generate(spec, bytes));
    let (a, h) = (file("A"), file("H"));
    let mut points = Vec::new();
    for mib in [1, 4, 16, 64, 256] {
        points.push(point("MiB a segment (A)", mib, 1, &[make(a, mib * MIB)]));
    }
    for thousands in [10, 100, 1000, 10_000] {
        // 17 bytes each, and the batch header.
        points.push(point("thousand records (H)", thousands, 1, &[make(h, thousands * 17_060)]));
    }
    for count in [1, 10, 100] {
        points.push(point("headers a record, each", count, count as u64, &[with_headers(count)]));
    }
    for count in [1, 100, 1000] {
        let size = 64 * MIB / count;
        let files: Vec<Buffer> = (0..count).map(|_| make(a, size)).collect();
        points.push(point("partitions (files), 64 MiB in all (A)", count, 1, &files));
    }
    points
}

fn main() -> std::io::Result<()> {
    let mut rows: Vec<Value> = Vec::new();
    println!("| what grows | to | scan, ns a record | columns, ns a record |\n|---|---:|---:|---:|");
    for point in points() {
        let each = |ns: f64| (ns * 10.0 / point.parts as f64).round() / 10.0;
        println!("| {} | {} | {} | {} |", point.line, point.x, each(point.scan), each(point.columns));
        rows.push(json!({"line": point.line, "x": point.x, "scan": each(point.scan), "columns": each(point.columns)}));
    }
    std::fs::write(data::target().join("bench-growth.json"), serde_json::to_string_pretty(&rows)? + "\n")
}
