//! Where the core stands: every kind of work on every file, in passes that take turns, as one table and
//! `bench.json` in the target directory.
//!
//! `cargo bench --features arrow --bench table [-- FILES [PART OF A CASE'S NAME]]`; rounds: `MAGICBYTE_BENCH_ROUNDS`.

mod common;

use arrow_buffer::Buffer;
use common::data::{self, FILES, Spec};
use common::table::{Case, Report, measure};
use common::work::{Columns, Reader, Writer, checksums, hundredth};
use magicbyte::arrow::Column;
use magicbyte::{Codec, Selection};

const MIB: usize = 1 << 20;

fn cases<'a>(spec: Spec, file: &'a Buffer) -> Vec<Case<'a>> {
    let mut reader = Reader::default();
    let sums = reader.scan(file, true);
    let size = (reader.decompress(file, true), sums.records);
    let compressed = spec.codec != Codec::None;
    let name = |name| (spec.name, name);
    let mut cases = vec![];
    let mut reader = Reader::default();
    cases.push(Case::new(name("scan"), size, sums, move || reader.scan(file, true)));
    let mut reader = Reader::default();
    cases.push(Case::new(name("scan, no CRC"), size, sums, move || reader.scan(file, false)));
    let mut reader = Reader::default();
    cases.push(Case::new(name("scan, strings copied"), size, sums, move || reader.copy(file)));
    let batches = checksums(file);
    cases.push(Case::new(name("CRC alone"), size, batches, move || checksums(file)));
    if compressed {
        let mut reader = Reader::default();
        cases.push(Case::new(name("CRC + decompress"), size, size.0, move || reader.decompress(file, true)));
    }
    for (kib, size_name) in
        [(512, "columns, 1/2 MiB"), (1024, "columns, 1 MiB"), (16 << 10, "columns, 16 MiB")]
    {
        let mut columns = Columns::all(kib << 10, false);
        cases.push(Case::new(name(size_name), size, size.1, move || columns.pass(file)));
    }
    if !compressed {
        let mut columns = Columns::all(MIB, true);
        cases.push(Case::new(name("views"), size, size.1, move || columns.pass(file)));
        let wanted = [Column::Offset, Column::Timestamp];
        let mut columns = Columns::some(&wanted, Selection::default());
        cases.push(Case::new(name("offset + timestamp"), size, size.1, move || columns.pass(file)));
        let mut columns = Columns::some(&Column::DEFAULT, hundredth(size.1));
        let rows = size.1 / 100;
        cases.push(Case::new(name("1 % of offsets"), size, rows, move || columns.pass(file)));
    }
    if spec.name == "A" {
        let mut writer = Writer::new(spec, data::mebibytes() << 20);
        let pass = move || writer.pass(Codec::None);
        cases.push(Case::new(name("encode"), size, file.len() as u64, pass));
    }
    cases
}

fn main() -> std::io::Result<()> {
    // Cargo passes options of its own.
    let mut arguments = std::env::args().skip(1).filter(|argument| !argument.starts_with("--"));
    let files = arguments.next().unwrap_or_else(|| "ABCDEFGH".into());
    let part = arguments.next().unwrap_or_default();
    let rounds =
        std::env::var("MAGICBYTE_BENCH_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(11);
    let mut report = Report::default();
    for spec in FILES.into_iter().filter(|spec| files.contains(spec.name)) {
        let file = Buffer::from_vec(data::load(spec)?);
        let mut cases = cases(spec, &file);
        cases.retain(|case| case.name.contains(&part));
        report.figures.extend(measure(cases, rounds));
    }
    println!("{}\n{}", report.markdown(), report.records_markdown());
    let path = data::target().join("bench.json");
    report.write_json(&path)
}
