//! A segment's indexes, made anew from its `.log`: those that a broker made are the oracle.

use std::path::Path;

use magicbyte::segment::{AbortedTxn, Producers, SegmentFile, SegmentIndexes, SegmentWriter};
use magicbyte::{BatchFields, Encoder, Format, Log, NewRecord, Options};

use crate::corpus;

fn rebuild(path: &Path, base_offset: i64, interval: u64) -> SegmentIndexes {
    let log = std::fs::read(path).expect("readable");
    let mut writer = SegmentWriter::with_interval(base_offset, interval);
    let mut producers = Producers::new();
    for entry in Log::new(&log, Options { preallocated: true, ..Options::default() }).map_while(Result::ok) {
        let aborted = producers.append(&entry).expect("sound");
        assert!(writer.fits(&entry, u64::MAX));
        writer.append(&entry, aborted.as_ref()).expect("rises");
    }
    writer.finish().expect("rises")
}

fn used(bytes: Vec<u8>) -> Vec<u8> {
    let end = bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
    // Whole entries of four bytes at least, as padding is.
    bytes[..end.next_multiple_of(4).min(bytes.len())].to_vec()
}

#[test]
fn indexes_of_a_broker_are_made_anew() {
    let Some(files) = corpus::files(&["golden/logs"], &["log"]) else {
        return;
    };
    let (mut offsets, mut times, mut transactions, mut other) = (0, 0, 0, Vec::new());
    for path in files {
        let SegmentFile::Log { base_offset } =
            SegmentFile::parse(path.file_name().and_then(|n| n.to_str()).expect("name"))
        else {
            continue;
        };
        let read = |ending| std::fs::read(path.with_extension(ending)).ok().map(used);
        let (index, time, txn) = (read("index"), read("timeindex"), read("txnindex"));
        // The intervals that the corpus was made with are not written down.
        let made =
            [4096, 0, 100, 512, 1000, 1024, 2048].map(|interval| rebuild(&path, base_offset, interval));
        if let Some(want) = index {
            match made.iter().any(|made| used(made.offset_index.clone()) == want) {
                true => offsets += 1,
                false => other.push(path.clone()),
            }
        }
        if let Some(want) = time {
            match made.iter().any(|made| used(made.time_index.clone()) == want) {
                true => times += 1,
                false => other.push(path.clone()),
            }
        }
        if let Some(want) = txn.filter(|want| !want.is_empty() && base_offset == 0) {
            assert!(used(made[0].transaction_index.clone()) == want, "{path:?}");
            transactions += 1;
        }
    }
    println!(
        "the same: {offsets} .index, {times} .timeindex, {transactions} .txnindex; other: {}",
        other.len()
    );
    for path in other {
        // Brokers of old looked at a request's messages together; this partition's broker was stopped in between.
        let case = path.parent().and_then(Path::file_name).and_then(|name| name.to_str()).expect("a name");
        assert!(!case.starts_with("v2") || case == "v2-leader-epochs", "{case}");
    }
    assert!(offsets > 0 && times > 0 && transactions > 0);
}

/// A log with two producers, one of which aborts while the other's transaction is open.
#[test]
fn producers_are_followed() {
    let mut log = Vec::new();
    let mut encoder = Encoder::new();
    let mut batch = |producer_id, offset, control: Option<u8>| {
        let fields = BatchFields {
            producer_id,
            producer_epoch: 3,
            base_sequence: if control.is_some() { -1 } else { 5 },
            transactional: true,
            control: control.is_some(),
            ..BatchFields::default()
        };
        let key = control.map(|kind| [0, 0, 0, kind]);
        let record = NewRecord {
            offset,
            timestamp: 1000 + offset,
            key: key.as_ref().map(<[u8; 4]>::as_slice),
            value: Some(&[0, 0, 0, 0, 0, 9]),
            ..NewRecord::default()
        };
        encoder.encode(Format::V2, &fields, [record], &mut log).expect("carried");
    };
    batch(1, 10, None);
    batch(2, 11, None);
    batch(1, 12, Some(0));
    batch(1, 13, None);
    batch(1, 14, Some(1));
    let mut producers = Producers::new();
    let aborted: Vec<_> = Log::new(&log, Options::default())
        .filter_map(|entry| producers.append(&entry.expect("sound")).expect("sound"))
        .collect();
    let one = AbortedTxn { producer_id: 1, first_offset: 10, last_offset: 12, last_stable_offset: 11 };
    assert_eq!(aborted, [one]);
    assert_eq!(producers.first_open(), Some(11));
    let snapshot = producers.snapshot();
    let open: Vec<_> = snapshot.entries.iter().map(|entry| entry.current_txn_first_offset).collect();
    assert_eq!(open, [None, Some(11)]);
    let first = snapshot.entries[0];
    assert_eq!((first.producer_epoch, first.last_sequence, first.last_offset), (3, 5, 13));
    assert_eq!((first.timestamp, first.coordinator_epoch), (1014, 9));
}
