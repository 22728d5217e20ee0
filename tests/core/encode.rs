//! Every format written: the vectors, Kafka's own builder, and what is refused.

use base64::prelude::{BASE64_STANDARD, Engine as _};
use magicbyte::format::HeaderSupport;
use magicbyte::{
    BatchFields, Batcher, Codec, Dialect, EncodeFlaw, Encoder, Format, Header, HeaderLayout, Headers,
    NewRecord, TimestampType,
};
use proptest::prelude::*;
use serde_json::Value;

use crate::corpus;
use crate::owned::{self, Owned};

fn bytes(value: &Value) -> Option<Vec<u8>> {
    value.as_str().map(|text| BASE64_STANDARD.decode(text).expect("base64"))
}

fn int(value: &Value) -> i64 {
    value.as_i64().unwrap_or_else(|| panic!("no integer: {value}"))
}

/// Records of a vector or of an `.input.json`.
fn records(list: &Value) -> Vec<Owned> {
    let header = |h: &Value| match h {
        Value::Array(pair) => (pair[0].as_str().expect("key").into(), bytes(&pair[1])),
        h => (h["key"].as_str().expect("key").into(), bytes(&h["value"])),
    };
    list.as_array()
        .expect("records")
        .iter()
        .map(|r| Owned {
            offset: int(&r["offset"]),
            timestamp: int(&r["timestamp"]),
            attributes: r["attributes"].as_i64().unwrap_or(0) as i8,
            key: bytes(&r["key"]),
            value: bytes(&r["value"]),
            tombstone: r["tombstone"].as_bool(),
            headers: r["headers"].as_array().expect("headers").iter().map(header).collect(),
        })
        .collect()
}

fn vector_fields(batch: &Value) -> BatchFields {
    let flag = |name: &str| batch[name].as_bool().expect("a flag");
    BatchFields {
        base_offset: Some(int(&batch["base_offset"])),
        last_offset_delta: Some(int(&batch["last_offset_delta"]) as i32),
        leader_epoch: int(&batch["partition_leader_epoch"]) as i32,
        codec: Codec::from_name(batch["codec"].as_str().expect("codec")).expect("known"),
        level: None,
        timestamp_type: match int(&batch["timestamp_type"]) {
            1 => TimestampType::LogAppendTime,
            _ => TimestampType::CreateTime,
        },
        base_timestamp: Some(int(&batch["base_timestamp"])),
        max_timestamp: Some(int(&batch["max_timestamp"])),
        producer_id: int(&batch["producer_id"]),
        producer_epoch: int(&batch["producer_epoch"]) as i16,
        base_sequence: int(&batch["base_sequence"]) as i32,
        transactional: flag("transactional"),
        control: flag("control"),
        delete_horizon: flag("delete_horizon"),
        ignore_message_attributes: flag("ignore_message_attributes"),
    }
}

fn encode(
    format: Format,
    fields: &BatchFields,
    records: &[Owned],
) -> Result<Vec<u8>, magicbyte::EncodeError> {
    let mut out = b"before".to_vec();
    let headers: Vec<Vec<Header<'_>>> = records.iter().map(Owned::headers).collect();
    let new = records.iter().zip(&headers).map(|(r, h)| r.new_record(h));
    let done = Encoder::new().encode(format, fields, new, &mut out);
    if done.is_err() {
        assert_eq!(out, b"before", "an error leaves the output as it was");
    }
    let written = done?;
    assert_eq!(written.size, out.len() - 6);
    assert_eq!(written.count as usize, records.len());
    Ok(out.split_off(6))
}

#[test]
fn vectors_encode_as_given() {
    let Some(dir) = corpus::dir("vectors") else {
        return;
    };
    let (mut exact, mut equal) = (0, 0);
    for format in Format::ALL {
        let dialect = Dialect::of(format);
        for (number, line) in owned::lines(&dir.join(format!("{}.jsonl", format.name()))).iter().enumerate() {
            let at = format!("{} line {}", format.name(), number + 1);
            let want = owned::unhex(line["hex"].as_str().expect("hex"));
            let list = records(&line["batch"]["records"]);
            let fields = vector_fields(&line["batch"]);
            let have = match encode(format, &fields, &list) {
                Ok(have) => have,
                Err(error) => {
                    assert_eq!(line["exact"], false, "{at}: {error}");
                    assert_eq!(error.flaw, EncodeFlaw::LiveNullValue, "{at}: {error}");
                    continue;
                }
            };
            if line["exact"] == true {
                assert!(have == want, "{at}\nhave {have:02x?}\nwant {want:02x?}");
                exact += 1;
                continue;
            }
            let (have_heads, have_records) = owned::read(&have, dialect);
            let (want_heads, want_records) = owned::read(&want, dialect);
            assert_eq!(have_records, want_records, "{at}");
            assert_eq!(have_heads, want_heads, "{at}");
            equal += 1;
        }
    }
    println!("{exact} vectors to the byte, {equal} decoded equal");
}

/// Kafka's input for `MemoryRecordsBuilder`.
fn golden_fields(input: &Value) -> BatchFields {
    let number = |name: &str| input[name].as_i64();
    let append = input["timestampType"] == "LogAppendTime";
    BatchFields {
        base_offset: number("baseOffset"),
        last_offset_delta: number("lastOffset").map(|last| (last - int(&input["baseOffset"])) as i32),
        leader_epoch: number("partitionLeaderEpoch").unwrap_or(-1) as i32,
        codec: Codec::from_name(input["compression"].as_str().expect("codec")).expect("known"),
        timestamp_type: if append { TimestampType::LogAppendTime } else { TimestampType::CreateTime },
        max_timestamp: if append { number("logAppendTime") } else { None },
        base_timestamp: number("deleteHorizonMs"),
        delete_horizon: number("deleteHorizonMs").is_some(),
        producer_id: number("producerId").unwrap_or(-1),
        producer_epoch: number("producerEpoch").unwrap_or(-1) as i16,
        base_sequence: number("baseSequence").unwrap_or(-1) as i32,
        transactional: input["isTransactional"] == true,
        control: input["isControlBatch"] == true,
        ..BatchFields::default()
    }
}

/// An end-transaction marker as Kafka's `MemoryRecords.withEndTransactionMarker` has it.
fn marker(input: &Value) -> Option<Vec<Owned>> {
    let kind: i16 = match input["kind"].as_str()? {
        "ABORT" => 0,
        "COMMIT" => 1,
        _ => return None,
    };
    let epoch = int(&input["coordinatorEpoch"]) as i32;
    Some(vec![Owned {
        offset: int(&input["baseOffset"]),
        timestamp: int(&input["timestamp"]),
        key: Some([0_i16.to_be_bytes(), kind.to_be_bytes()].concat()),
        value: Some([&0_i16.to_be_bytes()[..], &epoch.to_be_bytes()].concat()),
        ..Owned::default()
    }])
}

#[test]
fn kafkas_builder_is_matched_to_the_byte() {
    let Some(files) = corpus::files(&["golden/encode"], &["bin"]) else {
        return;
    };
    let (mut exact, mut equal) = (0, 0);
    for path in files {
        let input = owned::lines(&path.with_extension("input.json")).remove(0);
        let want = std::fs::read(&path).expect("readable");
        let format = [Format::V0, Format::V1, Format::V2][int(&input["magic"]) as usize];
        let mut fields = golden_fields(&input);
        let list = match marker(&input) {
            Some(list) => {
                fields.transactional = true;
                list
            }
            None if input["records"].is_null() => {
                // A KRaft control batch: its record's bytes come from a message schema of Kafka's.
                owned::read(&want, Dialect::Kafka).1
            }
            None => records(&input["records"]),
        };
        let have = encode(format, &fields, &list).unwrap_or_else(|error| panic!("{path:?}: {error}"));
        if input["byteExact"] == true {
            assert!(have == want, "{path:?}: differs\n{have:02x?}\n{want:02x?}");
            exact += 1;
        } else {
            let (have, want) = (owned::read(&have, Dialect::Kafka), owned::read(&want, Dialect::Kafka));
            assert_eq!(have, want, "{path:?}");
            equal += 1;
        }
    }
    println!("{exact} files to the byte, {equal} decoded equal");
    assert!(exact > 0);
}

fn refusal(format: Format, fields: &BatchFields, records: &[Owned]) -> (Option<u64>, EncodeFlaw) {
    let error = encode(format, fields, records).expect_err("refused");
    (error.record, error.flaw)
}

fn two(change: impl Fn(&mut Owned)) -> Vec<Owned> {
    let one = Owned { offset: 5, timestamp: 10, value: Some(b"v".to_vec()), ..Owned::default() };
    let mut other = Owned { offset: 6, ..one.clone() };
    change(&mut other);
    vec![one, other]
}

#[test]
fn what_a_format_cannot_carry_is_refused_by_record() {
    let plain = BatchFields::default();
    let all = |records: &[Owned], flaw: EncodeFlaw, except: &[Format]| {
        for format in Format::ALL.into_iter().filter(|format| !except.contains(format)) {
            for codec in [Codec::None, Codec::Gzip] {
                let fields = BatchFields { codec, ..plain.clone() };
                assert_eq!(refusal(format, &fields, records), (Some(1), flaw), "{format:?}");
            }
        }
    };
    all(&two(|r| r.timestamp = -2), EncodeFlaw::Timestamp(-2), &[]);
    all(&two(|r| r.offset = 5), EncodeFlaw::OffsetOrder { offset: 5, previous: 5 }, &[]);
    all(&two(|r| (r.value, r.tombstone) = (None, Some(false))), EncodeFlaw::LiveNullValue, &[]);
    all(&two(|r| r.tombstone = Some(true)), EncodeFlaw::TombstoneValue, &[Format::Kip87]);
    let header =
        |key: usize, value: Option<Vec<u8>>| two(|r| r.headers = vec![(vec![b'k'; key], value.clone())]);
    let without = [Format::V0, Format::V1, Format::Kip87];
    let with: Vec<_> = Format::ALL.into_iter().filter(|format| !without.contains(format)).collect();
    all(&header(1, Some(vec![])), EncodeFlaw::Headers, &with);
    all(&header(40_000, Some(vec![])), EncodeFlaw::HeaderKeyLength(40_000), &without);
    let null = header(1, None);
    assert_eq!(refusal(Format::Kip82b, &plain, &null).1, EncodeFlaw::NullHeaderValue { header: 0 });
    assert!(encode(Format::V2, &plain, &header(32_767, None)).is_ok());
    let far = two(|r| r.offset = 5 + (1 << 31));
    let range = EncodeFlaw::OffsetRange { offset: 5 + (1 << 31), base: 5 };
    all(&far, range, &[Format::V0, Format::V1, Format::Kip87, Format::Kip82a]);
    let attributes = two(|r| r.attributes = 1);
    assert_eq!(refusal(Format::V3, &plain, &attributes), (Some(1), EncodeFlaw::RecordAttributes(1)));
    let below = BatchFields { base_offset: Some(6), ..plain.clone() };
    let range = EncodeFlaw::OffsetRange { offset: 5, base: 6 };
    assert_eq!(refusal(Format::V2, &below, &two(|_| ())), (Some(0), range));
    let short = BatchFields { last_offset_delta: Some(0), ..plain.clone() };
    let range = EncodeFlaw::OffsetRange { offset: 6, base: 5 };
    assert_eq!(refusal(Format::V2, &short, &two(|_| ())), (None, range));

    let zstd = BatchFields { codec: Codec::Zstd, ..plain.clone() };
    assert_eq!(refusal(Format::V1, &zstd, &[]), (None, EncodeFlaw::Codec(Codec::Zstd)));
    let producer = BatchFields { producer_id: 1, ..plain.clone() };
    assert_eq!(refusal(Format::Kip82a, &producer, &[]), (None, EncodeFlaw::Field("producer id")));
    let gzip = BatchFields { codec: Codec::Gzip, ..plain.clone() };
    assert_eq!(refusal(Format::V0, &gzip, &[]), (None, EncodeFlaw::NoRecords));
    assert_eq!(encode(Format::V0, &plain, &[]).expect("nothing"), b"");
}

#[test]
fn a_stream_is_cut_into_batches_by_size() {
    for codec in [Codec::None, Codec::Lz4] {
        let fields =
            BatchFields { codec, producer_id: 1, base_sequence: i32::MAX - 9, ..BatchFields::default() };
        let mut batcher = Batcher::new(Format::V2, fields, 1000);
        let (value, mut out, mut sizes) = (vec![b'v'; 100], Vec::new(), Vec::new());
        for offset in 0..25 {
            let value = Some(if offset == 20 { &[0; 5000][..] } else { &value[..] });
            let record = NewRecord { offset, timestamp: offset, value, ..NewRecord::default() };
            sizes.extend(batcher.push(&record, &mut out).expect("carried"));
        }
        // Refused, and the batch goes on.
        assert!(batcher.push(&NewRecord { offset: 3, ..NewRecord::default() }, &mut out).is_err());
        sizes.extend(batcher.finish(&mut out).expect("carried"));
        assert_eq!(batcher.finish(&mut out), Ok(None));
        assert!(batcher.push(&NewRecord { offset: 3, ..NewRecord::default() }, &mut Vec::new()).is_err());
        assert_eq!(sizes.iter().map(|written| written.count).collect::<Vec<_>>(), [8, 8, 4, 1, 4]);
        let (heads, records) = owned::read(&out, Dialect::Kafka);
        let sequences: Vec<_> = heads.iter().map(|head| head.base_sequence).collect();
        assert_eq!(sequences, [i32::MAX - 9, i32::MAX - 1, 6, 10, 11]);
        assert_eq!(
            records.iter().map(|record| record.offset).collect::<Vec<_>>(),
            (0..25).collect::<Vec<_>>()
        );
    }
}

/// Encoded headers are copied as a whole, whatever they look like.
#[test]
fn padded_headers_are_carried() {
    // Key length 1 in five bytes, "k", value length 0.
    let one = [0x82, 0x80, 0x80, 0x80, 0x00, b'k', 0];
    for count in [1, 3, 5_000] {
        let padded = one.repeat(count);
        let headers = Headers::parse(&padded, HeaderLayout::Varint).expect("sound");
        for format in [Format::V2, Format::V3, Format::Kip82a, Format::Kip82b] {
            for codec in [Codec::None, Codec::Zstd, Codec::Gzip] {
                if codec.id() > format.traits().max_codec {
                    continue;
                }
                let record = NewRecord { headers: headers.into(), ..NewRecord::default() };
                let (mut out, fields) = (Vec::new(), BatchFields { codec, ..BatchFields::default() });
                Encoder::new().encode(format, &fields, [record], &mut out).expect("carried");
                let (_, records) = owned::read(&out, Dialect::of(format));
                assert_eq!(records[0].headers, vec![(b"k".to_vec(), Some(Vec::new())); count]);
            }
        }
    }
}

fn any_record(format: Format) -> impl Strategy<Value = (u32, Owned)> {
    let bytes = || proptest::collection::vec(any::<u8>(), 0..40);
    let headers = proptest::collection::vec((bytes(), proptest::option::of(bytes())), 0..4);
    let fields =
        (1_u32..300, any::<i64>(), proptest::option::of(bytes()), proptest::option::of(bytes()), headers);
    (fields, any::<i8>(), any::<bool>()).prop_map(move |((gap, time, key, value, headers), byte, flag)| {
        let traits = format.traits();
        let mut record = Owned {
            timestamp: if traits.timestamps { (time >> (time & 63)).max(-1) } else { -1 },
            attributes: if matches!(format, Format::V2) { byte } else { 0 },
            tombstone: traits.tombstone_flag.then_some(flag || value.is_none()),
            key,
            value,
            headers,
            ..Owned::default()
        };
        match traits.headers {
            HeaderSupport::No => record.headers.clear(),
            HeaderSupport::Nullable => {}
            HeaderSupport::NonNull => {
                record.headers.iter_mut().for_each(|header| {
                    header.1.get_or_insert_default();
                });
            }
        }
        (gap, record)
    })
}

/// A batch of any format, with whatever that can carry.
pub(crate) fn any_batch() -> impl Strategy<Value = (Format, BatchFields, Vec<Owned>)> {
    (0..Format::ALL.len()).prop_flat_map(|index| {
        let format = Format::ALL[index];
        let max_codec = format.traits().max_codec;
        let producer = format.traits().producer;
        let header =
            (0..=max_codec, any::<bool>(), any::<i64>(), any::<i64>(), any::<(i32, i64, i16, i32)>());
        let records = proptest::collection::vec(any_record(format), 1..20);
        (0_i64..1 << 40, header, any::<[bool; 4]>(), records).prop_map(
            move |(base, (codec, append, time, max, ids), flags, records)| {
                let mut offset = base;
                let records: Vec<_> = records
                    .into_iter()
                    .map(|(gap, record)| {
                        offset += i64::from(gap);
                        Owned { offset, ..record }
                    })
                    .collect();
                let fields = BatchFields {
                    base_offset: (format != Format::V0).then_some(base),
                    codec: Codec::from_id(codec).expect("known"),
                    timestamp_type: match append && format.traits().timestamps {
                        true => TimestampType::LogAppendTime,
                        false => TimestampType::CreateTime,
                    },
                    base_timestamp: producer.then_some(time),
                    max_timestamp: producer.then_some(max),
                    ..BatchFields::default()
                };
                let fields = if producer {
                    BatchFields {
                        last_offset_delta: Some((offset - base) as i32 + 7),
                        leader_epoch: ids.0,
                        producer_id: ids.1,
                        producer_epoch: ids.2,
                        base_sequence: ids.3,
                        transactional: flags[0],
                        control: flags[1],
                        delete_horizon: flags[2],
                        ignore_message_attributes: flags[3],
                        ..fields
                    }
                } else {
                    fields
                };
                (format, fields, records)
            },
        )
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn encoded_is_decoded((format, fields, records) in any_batch()) {
        let bytes = encode(format, &fields, &records).expect("carried");
        let (heads, mut back) = owned::read(&bytes, Dialect::of(format));
        if format == Format::Kip82b {
            // Bits 0 and 1 say which of key and value are null.
            back.iter_mut().for_each(|record| record.attributes = 0);
        }
        prop_assert_eq!(back, records);
        if let [head] = heads[..] && format.traits().producer {
            prop_assert_eq!(Some(head.base_offset), fields.base_offset);
            prop_assert_eq!(Some((head.last_offset - head.base_offset) as i32), fields.last_offset_delta);
            prop_assert_eq!(head.codec(), Some(fields.codec));
            prop_assert_eq!(head.timestamp_type, fields.timestamp_type);
            prop_assert_eq!(Some(head.base_timestamp), fields.base_timestamp);
            prop_assert_eq!(Some(head.max_timestamp), fields.max_timestamp);
            prop_assert_eq!(head.leader_epoch, fields.leader_epoch);
            prop_assert_eq!(head.producer_id, fields.producer_id);
            prop_assert_eq!(head.producer_epoch, fields.producer_epoch);
            prop_assert_eq!(head.base_sequence, fields.base_sequence);
            prop_assert_eq!(head.is_transactional(), fields.transactional);
            prop_assert_eq!(head.is_control(), fields.control);
            prop_assert_eq!(head.delete_horizon().is_some(), fields.delete_horizon);
        }
    }
}
