//! One decode loop on a small file, for callgrind: `python/instructions.py` counts what [`counted`] runs and holds it
//! against the committed figures. Without checksums, whose instructions depend on the processor.
//!
//! `guard "columns A"` prints how many records a pass has.

mod common;

use arrow_buffer::Buffer;
use common::data::{self, FILES};
use common::work::{Columns, Reader};
use magicbyte::Selection;
use magicbyte::arrow::Column;

/// All that is counted: a pass after one that took memory.
#[unsafe(no_mangle)]
#[inline(never)]
#[allow(unsafe_code, reason = "callgrind finds it by its name")]
fn magicbyte_counted(pass: &mut dyn FnMut() -> u64) -> u64 {
    pass()
}

fn main() {
    let arguments: Vec<String> =
        std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    let Some((work, file)) = arguments.first().and_then(|case| case.rsplit_once(' ')) else {
        eprintln!("guard: which loop?");
        return;
    };
    let Some(spec) = FILES.into_iter().find(|spec| spec.name == file) else {
        eprintln!("guard: no file {file}");
        return;
    };
    let file = Buffer::from_vec(data::load(spec).expect("a file to read"));
    let mut reader = Reader::default();
    let wanted = [Column::Offset, Column::Timestamp];
    let mut columns = match work {
        "offset + timestamp" => Columns::some(&wanted, Selection::default()),
        _ => Columns::all(1 << 18, work == "views"),
    };
    columns.skip_checksums();
    let mut pass = || match work {
        "scan" => reader.scan(&file, false).records,
        _ => columns.pass(&file),
    };
    let records = pass();
    assert_eq!(magicbyte_counted(&mut pass), records);
    println!("{records}");
}
