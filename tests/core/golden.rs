//! Logs written by real Kafka, and the vectors of every format, against what is expected of them.

use std::path::{Path, PathBuf};

use base64::prelude::{BASE64_STANDARD, Engine as _};
use magicbyte::{Dialect, Format, Log, Options, TimestampType};
use serde_json::Value;

use crate::corpus;
use crate::owned::{lines, records, unhex};

fn same_bytes(have: Option<&Vec<u8>>, want: &Value) -> bool {
    match want {
        Value::Null => have.is_none(),
        Value::String(text) => have == BASE64_STANDARD.decode(text).ok().as_ref(),
        // Large ones are given by digest; their length is enough here, the Python tests compare digests.
        other => have.map(Vec::len) == other["len"].as_u64().map(|n| n as usize),
    }
}

/// Compares a file with the JSON lines that Kafka's own library read from it.
fn compare(path: &Path, expected: &Path) -> (usize, usize) {
    let bytes = std::fs::read(path).expect("readable");
    let options = Options { preallocated: true, ..Options::default() };
    let mut want = lines(expected).into_iter().peekable();
    let (mut batches, mut count) = (0, 0);
    let mut valid = 0;
    for item in Log::new(&bytes, options) {
        let entry = match item {
            Ok(entry) => entry,
            Err(damage) => {
                assert!(damage.is_tail(), "{path:?}: {damage:?}");
                continue;
            }
        };
        let w = want.next().expect("a batch more than Kafka sees");
        assert_eq!(w["t"], "batch", "{path:?}");
        let head = entry.head;
        let at = format!("{path:?} at {}", entry.position);
        assert_eq!(w["position"], entry.position, "{at}");
        assert_eq!(w["sizeInBytes"], head.size, "{at}");
        assert_eq!(w["magic"], head.format.traits().magic, "{at}");
        assert_eq!(w["lastOffset"], head.last_offset, "{at}");
        assert_eq!(w["crc"], head.crc, "{at}");
        assert_eq!(w["compressionType"], head.codec().expect("known").name(), "{at}");
        assert_eq!(w["maxTimestamp"], head.max_timestamp, "{at}");
        assert_eq!(w["producerId"], head.producer_id, "{at}");
        assert_eq!(w["producerEpoch"], head.producer_epoch, "{at}");
        assert_eq!(w["baseSequence"], head.base_sequence, "{at}");
        assert_eq!(w["partitionLeaderEpoch"], head.leader_epoch, "{at}");
        assert_eq!(w["isTransactional"], head.is_transactional(), "{at}");
        assert_eq!(w["isControlBatch"], head.is_control(), "{at}");
        assert_eq!(w["deleteHorizonMs"].as_i64(), head.delete_horizon(), "{at}");
        if head.count.is_some() {
            assert_eq!(w["baseOffset"], head.base_offset, "{at}");
            assert_eq!(w["count"].as_i64(), head.count.map(i64::from), "{at}");
            assert_eq!(w["baseTimestamp"], head.base_timestamp, "{at}");
        }
        let (have, _, flaw) = records(&entry);
        assert_eq!(flaw, None, "{at}");
        for r in have {
            let w = want.next().expect("a record more than Kafka sees");
            assert_eq!(w["t"], "record", "{at}");
            let at = format!("{at}, offset {}", r.offset);
            assert_eq!(w["offset"], r.offset, "{at}");
            assert_eq!(w["timestamp"], head.effective_timestamp(r.timestamp), "{at}");
            let sequence = if head.count.is_some() { head.sequence(r.offset) } else { -1 };
            assert_eq!(w["sequence"], sequence, "{at}");
            let kind = match head.timestamp_type {
                TimestampType::None => "NoTimestampType",
                TimestampType::CreateTime => "CreateTime",
                TimestampType::LogAppendTime => "LogAppendTime",
            };
            assert_eq!(w["timestampType"], kind, "{at}");
            assert!(same_bytes(r.key.as_ref(), &w["key"]), "{at}: key");
            assert!(same_bytes(r.value.as_ref(), &w["value"]), "{at}: value");
            let headers = w["headers"].as_array().expect("headers");
            assert_eq!(headers.len(), r.headers.len(), "{at}");
            for (w, (key, value)) in headers.iter().zip(&r.headers) {
                assert_eq!(w[0], *String::from_utf8_lossy(key), "{at}");
                assert!(same_bytes(value.as_ref(), &w[1]), "{at}: header {}", key.escape_ascii());
            }
            count += 1;
        }
        batches += 1;
        valid = entry.position + head.size as u64;
    }
    // Where a preallocated segment's zeros begin, Kafka's reader reports a size of 0; they are its normal end.
    if want.peek().is_some_and(|w| w["t"] == "error") {
        let error = want.next().expect("peeked");
        assert_eq!(error["position"], valid, "{path:?}");
        assert!(bytes[valid as usize..].iter().all(|&byte| byte == 0), "{path:?}: {error}");
    }
    let end = want.next().expect("an end");
    assert_eq!(end["t"], "end", "{path:?}: fewer batches or records than Kafka sees: {end}");
    assert_eq!(end["validBytes"], valid, "{path:?}");
    (batches, count)
}

fn expectation(path: &Path) -> Option<PathBuf> {
    let name = path.file_name()?.to_str()?;
    let given = path.with_file_name(format!("{name}.jsonl"));
    let stem = path.with_extension("jsonl");
    [given, stem].into_iter().find(|path| path.exists())
}

#[test]
fn logs_of_real_kafka_read_as_kafka_reads_them() {
    let Some(files) =
        corpus::files(&["golden/logs", "golden/encode", "golden/convert"], &["log", "bin", "checkpoint"])
    else {
        return;
    };
    let (mut compared, mut batches, mut count) = (0, 0, 0);
    for path in files {
        if let Some(expected) = expectation(&path) {
            let (b, r) = compare(&path, &expected);
            (compared, batches, count) = (compared + 1, batches + b, count + r);
        }
    }
    println!("{compared} files, {batches} batches, {count} records");
    assert!(compared > 0);
}

#[test]
fn vectors_read_as_given() {
    let Some(dir) = corpus::dir("vectors") else {
        return;
    };
    let mut count = 0;
    for format in Format::ALL {
        for (number, line) in lines(&dir.join(format!("{}.jsonl", format.name()))).iter().enumerate() {
            let at = format!("{} line {}", format.name(), number + 1);
            let bytes = unhex(line["hex"].as_str().expect("hex"));
            let batch = &line["batch"];
            let mut have = Vec::new();
            for item in Log::new(&bytes, Options { dialect: Dialect::of(format), ..Options::default() }) {
                let entry = item.unwrap_or_else(|damage| panic!("{at}: {}", damage.error()));
                let head = entry.head;
                let (records, base_offset, flaw) = records(&entry);
                assert_eq!(flaw, None, "{at}");
                if head.count.is_some() || head.codec_id() != 0 {
                    assert_eq!(batch["base_offset"], base_offset, "{at}");
                    assert_eq!(batch["max_timestamp"], head.max_timestamp, "{at}");
                    assert_eq!(batch["codec"], head.codec().expect("known").name(), "{at}");
                }
                if head.count.is_some() {
                    assert_eq!(
                        batch["last_offset_delta"],
                        head.last_offset.wrapping_sub(head.base_offset),
                        "{at}"
                    );
                    assert_eq!(batch["base_timestamp"], head.base_timestamp, "{at}");
                    assert_eq!(batch["partition_leader_epoch"], head.leader_epoch, "{at}");
                    assert_eq!(batch["transactional"], head.is_transactional(), "{at}");
                    assert_eq!(batch["control"], head.is_control(), "{at}");
                    assert_eq!(batch["delete_horizon"], head.delete_horizon().is_some(), "{at}");
                    assert_eq!(batch["producer_id"], head.producer_id, "{at}");
                    assert_eq!(batch["producer_epoch"], head.producer_epoch, "{at}");
                    assert_eq!(batch["base_sequence"], head.base_sequence, "{at}");
                }
                if format == Format::V3 {
                    assert_eq!(batch["ignore_message_attributes"], head.ignores_message_attributes(), "{at}");
                }
                for r in records {
                    have.push((head, r));
                }
            }
            let want = batch["records"].as_array().expect("records");
            assert_eq!(want.len(), have.len(), "{at}");
            for (w, (head, r)) in want.iter().zip(&have) {
                assert_eq!(w["offset"], r.offset, "{at}");
                assert_eq!(w["timestamp"], r.timestamp, "{at}");
                assert_eq!(w["effective_timestamp"], head.effective_timestamp(r.timestamp), "{at}");
                if head.count.is_some() {
                    assert_eq!(w["sequence"], head.sequence(r.offset), "{at}");
                }
                if matches!(format, Format::V2 | Format::V3) {
                    assert_eq!(w["attributes"], r.attributes, "{at}");
                }
                assert!(same_bytes(r.key.as_ref(), &w["key"]), "{at}: key");
                assert!(same_bytes(r.value.as_ref(), &w["value"]), "{at}: value");
                assert_eq!(w["tombstone"].as_bool(), r.tombstone, "{at}");
                let headers = w["headers"].as_array().expect("headers");
                assert_eq!(headers.len(), r.headers.len(), "{at}");
                for (w, (key, value)) in headers.iter().zip(&r.headers) {
                    assert_eq!(w["key"], *String::from_utf8_lossy(key), "{at}");
                    assert!(same_bytes(value.as_ref(), &w["value"]), "{at}");
                }
            }
            count += 1;
        }
    }
    println!("{count} vectors");
}

#[test]
fn malformed_vectors_do_as_told() {
    let Some(dir) = corpus::dir("vectors") else {
        return;
    };
    let mut failures = Vec::new();
    for (number, line) in lines(&dir.join("malformed.jsonl")).iter().enumerate() {
        let format = Format::from_name(line["dialect"].as_str().expect("dialect")).expect("known");
        let bytes = unhex(line["hex"].as_str().expect("hex"));
        let mut outcome = "reads".to_owned();
        for item in Log::new(&bytes, Options { dialect: Dialect::of(format), ..Options::default() }) {
            match item {
                Ok(entry) => {
                    if let (_, _, Some(flaw)) = records(&entry) {
                        outcome = format!("refuses ({flaw})");
                    }
                }
                Err(damage) if damage.is_tail() => outcome = format!("stops ({})", damage.flaw),
                Err(damage) => outcome = format!("refuses ({})", damage.flaw),
            }
        }
        let want = line["reader"].as_str().expect("reader");
        if !outcome.starts_with(want) {
            failures.push(format!(
                "line {} {}: {}: wants {want}, {outcome}",
                number + 1,
                line["dialect"],
                line["why"]
            ));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
