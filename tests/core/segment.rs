//! The files beside a segment: all of the golden corpus, and properties over any bytes.

#![allow(clippy::unwrap_used)] // A test may panic.

use crate::corpus;
use base64::Engine as _;
use magicbyte::segment::*;
use proptest::prelude::*;
use serde_json::Value;
use std::path::{Path, PathBuf};

fn json_lines(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn beside(path: &Path) -> PathBuf {
    PathBuf::from(format!("{}.jsonl", path.display()))
}

fn int(value: &Value, name: &str) -> i64 {
    value[name].as_i64().unwrap()
}

/// Every entry as Kafka's own library reads it, and the same bytes from our builders.
#[test]
fn golden_indexes() {
    let Some(files) = corpus::files(&["golden/logs"], &["index", "timeindex", "txnindex"]) else { return };
    let (mut offset_indexes, mut time_indexes, mut txn_indexes) = (0, 0, 0);
    for path in files {
        let name = path.file_name().unwrap().to_str().unwrap();
        let read = || (std::fs::read(&path).unwrap(), json_lines(&beside(&path)));
        match SegmentFile::parse(name) {
            SegmentFile::Index { base_offset } => {
                let (bytes, expected) = read();
                let index = OffsetIndex::new(&bytes, base_offset);
                assert_eq!(index.flaw(), None, "{}", path.display());
                let expected: Vec<_> =
                    expected.iter().map(|e| (int(e, "offset"), int(e, "position"))).collect();
                let found: Vec<_> = index.iter().map(|e| (e.offset, i64::from(e.position))).collect();
                assert_eq!(found, expected, "{}", path.display());
                let mut builder = OffsetIndexBuilder::new(base_offset);
                index.iter().for_each(|e| builder.append(e.offset, e.position).unwrap());
                assert!(bytes.starts_with(builder.as_bytes()), "{}", path.display());
                offset_indexes += 1;
            }
            SegmentFile::TimeIndex { base_offset } => {
                let (bytes, expected) = read();
                let index = TimeIndex::new(&bytes, base_offset);
                assert_eq!(index.flaw(), None, "{}", path.display());
                let expected: Vec<_> =
                    expected.iter().map(|e| (int(e, "timestamp"), int(e, "offset"))).collect();
                let found: Vec<_> = index.iter().map(|e| (e.timestamp, e.offset)).collect();
                assert_eq!(found, expected, "{}", path.display());
                let mut builder = TimeIndexBuilder::new(base_offset);
                index.iter().for_each(|e| builder.append(e.timestamp, e.offset).unwrap());
                assert!(bytes.starts_with(builder.as_bytes()), "{}", path.display());
                time_indexes += 1;
            }
            SegmentFile::TxnIndex { base_offset } => {
                let (bytes, expected) = read();
                let index = TransactionIndex::new(&bytes, base_offset);
                let found: Vec<_> = index.iter().map(Result::unwrap).collect();
                let expected: Vec<_> = expected
                    .iter()
                    .map(|e| AbortedTxn {
                        producer_id: int(e, "producerId"),
                        first_offset: int(e, "firstOffset"),
                        last_offset: int(e, "lastOffset"),
                        last_stable_offset: int(e, "lastStableOffset"),
                    })
                    .collect();
                assert_eq!(found, expected, "{}", path.display());
                let mut builder = TransactionIndexBuilder::new(base_offset);
                found.iter().for_each(|txn| builder.append(txn).unwrap());
                assert_eq!(builder.into_bytes(), bytes, "{}", path.display());
                txn_indexes += 1;
            }
            _ => {}
        }
    }
    println!("compared: {offset_indexes} .index, {time_indexes} .timeindex, {txn_indexes} .txnindex");
    assert!(offset_indexes > 0 && time_indexes > 0 && txn_indexes > 0);
}

/// An index never leads past what is looked for: checked with each batch of each golden log.
#[test]
fn golden_lookups() {
    let Some(files) = corpus::files(&["golden/logs"], &["log"]) else { return };
    for path in files {
        let Some(SegmentFile::Log { base_offset }) =
            path.file_name().and_then(|n| n.to_str()).map(SegmentFile::parse)
        else {
            continue;
        };
        let batches = json_lines(&beside(&path));
        let batches: Vec<_> = batches.iter().filter(|line| line["t"] == "batch").collect();
        if let Ok(bytes) = std::fs::read(path.with_extension("index")) {
            let index = OffsetIndex::new(&bytes, base_offset);
            for entry in index.iter() {
                let there = |b: &&&Value| int(b, "position") == i64::from(entry.position);
                let batch = batches.iter().find(there).expect("an entry stands at a batch");
                assert!(int(batch, "lastOffset") <= entry.offset, "{}", path.display());
            }
            for batch in &batches {
                for offset in [int(batch, "baseOffset"), int(batch, "lastOffset")] {
                    let found = index.lookup(offset);
                    assert!(i64::from(found.position) <= int(batch, "position"), "{}", path.display());
                }
            }
        }
        if let Ok(bytes) = std::fs::read(path.with_extension("timeindex")) {
            let index = TimeIndex::new(&bytes, base_offset);
            for batch in &batches {
                let timestamp = int(batch, "maxTimestamp");
                // The first batch that reaches a timestamp ends at or after the offset that is given for it.
                let first = batches.iter().find(|b| int(b, "maxTimestamp") >= timestamp).unwrap();
                assert!(index.lookup(timestamp).offset <= int(first, "lastOffset"), "{}", path.display());
            }
        }
    }
}

fn offset_entries() -> impl Strategy<Value = Vec<(i32, i32)>> {
    // Steps that rise; those that would pass an int32 are cut off.
    prop::collection::vec((1..1 << 24, 1..1 << 24), 0..200).prop_map(|steps| {
        steps
            .iter()
            .scan((-1, 0), |at, step| {
                *at = (at.0 + step.0, at.1 + step.1);
                Some(*at)
            })
            .take_while(|at| at.0 < i32::MAX / 2 && at.1 < i32::MAX / 2)
            .collect()
    })
}

fn producer() -> impl Strategy<Value = ProducerStateEntry> {
    let numbers =
        (any::<i64>(), any::<i16>(), any::<i32>(), any::<i64>(), any::<i32>(), any::<i64>(), any::<i32>());
    (numbers, prop::option::of(0..=i64::MAX)).prop_map(|(n, current_txn_first_offset)| ProducerStateEntry {
        producer_id: n.0,
        producer_epoch: n.1,
        last_sequence: n.2,
        last_offset: n.3,
        offset_delta: n.4,
        timestamp: n.5,
        coordinator_epoch: n.6,
        current_txn_first_offset,
    })
}

/// Bytes that are often zero or small, so that more than the first field of an entry is reached.
fn any_bytes() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(prop_oneof![6 => Just(0_u8), 2 => 0..4_u8, 1 => any::<u8>()], 0..300)
}

proptest! {
    #[test]
    fn offset_index_round_trip(entries in offset_entries(), base in 0..i64::MAX / 2, padding in 0..50_usize, offset: i64) {
        let mut builder = OffsetIndexBuilder::new(base);
        for (relative, position) in &entries {
            builder.append(base + i64::from(*relative), *position).unwrap();
        }
        let mut bytes = builder.into_bytes();
        prop_assert_eq!(bytes.len(), entries.len() * OffsetIndex::ENTRY_SIZE);
        if !entries.is_empty() {
            bytes.resize(bytes.len() + padding * OffsetIndex::ENTRY_SIZE, 0);
        }
        let index = OffsetIndex::new(&bytes, base);
        prop_assert_eq!(index.flaw(), None);
        let found: Vec<_> = index.iter().map(|e| ((e.offset - base) as i32, e.position)).collect();
        prop_assert_eq!(found, entries);
        for target in [offset, base.wrapping_add(offset % (1 << 26))] {
            let linear = index.iter().take_while(|e| e.offset <= target).last();
            prop_assert_eq!(index.lookup(target), linear.unwrap_or(OffsetPosition { offset: base, position: 0 }));
        }
    }

    #[test]
    fn time_index_round_trip(entries in offset_entries(), base in 0..i64::MAX / 2, padding in 0..50_usize, target in -5..1_i64 << 26) {
        let mut builder = TimeIndexBuilder::new(base);
        for (offset, timestamp) in &entries {
            builder.append(i64::from(*timestamp), base + i64::from(*offset)).unwrap();
        }
        let mut bytes = builder.into_bytes();
        bytes.resize(bytes.len() + if entries.is_empty() { 0 } else { padding * TimeIndex::ENTRY_SIZE }, 0);
        let index = TimeIndex::new(&bytes, base);
        prop_assert_eq!(index.flaw(), None);
        let found: Vec<_> = index.iter().map(|e| ((e.offset - base) as i32, e.timestamp as i32)).collect();
        prop_assert_eq!(found, entries);
        let linear = index.iter().take_while(|e| e.timestamp <= target).last();
        prop_assert_eq!(index.lookup(target), linear.unwrap_or(TimestampOffset { timestamp: -1, offset: base }));
    }

    #[test]
    fn aborted_txn_round_trip(producer_id: i64, first_offset: i64, last_offset: i64, last_stable_offset: i64) {
        let txn = AbortedTxn { producer_id, first_offset, last_offset, last_stable_offset };
        prop_assert_eq!(AbortedTxn::decode(&txn.encode()), Ok(txn));
    }

    #[test]
    fn checkpoint_round_trip(entries in offset_entries()) {
        let entries = entries.iter().map(|(o, e)| EpochEntry { epoch: *e, start_offset: i64::from(*o) });
        let checkpoint = LeaderEpochCheckpoint::from_entries(entries).unwrap();
        prop_assert_eq!(LeaderEpochCheckpoint::parse(checkpoint.encode().as_bytes()), Ok(checkpoint));
    }

    #[test]
    fn topic_id_is_base64(id in 1..=u128::MAX) {
        let id = id.to_be_bytes();
        let metadata = PartitionMetadata::new(TopicId::from_bytes(id));
        prop_assert_eq!(metadata.topic_id.to_string(), base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(id));
        prop_assert_eq!(PartitionMetadata::parse(metadata.encode().as_bytes()), Ok(metadata));
    }

    #[test]
    fn producer_snapshot_round_trip(entries in prop::collection::vec(producer(), 0..20)) {
        let snapshot = ProducerSnapshot { entries };
        let bytes = snapshot.encode().unwrap();
        prop_assert_eq!(bytes.len(), snapshot.encoded_size());
        prop_assert_eq!(ProducerSnapshot::parse(&bytes), Ok(snapshot));
    }

    #[test]
    fn any_bytes_give_an_answer_or_an_error(bytes in any_bytes(), base: i64, target: i64) {
        let index = OffsetIndex::new(&bytes, base);
        let entries: Vec<_> = index.iter().collect();
        prop_assert!(entries.is_sorted_by(|a, b| a.offset < b.offset && a.position < b.position));
        prop_assert!(entries.iter().all(|e| e.offset >= base && e.position >= 0));
        let _ = index.lookup(target);
        let index = TimeIndex::new(&bytes, base);
        let entries: Vec<_> = index.iter().collect();
        prop_assert!(entries.is_sorted_by(|a, b| a.timestamp < b.timestamp && a.offset <= b.offset));
        let _ = index.lookup(target);
        let index = TransactionIndex::new(&bytes, base);
        prop_assert_eq!(index.flaw(), index.iter().find_map(Result::err));
        prop_assert!(index.iter().count() <= bytes.len() / AbortedTxn::ENCODED_SIZE + 1);
        let _ = index.collect_aborted(target, base);
        let _ = ProducerSnapshot::parse(&bytes);
    }

    #[test]
    fn any_text_gives_an_answer_or_an_error(text in "(0\n|1\n|[0-9] [0-9]\r?\n|\\PC|version: |topic_id: |\n){0,12}") {
        for error in [LeaderEpochCheckpoint::parse(text.as_bytes()).err(), PartitionMetadata::parse(text.as_bytes()).err()] {
            prop_assert!(error.is_none_or(|error| error.position <= text.len() as u64));
        }
        let _ = (SegmentFile::parse(&text), DirName::parse(&text), TopicId::parse(&text));
    }

    #[test]
    fn any_name_that_is_read_is_written_so(name in "[a-z.-]{0,3}[0-9]{19,21}(-[0-9]{9,11})?[.](log|index|checkpoint|x)") {
        let again = match SegmentFile::parse(&name) {
            SegmentFile::Log { base_offset } => segment_file_name(base_offset, "log"),
            SegmentFile::Index { base_offset } => segment_file_name(base_offset, "index"),
            SegmentFile::Checkpoint { end_offset, epoch } => snapshot_file_name(end_offset, epoch),
            _ => None,
        };
        prop_assert!(again.is_none_or(|again| again == name));
    }

    #[test]
    fn any_partition_that_is_read_is_written_so(name in "[a-z.-]{0,5}-[0-9+-]{0,3}") {
        if let Some(partition) = TopicPartition::parse(&name) {
            prop_assert_eq!(partition.to_string(), name);
        }
    }
}
