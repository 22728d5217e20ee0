//! Every format written: the vectors, Kafka's own builder, and what is refused.

use base64::prelude::{BASE64_STANDARD, Engine as _};
use magicbyte::{BatchFields, Codec, Dialect, EncodeFlaw, Encoder, Format, Header, TimestampType};
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

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len() / 2).map(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).expect("hex")).collect()
}

#[test]
fn vectors_encode_as_given() {
    let Some(dir) = corpus::dir("vectors") else {
        return;
    };
    let (mut exact, mut equal) = (0, 0);
    for format in Format::ALL {
        let dialect = owned::dialect(format);
        for (number, line) in owned::lines(&dir.join(format!("{}.jsonl", format.name()))).iter().enumerate() {
            let at = format!("{} line {}", format.name(), number + 1);
            let want = unhex(line["hex"].as_str().expect("hex"));
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
