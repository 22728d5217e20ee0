//! What no record can be made of: told with its row, and its partition where that is known.

use std::fmt::Write as _;

use arrow_array::{Float64Array, Int8Array, ListArray, StructArray, TimestampSecondArray};
use arrow_buffer::OffsetBuffer;
use arrow_schema::Field;

use super::columns::header_lists;
use super::*;

/// Their names and values.
type Columns = Vec<(&'static str, ArrayRef)>;

fn list(values: ArrayRef) -> ArrayRef {
    let item = Arc::new(Field::new("item", values.data_type().clone(), true));
    Arc::new(ListArray::new(item, OffsetBuffer::from_lengths([values.len()]), values, None))
}

fn structs(columns: &[(&str, ArrayRef)]) -> ArrayRef {
    let fields = columns.iter().map(|(name, array)| {
        (Arc::new(Field::new(*name, array.data_type().clone(), true)), Arc::clone(array))
    });
    list(Arc::new(StructArray::from(fields.collect::<Vec<_>>())))
}

#[test]
fn columns_of_the_wrong_type() {
    let number: ArrayRef = Arc::new(Int64Array::from(vec![1]));
    let small: ArrayRef = Arc::new(Int8Array::from(vec![1]));
    let float: ArrayRef = Arc::new(Float64Array::from(vec![1.0]));
    let text: ArrayRef = Arc::new(StringArray::from(vec!["1"]));
    let flag: ArrayRef = Arc::new(BooleanArray::from(vec![true]));
    let time: ArrayRef = Arc::new(TimestampSecondArray::from(vec![1]));
    let wrong: Vec<(&str, &ArrayRef)> = vec![
        ("key", &number),
        ("value", &flag),
        ("topic", &number),
        ("partition", &text),
        ("offset", &float),
        ("timestamp", &number),
        ("timestampMs", &time),
        ("timestampType", &text),
        ("headers", &text),
        ("rawHeaderKeys", &text),
        ("tombstone", &small),
        ("leaderEpoch", &text),
        ("producerId", &float),
        ("producerEpoch", &flag),
        ("sequence", &text),
        ("isTransactional", &small),
        ("isControl", &text),
    ];
    for (column, array) in wrong {
        let error = encode(incoming(), &[table(&[(column, Arc::clone(array))])]).expect_err(column);
        let found = array.data_type().to_string();
        let name = Column::from_name(column).expect("a column").name();
        assert_eq!(error, ColumnsError::Type { column: name, found: found.clone() });
        assert_eq!(error.to_string(), format!("column {column} cannot be of type {found}"));
    }
    let lists = [
        ("headers", list(Arc::clone(&text))),
        ("headers", structs(&[("key", Arc::clone(&text))])),
        ("headers", structs(&[("key", Arc::clone(&number)), ("value", Arc::clone(&text))])),
        ("headers", structs(&[("key", Arc::clone(&text)), ("value", Arc::clone(&flag))])),
        (
            "headers",
            structs(&[("key", Arc::clone(&text)), ("value", Arc::clone(&text)), ("more", Arc::clone(&text))]),
        ),
        ("rawHeaderKeys", list(Arc::clone(&number))),
    ];
    for (column, array) in lists {
        let error = encode(incoming(), &[table(&[(column, Arc::clone(&array))])]).expect_err(column);
        let found = array.data_type().to_string();
        let ColumnsError::Type { column: its, found: told } = error else { panic!("{error}") };
        assert_eq!((its, told), (column, found));
    }
}

#[test]
fn rows_that_tell_of_damage() {
    let told: ArrayRef = Arc::new(StringArray::from(vec![None, Some("crc: 91 bytes at 79")]));
    let error = encode(incoming(), &[table(&[("_corrupt_record", told)])]).expect_err("damage");
    assert_eq!(error, ColumnsError::Damage);
    let mut text = String::new();
    write!(text, "{error}").expect("written");
    assert!(text.contains("_corrupt_record") && text.contains("leave them out"));
}

/// A good row, then the one that is asked for: `(columns, what is asked of them, what is said)`.
#[test]
fn rows_that_cannot_be_written() {
    let numbers = |second: Option<i64>| -> ArrayRef { Arc::new(Int64Array::from(vec![Some(1), second])) };
    let texts = |second: Option<&str>| -> ArrayRef { Arc::new(StringArray::from(vec![Some("t"), second])) };
    let placed = || Incoming { topic: Some("t".into()), partition: Some(0), ..incoming() };
    let kept = || Incoming { keep_offsets: true, keep_producers: true, ..placed() };
    let old = || Incoming { format: Format::V1, ..placed() };
    let large = i64::MAX - 1;
    let offsets = || ("offset", numbers(Some(2)));
    let cases: Vec<(Columns, Incoming, &str)> = vec![
        (vec![("topic", texts(None))], Incoming { topic: None, ..placed() }, "row 1: no topic"),
        (
            vec![("partition", numbers(Some(1 << 31)))],
            Incoming { partition: None, ..placed() },
            "row 1: partition 2147483648 is out of range",
        ),
        (vec![("offset", numbers(None))], kept(), "row 1 (t-0): no offset, and offsets are to be kept"),
        (vec![("offset", numbers(Some(-1)))], kept(), "row 1 (t-0): offset -1 is out of range"),
        (
            vec![("offset", numbers(Some(i64::MAX)))],
            kept(),
            "row 1 (t-0): offset 9223372036854775807 is out of range",
        ),
        (vec![("offset", numbers(Some(1)))], kept(), "row 1 (t-0): offset 1 does not rise over 1"),
        (
            vec![offsets(), ("timestampType", numbers(Some(2)))],
            kept(),
            "row 1 (t-0): timestampType 2 is out of range",
        ),
        (
            vec![offsets(), ("leaderEpoch", numbers(Some(1 << 40)))],
            kept(),
            "row 1 (t-0): leaderEpoch 1099511627776 is out of range",
        ),
        (
            vec![offsets(), ("producerId", numbers(Some(9))), ("producerEpoch", numbers(Some(40_000)))],
            kept(),
            "row 1 (t-0): producerEpoch 40000 is out of range",
        ),
        (
            vec![offsets(), ("producerId", numbers(Some(9))), ("sequence", numbers(Some(large)))],
            kept(),
            "row 1 (t-0): sequence 9223372036854775806 is out of range",
        ),
        (vec![("timestampMs", numbers(Some(-2)))], placed(), "row 1 (t-0): timestamp -2 is below -1"),
    ];
    for (columns, given, said) in cases {
        let error = encode(given, &[table(&columns)]).expect_err(said);
        assert_eq!(error.to_string(), said);
    }
    let headers = header_lists([Some(b"a"), None, Some(b"c")], false);
    let error = encode(placed(), &[table(&[("headers", Arc::clone(&headers))])]).expect_err("no key");
    let partition = Some(("t".to_owned(), 0));
    assert_eq!(error, ColumnsError::Row { row: 0, partition, flaw: RowFlaw::HeaderKey(1) });
    assert_eq!(error.to_string(), "row 0 (t-0): header 1 has no key");
    let error = encode(old(), &[table(&[("headers", headers.slice(2, 1))])]).expect_err("no headers in v1");
    assert_eq!(error.to_string(), "row 0 (t-0): the format has no headers");
    let codec = BatchFields { codec: Codec::Zstd, ..BatchFields::default() };
    let error =
        encode(Incoming { fields: codec, ..old() }, &[table(&[("key", texts(None))])]).expect_err("no zstd");
    assert_eq!(error.to_string(), "row 0 (t-0): the format does not have the codec zstd");
}
