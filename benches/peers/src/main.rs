//! magicbyte and its peers on the files A–H, in passes that take turns, their sums compared.
//!
//! `run.py` beside this builds what the children need and starts it. Writes `bench-peers.md` and `.json` to the
//! target directory. Arguments: the files, all if none is named, and `encode` for the encoders alone, or `goals` for what the
//! goals need of Rust's peers, as `bench-against.json`. Children: `MAGICBYTE_PEER_<NAME>` holds a command whose words are
//! separated by line feeds; rounds: `MAGICBYTE_BENCH_ROUNDS`.

#[path = "../../common/mod.rs"]
mod common;

mod child;
mod readers;
mod writers;

use std::cell::RefCell;

use arrow_buffer::Buffer;
use bytes::Bytes;
use child::Peer;
use common::data::{self, FILES, Spec};
use common::table::{Case, Report, measure};
use common::work::{Columns, Reader, Sums, hundredth};
use magicbyte::arrow::Column;
use magicbyte::{Codec, Selection};

/// A peer of another language.
struct Child {
    name: &'static str,
    peer: RefCell<Peer>,
    /// How much of a file a pass reads, in MiB, so that slow peers do not take all the time.
    mebibytes: usize,
    /// Passes before the first that counts.
    warm: usize,
    /// What its encoder is called, where it is measured.
    encodes: Option<&'static str>,
}

/// The children whose commands are given.
fn children() -> std::io::Result<Vec<Child>> {
    let known = [
        ("kafka-clients (Java)", "JAVA", 1024, 12, Some("kafka-clients encode (Java)")),
        ("franz-go (Go)", "GO", 64, 2, None),
        ("aiokafka", "AIOKAFKA", 16, 1, Some("aiokafka encode")),
        ("kafka-python", "KAFKA_PYTHON", 4, 1, None),
    ];
    let mut children = Vec::new();
    for (name, variable, mebibytes, warm, encodes) in known {
        match std::env::var(format!("MAGICBYTE_PEER_{variable}")) {
            Ok(command) => {
                let peer = RefCell::new(Peer::start(&command)?);
                children.push(Child { name, peer, mebibytes, warm, encodes });
            }
            Err(_) => eprintln!("left out: {name} (MAGICBYTE_PEER_{variable} is not set)"),
        }
    }
    Ok(children)
}

/// What a pass over some bytes must come to, and how much work it is.
fn expect(bytes: &[u8]) -> (Sums, (u64, u64)) {
    let mut reader = Reader::default();
    let sums = reader.scan(bytes, true);
    (sums, (reader.decompress(bytes, true), sums.records))
}

/// Whole batches up to the first that reaches `bytes`.
fn prefix(file: &Bytes, bytes: usize) -> Bytes {
    let mut end = 0;
    while end < file.len().min(bytes) {
        let size: [u8; 4] = file[end + 8..end + 12].try_into().expect("four bytes");
        end += 12 + u32::from_be_bytes(size) as usize;
    }
    file.slice(..end)
}

/// The ways to columns.
fn columns(records: u64) -> [(&'static str, Columns); 4] {
    let wanted = [Column::Offset, Column::Timestamp];
    [
        ("magicbyte columns, 1/2 MiB", Columns::all(1 << 19, false)),
        ("magicbyte views", Columns::all(1 << 19, true)),
        ("magicbyte offset + timestamp", Columns::some(&wanted, Selection::default())),
        ("magicbyte 1 % of offsets", Columns::some(&Column::DEFAULT, hundredth(records))),
    ]
}

/// What is run.
#[derive(Clone, Copy, PartialEq)]
enum Work {
    All,
    Encode,
    Goals,
}

fn run(
    spec: Spec,
    children: &[Child],
    rounds: usize,
    work: Work,
) -> std::io::Result<Vec<common::table::Figure>> {
    let file = Bytes::from(data::load(spec)?);
    let (buffer, plain) = (Buffer::from(file.clone()), spec.codec == Codec::None);
    let (sums, size) = expect(&file);
    let mut reader = Reader::default();
    let scan = |pass: &Bytes| reader.scan(pass, true);
    let mut cases = vec![Case::new((spec.name, "magicbyte scan"), size, sums, with(&file, scan))];
    let mut bare = Reader::default();
    let bare = move |pass: &Bytes| bare.scan(pass, false);
    cases.push(Case::new((spec.name, "magicbyte scan, no CRC"), size, sums, with(&file, bare)));
    let (mut reader, all) = (Reader::default(), file.clone());
    let decompress = move || reader.decompress(&all, true);
    cases.push(Case::new((spec.name, "magicbyte CRC + decompress"), size, size.0, decompress));
    for (name, mut columns) in columns(sums.records) {
        let (buffer, rows) = (buffer.clone(), columns.pass(&buffer));
        cases.push(Case::new((spec.name, name), size, rows, move || columns.pass(&buffer)));
    }
    for (name, pass) in readers::PEERS {
        if work == Work::Goals && name != readers::FASTEST {
            continue;
        }
        // tansu copies what it decompresses many times.
        let part = if name.starts_with("tansu") && !plain { prefix(&file, 4 << 20) } else { file.clone() };
        let (sums, size) = expect(&part);
        cases.push(Case::new((spec.name, name), size, sums, move || pass(&part)));
    }
    for child in children {
        let bytes = child.peer.borrow_mut().load(&data::path(spec)?, child.mebibytes)?;
        let (sums, size) = expect(&file[..bytes]);
        for _ in 0..child.warm {
            child.peer.borrow_mut().pass()?;
        }
        cases.push(Case::timed((spec.name, child.name), size, move || {
            let (time, got) = child.peer.borrow_mut().pass().expect("a peer's pass");
            assert_eq!(got, sums, "the sums of {}", child.name);
            time
        }));
    }
    Ok(measure(cases, rounds))
}

fn with<'a>(file: &'a Bytes, mut pass: impl FnMut(&Bytes) -> Sums + 'a) -> impl FnMut() -> Sums + 'a {
    move || pass(file)
}

fn main() -> std::io::Result<()> {
    let files = std::env::args().nth(1).unwrap_or_else(|| "ABCDEFGH".into());
    let rounds = std::env::var("MAGICBYTE_BENCH_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(9);
    let work = match std::env::args().nth(2).as_deref() {
        Some("encode") => Work::Encode,
        Some("goals") => Work::Goals,
        _ => Work::All,
    };
    let children = if work == Work::Goals { Vec::new() } else { children()? };
    let mut report = Report::default();
    for spec in FILES.into_iter().filter(|spec| files.contains(spec.name)) {
        if work != Work::Encode {
            report.figures.extend(run(spec, &children, rounds, work)?);
        }
        // Only A has a goal.
        if spec.codec == Codec::None && (work != Work::Goals || spec.name == "A") {
            report.figures.extend(writers::run(spec, &children, rounds)?);
        }
    }
    let text = report.markdown();
    println!("{text}");
    let target = data::target();
    if work == Work::Goals {
        return report.write_json(&target.join("bench-against.json"));
    }
    std::fs::write(target.join("bench-peers.md"), &text)?;
    report.write_json(&target.join("bench-peers.json"))
}
