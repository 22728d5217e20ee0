//! Any format to any other: Kafka's own converters, v3 and back, and what the conversion table promises.

use std::path::{Path, PathBuf};

use magicbyte::format::HeaderSupport;
use magicbyte::{
    BatchFields, Codec, Conversion, ConvertError, Converted, Dialect, Dropped, EncodeFlaw, Encoder, Entry,
    Format, Head, Log, Mode, Options, Protocol, Request, TimestampType, convert, detect, request_format,
};

use proptest::prelude::*;

use crate::corpus;
use crate::encode::any_batch;
use crate::owned::{self, Owned};

fn from(dialect: Dialect) -> Options {
    Options { dialect, preallocated: true, ..Options::default() }
}

/// What a consumer sees.
#[derive(Debug, PartialEq)]
struct Seen {
    format: Format,
    codec: u8,
    timestamp_type: TimestampType,
    record: Owned,
}

fn seen(bytes: &[u8], dialect: Dialect) -> Vec<Seen> {
    let mut all = Vec::new();
    for item in Log::new(bytes, from(dialect)) {
        let entry = item.expect("sound");
        let (records, _, flaw) = owned::records(&entry);
        assert_eq!(flaw, None);
        let Head { format, timestamp_type, .. } = entry.head;
        all.extend(records.into_iter().map(|mut record| {
            record.timestamp = entry.head.effective_timestamp(record.timestamp);
            record.attributes = 0;
            Seen { format, codec: entry.head.codec_id(), timestamp_type, record }
        }));
    }
    all
}

fn first_segment(dir: &Path) -> PathBuf {
    let mut logs: Vec<_> =
        std::fs::read_dir(dir).expect("readable").map(|entry| entry.expect("readable").path()).collect();
    logs.retain(|path| path.extension().is_some_and(|e| e == "log"));
    logs.sort();
    logs.swap_remove(0)
}

#[test]
fn golden_conversions_agree_with_kafkas_own() {
    let (Some(files), Some(logs), Some(encoded)) = (
        corpus::files(&["golden/convert"], &["json"]),
        corpus::dir("golden/logs"),
        corpus::dir("golden/encode"),
    ) else {
        return;
    };
    let (mut exact, mut equal, mut refused) = (0, 0, 0);
    for meta_path in files {
        let meta = owned::lines(&meta_path).remove(0);
        let at = format!("{meta_path:?}");
        let source = meta["source"].as_str().expect("source");
        let up = at.contains("-up-");
        let path = if up { encoded.join(format!("{source}.bin")) } else { first_segment(&logs.join(source)) };
        let bytes = std::fs::read(path).expect("readable");
        let to = [Format::V0, Format::V1, Format::V2][meta["toMagic"].as_i64().expect("magic") as usize];
        let offset = meta["firstOffset"].as_i64();
        let conversion = if up {
            Conversion { first_offset: offset, leader_epoch: Some(6), ..Conversion::new(to) }
        } else {
            Conversion { from_offset: offset, keep_older: true, ..Conversion::new(to) }
        };
        let have = convert(&bytes, from(Dialect::Kafka), conversion);
        if meta["exception"].is_string() {
            let Err(ConvertError::Write { error, .. }) = have else { panic!("{at}: {have:?}") };
            assert_eq!(error.flaw, EncodeFlaw::Codec(Codec::Zstd), "{at}");
            refused += 1;
            continue;
        }
        let have = have.unwrap_or_else(|error| panic!("{at}: {error}")).data;
        let name = meta_path.file_name().and_then(|name| name.to_str()).expect("a name");
        let want =
            std::fs::read(meta_path.with_file_name(name.replace(".meta.json", ".bin"))).expect("readable");
        let plain = Log::new(&bytes, from(Dialect::Kafka)).flatten().all(|entry| entry.head.codec_id() == 0);
        if plain {
            assert!(have == want, "{at}: {} and {} bytes", have.len(), want.len());
            exact += 1;
        } else {
            assert_eq!(seen(&have, Dialect::Kafka), seen(&want, Dialect::Kafka), "{at}");
            equal += 1;
        }
    }
    println!("{exact} conversions to the byte, {equal} decoded equal, {refused} refused as Kafka does");
    assert!(exact > 0);
}

fn entries<'a>(bytes: &'a [u8], dialect: Dialect) -> impl Iterator<Item = Entry<'a>> {
    Log::new(bytes, from(dialect)).map_while(Result::ok)
}

fn to(bytes: &[u8], dialect: Dialect, format: Format) -> Converted {
    convert(bytes, from(dialect), Conversion::new(format))
        .unwrap_or_else(|error| panic!("{format:?}: {error}"))
}

#[test]
fn v2_to_v3_and_back_is_the_same_to_the_byte() {
    let Some(files) = corpus::files(&["golden/logs", "golden/encode"], &["log", "checkpoint", "bin"]) else {
        return;
    };
    let (mut plain, mut compressed, mut records) = (0, 0, 0);
    let (mut v2_bytes, mut v3_bytes) = (0, 0);
    for path in files {
        let bytes = std::fs::read(&path).expect("readable");
        for entry in entries(&bytes, Dialect::Kafka).filter(|entry| entry.head.format == Format::V2) {
            let v3 = to(entry.bytes, Dialect::Kafka, Format::V3);
            assert_eq!(v3.dropped, Dropped::default());
            let back = to(&v3.data, Dialect::Kafka, Format::V2);
            assert_eq!(back.dropped, Dropped::default());
            let at = format!("{path:?} at {}", entry.position);
            if entry.head.codec_id() == 0 {
                assert!(back.data == entry.bytes, "{at}");
                (v2_bytes, v3_bytes) = (v2_bytes + entry.bytes.len(), v3_bytes + v3.data.len());
                records += entry.head.count.unwrap_or(0);
                plain += 1;
            } else {
                assert_eq!(
                    owned::read(&back.data, Dialect::Kafka),
                    owned::read(entry.bytes, Dialect::Kafka),
                    "{at}"
                );
                compressed += 1;
            }
        }
    }
    println!(
        "{plain} uncompressed v2 batches of {records} records come back to the byte, {compressed} compressed ones equal"
    );
    println!("uncompressed: {v2_bytes} bytes in v2, {v3_bytes} in v3");
    assert!(plain > 0);
}

#[test]
fn v3_vectors_to_v2_and_back() {
    let Some(dir) = corpus::dir("vectors") else {
        return;
    };
    let mut same = 0;
    for line in owned::lines(&dir.join("v3.jsonl")) {
        let bytes = owned::unhex(line["hex"].as_str().expect("hex"));
        let only = Dialect::Only(Format::V3);
        let back = to(&to(&bytes, only, Format::V2).data, Dialect::Kafka, Format::V3);
        let records = line["batch"]["records"].as_array().expect("records");
        let needless = line["batch"]["ignore_message_attributes"] == false
            && records.iter().all(|record| record["attributes"] == 0);
        if line["exact"] == true && !needless {
            assert!(back.data == bytes, "{line}");
            same += 1;
        }
        assert_eq!(owned::read(&back.data, only).1, owned::read(&bytes, only).1);
    }
    println!("{same} v3 vectors come back to the byte");
    assert!(same > 0);
}

/// One batch of a format, from records that it can carry.
fn batch(format: Format, fields: &BatchFields, records: &[Owned]) -> Vec<u8> {
    let headers: Vec<_> = records.iter().map(Owned::headers).collect();
    let new = records.iter().zip(&headers).map(|(record, headers)| record.new_record(headers));
    let mut out = Vec::new();
    Encoder::new().encode(format, fields, new, &mut out).expect("carried");
    out
}

fn record(offset: i64, key: &str, value: Option<&str>) -> Owned {
    Owned {
        offset,
        timestamp: 1_478_304_000_000 + offset,
        key: Some(key.into()),
        value: value.map(Into::into),
        ..Owned::default()
    }
}

#[test]
fn what_a_message_set_cannot_carry_is_counted() {
    let mut records = vec![record(7, "a", Some("1")), record(9, "b", None)];
    records[0].headers = vec![(b"h".to_vec(), Some(b"v".to_vec())), (b"h".to_vec(), None)];
    let fields = BatchFields {
        producer_id: 5,
        producer_epoch: 1,
        base_sequence: 0,
        transactional: true,
        ..BatchFields::default()
    };
    let empty = BatchFields { base_offset: Some(10), last_offset_delta: Some(3), ..fields.clone() };
    let marker = BatchFields { control: true, ..fields.clone() };
    let mut log = batch(Format::V2, &fields, &records);
    log.extend(batch(Format::V2, &empty, &[]));
    log.extend(batch(Format::V2, &marker, &[record(14, "\0\0\0\x01", Some(""))]));
    let have = to(&log, Dialect::Kafka, Format::V0);
    let want = Dropped {
        headers: 2,
        timestamps: 2,
        producer_state: 1,
        transactional: 2,
        control_batches: 1,
        empty_batches: 1,
        ..Dropped::default()
    };
    assert_eq!(have.dropped, want);
    let left: Vec<_> = seen(&have.data, Dialect::Kafka).into_iter().map(|seen| seen.record.offset).collect();
    assert_eq!(left, [7, 9]);
    assert_eq!(to(&log, Dialect::Kafka, Format::V3).dropped, Dropped::default());
    assert_eq!(to(&log, Dialect::Kafka, Format::V2).data, log);
}

#[test]
fn numbering_anew_makes_one_batch_of_single_messages() {
    let records: Vec<_> = (0..5).map(|i| record(3 * i, "k", Some("v"))).collect();
    let v1 = batch(Format::V1, &BatchFields::default(), &records);
    let count = |conversion| {
        let have = convert(&v1, from(Dialect::Kafka), conversion).expect("sound").data;
        let offsets: Vec<_> = seen(&have, Dialect::Kafka).iter().map(|seen| seen.record.offset).collect();
        (entries(&have, Dialect::Kafka).count(), offsets)
    };
    let plain = Conversion::new(Format::V2);
    assert_eq!(count(plain), (5, vec![0, 3, 6, 9, 12]));
    let anew = Conversion { first_offset: Some(100), ..plain };
    assert_eq!(count(anew), (1, vec![100, 101, 102, 103, 104]));
    assert_eq!(count(Conversion { codec: Some(Codec::Zstd), ..anew }), (1, vec![100, 101, 102, 103, 104]));
    // Closed by size: never more than one batch in memory.
    assert_eq!(count(Conversion { batch_bytes: 61 + 50, ..anew }).0, 3);
    // A batch with holes is numbered without them, as are batches behind it.
    let v2 = [batch(Format::V2, &BatchFields::default(), &records), v1].concat();
    let have = convert(&v2, from(Dialect::Kafka), anew).expect("sound").data;
    let offsets: Vec<_> = seen(&have, Dialect::Kafka).iter().map(|seen| seen.record.offset).collect();
    assert_eq!(offsets, (100..110).collect::<Vec<_>>());
    // Without holes only the header changes.
    let again =
        convert(&have, from(Dialect::Kafka), Conversion { leader_epoch: Some(9), ..anew }).expect("sound");
    assert!(entries(&again.data, Dialect::Kafka).all(|entry| entry.head.leader_epoch == 9));
    assert_eq!(seen(&again.data, Dialect::Kafka), seen(&have, Dialect::Kafka));
}

/// The migration plan of KIP-87, step by step.
#[test]
fn kip87_migrates() {
    let mut with_value = record(1, "k", Some("who deleted it"));
    with_value.tombstone = Some(true);
    let mut live = record(0, "k", Some("v"));
    live.tombstone = Some(false);
    let mut bare = record(2, "k", None);
    bare.tombstone = Some(true);
    let log = batch(Format::Kip87, &BatchFields::default(), &[live, with_value, bare]);
    let kip87 = |request, version| request_format(Protocol::Kip87, request, version).expect("a version");

    // A new consumer is served what the log holds.
    let new = to(&log, Dialect::Kip87, kip87(Request::Fetch, 3));
    assert_eq!(new.data, log);
    // For an older one a tombstone's value becomes null, which it takes for a delete.
    for version in [0, 2] {
        let old = to(&log, Dialect::Kip87, kip87(Request::Fetch, version));
        assert_eq!(old.dropped.tombstone_values, 1);
        let values: Vec<_> =
            seen(&old.data, Dialect::Kafka).into_iter().map(|seen| seen.record.value).collect();
        assert_eq!(values, [Some(b"v".to_vec()), None, None]);
    }
    // What an older producer sends has the flag where its value is null.
    let produced =
        batch(Format::V1, &BatchFields::default(), &[record(5, "k", None), record(6, "k", Some(""))]);
    let stored = to(&produced, Dialect::Kafka, Format::Kip87);
    let flags: Vec<_> =
        seen(&stored.data, Dialect::Kip87).into_iter().map(|seen| seen.record.tombstone).collect();
    assert_eq!(flags, [Some(true), Some(false)]);
    assert_eq!(stored.dropped, Dropped::default());
}

/// A live record with a null value, which no writer makes: the fourth byte behind the crc's is the attributes.
#[test]
fn a_live_null_is_no_delete_unless_the_caller_says_so() {
    let line = "0000000000000005000000160000000002000000000000000007ffffffffffffffff";
    let mut log = owned::unhex(line);
    let crc = magicbyte::checksum::Checksum::Crc32.of(&log[16..]);
    log[12..16].copy_from_slice(&crc.to_be_bytes());
    assert_eq!(detect(&log), [Format::Kip87, Format::Kip82a]);
    for format in Format::ALL.into_iter().filter(|format| *format != Format::Kip87) {
        let conversion = Conversion::new(format);
        let error = convert(&log, from(Dialect::Kip87), conversion).expect_err("a delete");
        let ConvertError::Write { position: 0, error } = error else { panic!("{error}") };
        assert_eq!((error.record, error.flaw), (Some(0), EncodeFlaw::LiveNullValue));
        let allowed = Conversion { null_is_tombstone: true, ..conversion };
        let done = convert(&log, from(Dialect::Kip87), allowed).expect("allowed");
        assert_eq!(done.dropped.null_values, 1);
    }
    assert_eq!(to(&log, Dialect::Kip87, Format::Kip87).data, log);
    let recoded = Conversion { codec: Some(Codec::Gzip), ..Conversion::new(Format::Kip87) };
    let recoded = convert(&log, from(Dialect::Kip87), recoded).expect("its own format").data;
    assert_eq!(seen(&recoded, Dialect::Kip87)[0].record.tombstone, Some(false));
}

#[test]
fn detect_leaves_what_the_checksum_allows() {
    let one = [record(0, "key of some length", Some("v"))];
    let of = |format| batch(format, &BatchFields::default(), &one);
    assert_eq!(detect(&of(Format::V0)), [Format::V0]);
    assert_eq!(detect(&of(Format::V1)), [Format::V1]);
    assert_eq!(detect(&of(Format::V2)), [Format::V2, Format::Kip82b]);
    assert_eq!(detect(&of(Format::Kip82b)), [Format::V2, Format::Kip82b]);
    assert_eq!(detect(&of(Format::Kip87)), [Format::Kip87, Format::Kip82a]);
    assert_eq!(detect(&of(Format::V3)), [Format::V3]);
    let mixed = [of(Format::V0), of(Format::V3), of(Format::Kip87), b"tail".to_vec()].concat();
    assert_eq!(detect(&mixed), [Format::V0, Format::V3, Format::Kip87, Format::Kip82a]);
    // Too small for KIP-87's layout.
    let small = batch(Format::Kip82a, &BatchFields::default(), &[Owned { timestamp: 1, ..Owned::default() }]);
    assert_eq!(detect(&small), [Format::Kip82a]);
    assert_eq!(detect(b""), []);
    assert_eq!(detect(&[0; 100]), []);
}

/// What a consumer sees of a conversion, against the conversion table.
fn compare(at: &str, first: Format, second: Format, before: &[Seen], after: &[Seen], dropped: &Dropped) {
    let (have, want) = (second.traits(), first.traits());
    let control = want.producer && !have.producer && dropped.control_batches > 0;
    let kept = if control { &[] } else { before };
    assert_eq!(kept.len(), after.len(), "{at}");
    let timed = have.timestamps && want.timestamps;
    let headers = !matches!(have.headers, HeaderSupport::No);
    let mut lost = Dropped::default();
    for (b, a) in kept.iter().zip(after) {
        let at = format!("{at} offset {}", b.record.offset);
        assert_eq!((a.format, a.codec), (second, b.codec), "{at}");
        assert_eq!((a.record.offset, &a.record.key), (b.record.offset, &b.record.key), "{at}");
        assert_eq!(a.record.timestamp, if timed { b.record.timestamp } else { -1 }, "{at}");
        if timed {
            assert_eq!(a.timestamp_type, b.timestamp_type, "{at}");
        }
        assert_eq!(a.record.headers, if headers { b.record.headers.clone() } else { Vec::new() }, "{at}");
        let deletes = b.record.tombstone == Some(true) && !have.tombstone_flag;
        assert_eq!(a.record.value, b.record.value.clone().filter(|_| !deletes), "{at}");
        if have.tombstone_flag {
            let flag = b.record.tombstone.unwrap_or(b.record.value.is_none());
            assert_eq!(a.record.tombstone, Some(flag), "{at}");
        }
        lost.headers += if headers { 0 } else { b.record.headers.len() as u64 };
        lost.timestamps += u64::from(!have.timestamps && b.record.timestamp != -1);
        lost.tombstone_values += u64::from(deletes && b.record.value.is_some());
    }
    let counted = (dropped.headers, dropped.timestamps, dropped.tombstone_values);
    assert_eq!(counted, (lost.headers, lost.timestamps, lost.tombstone_values), "{at}");
    if have.producer {
        assert_eq!((dropped.producer_state, dropped.transactional, dropped.empty_batches), (0, 0, 0), "{at}");
    }
}

/// Every pair of formats on logs of real Kafka: what the table does not name stays.
#[test]
fn every_pair_of_formats_keeps_the_records() {
    let Some(files) = corpus::files(&["golden/encode"], &["bin"]) else {
        return;
    };
    let (mut pairs, mut refused) = (0, 0);
    for path in files {
        let kafka = std::fs::read(&path).expect("readable");
        for first in Format::ALL {
            let codec = Some(Codec::Gzip).filter(|_| pairs % 3 == 0);
            let Ok(source) =
                convert(&kafka, from(Dialect::Kafka), Conversion { codec, ..Conversion::new(first) })
            else {
                refused += 1;
                continue;
            };
            let before = seen(&source.data, Dialect::of(first));
            for second in Format::ALL {
                pairs += 1;
                let Ok(done) = convert(&source.data, from(Dialect::of(first)), Conversion::new(second))
                else {
                    refused += 1;
                    continue;
                };
                let after = seen(&done.data, Dialect::of(second));
                compare(
                    &format!("{path:?} {first:?} {second:?}"),
                    first,
                    second,
                    &before,
                    &after,
                    &done.dropped,
                );
            }
        }
    }
    println!("{pairs} conversions, {refused} refused for a codec or a null header value");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn conversions_keep_what_the_table_says((first, fields, records) in any_batch()) {
        let bytes = batch(first, &fields, &records);
        let before = seen(&bytes, Dialect::of(first));
        for second in Format::ALL {
            match convert(&bytes, from(Dialect::of(first)), Conversion::new(second)) {
                Ok(done) => {
                    let after = seen(&done.data, Dialect::of(second));
                    compare(&format!("{first:?} {second:?}"), first, second, &before, &after, &done.dropped);
                    if let (Format::V2, Format::V3) | (Format::V3, Format::V2) = (first, second) {
                        let back = to(&done.data, Dialect::of(second), first).data;
                        let needless = !fields.ignore_message_attributes && first == Format::V3;
                        if fields.codec == Codec::None && !needless {
                            prop_assert!(back == bytes);
                        }
                        prop_assert_eq!(owned::read(&back, Dialect::of(first)).1, records.clone());
                    }
                }
                Err(ConvertError::Write { error, .. }) => match error.flaw {
                    EncodeFlaw::Codec(Codec::Zstd) => prop_assert!(!second.traits().producer),
                    EncodeFlaw::NullHeaderValue { .. } => prop_assert_eq!(second, Format::Kip82b),
                    flaw => prop_assert!(false, "{:?} {:?}: {}", first, second, flaw),
                },
                Err(error) => prop_assert!(false, "{}", error),
            }
        }
    }

    /// Hostile bytes give an answer, whatever they are made to be.
    #[test]
    fn damaged_batches_convert_or_are_refused((first, fields, records) in any_batch(), at: u16, change in 1_u8..) {
        let mut bytes = batch(first, &fields, &records);
        let at = usize::from(at) % bytes.len();
        bytes[at] ^= change;
        let options = Options { check_crc: false, ..from(Dialect::of(first)) };
        for second in Format::ALL {
            for mode in [Mode::FailFast, Mode::DropMalformed] {
                for first_offset in [None, Some(0)] {
                    let conversion = Conversion { first_offset, ..Conversion::new(second) };
                    let _ = convert(&bytes, Options { mode, ..options }, conversion);
                }
            }
        }
    }
}
