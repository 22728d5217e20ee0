//! The Arrow types that a field may come in: what is written is the same of each.

use arrow_array::{
    Array, BinaryViewArray, Int8Array, Int16Array, LargeBinaryArray, LargeListArray, LargeStringArray,
    ListArray, NullArray, StringViewArray, StructArray, TimestampMicrosecondArray, TimestampMillisecondArray,
    TimestampNanosecondArray, TimestampSecondArray,
};
use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_schema::{DataType, Field, Fields};

use super::*;

/// The rows that one table becomes, in topic `t`.
fn rows_of(columns: &[(&str, ArrayRef)]) -> Vec<Row> {
    let given = Incoming { topic: Some("t".into()), partition: Some(3), ..incoming() };
    let made = encode(given, &[table(columns)]).expect("written");
    assert_eq!(made.len(), 1);
    shown(&made[0].2)
}

#[test]
fn strings_of_every_type() {
    let texts = [Some("a"), None, Some(""), Some("longer than the twelve bytes of a view")];
    let bytes = texts.map(|text| text.map(str::as_bytes));
    let arrays: [ArrayRef; 6] = [
        Arc::new(BinaryArray::from_iter(bytes)),
        Arc::new(LargeBinaryArray::from_iter(bytes)),
        Arc::new(BinaryViewArray::from_iter(bytes)),
        Arc::new(StringArray::from_iter(texts)),
        Arc::new(LargeStringArray::from_iter(texts)),
        Arc::new(StringViewArray::from_iter(texts)),
    ];
    let expected: Vec<_> = bytes.iter().map(|it| it.map(<[u8]>::to_vec)).collect();
    for array in arrays {
        for (key, value) in [("key", "value"), ("value", "key")] {
            let other: ArrayRef = Arc::new(NullArray::new(4));
            let rows = rows_of(&[(key, Arc::clone(&array)), (value, other)]);
            let (found, null): (Vec<_>, Vec<_>) = rows
                .into_iter()
                .map(|row| if key == "key" { (row.key, row.value) } else { (row.value, row.key) })
                .unzip();
            assert_eq!(found, expected, "{key} of type {}", array.data_type());
            assert_eq!(null, [None, None, None, None], "a column of the type null says nothing");
        }
        let topics = Arc::clone(&array);
        let made =
            encode(Incoming { partition: Some(0), ..incoming() }, &[table(&[("topic", topics)]).slice(0, 1)]);
        assert_eq!(made.expect("written")[0].0, "a");
    }
}

#[test]
fn numbers_of_every_width() {
    let arrays: [ArrayRef; 4] = [
        Arc::new(Int8Array::from(vec![Some(4), Some(5)])),
        Arc::new(Int16Array::from(vec![Some(4), Some(5)])),
        Arc::new(Int32Array::from(vec![Some(4), Some(5)])),
        Arc::new(Int64Array::from(vec![Some(4), Some(5)])),
    ];
    for array in arrays {
        let topic = || Incoming { topic: Some("t".into()), keep_offsets: true, ..incoming() };
        let made =
            encode(topic(), &[table(&[("partition", Arc::clone(&array)), ("offset", Arc::clone(&array))])]);
        let made = made.expect("written");
        assert_eq!(made.iter().map(|it| it.1).collect::<Vec<_>>(), [4, 5]);
        assert_eq!(made.iter().map(|it| shown(&it.2)[0].offset).collect::<Vec<_>>(), [4, 5]);
    }
    let none: [ArrayRef; 4] = [
        Arc::new(Int8Array::from(vec![None])),
        Arc::new(Int16Array::from(vec![None])),
        Arc::new(Int32Array::from(vec![None])),
        Arc::new(Int64Array::from(vec![None])),
    ];
    for array in none {
        let error =
            encode(Incoming { topic: Some("t".into()), ..incoming() }, &[table(&[("partition", array)])]);
        assert_eq!(error.expect_err("null").to_string(), "row 0: no partition");
    }
}

#[test]
fn times_of_every_unit_and_zone() {
    let of = |array: ArrayRef| {
        rows_of(&[("timestamp", array)]).iter().map(|row| row.timestamp).collect::<Vec<_>>()
    };
    assert_eq!(of(Arc::new(TimestampSecondArray::from(vec![Some(3), None]))), [3000, 7]);
    assert_eq!(of(Arc::new(TimestampMillisecondArray::from(vec![Some(3), None]))), [3, 7]);
    assert_eq!(of(Arc::new(TimestampMicrosecondArray::from(vec![Some(3999), None]))), [3, 7]);
    assert_eq!(of(Arc::new(TimestampNanosecondArray::from(vec![Some(3_999_999), None]))), [3, 7]);
    let zoned = TimestampMillisecondArray::from(vec![3, 4]).with_timezone("+02:00");
    assert_eq!(of(Arc::new(zoned)), [3, 4]);
    // Down, so that what lies before 1970 does not come nearer to it.
    let before: ArrayRef = Arc::new(TimestampMicrosecondArray::from(vec![-1001]));
    let given = Incoming { topic: Some("t".into()), partition: Some(0), ..incoming() };
    let error = encode(given, &[table(&[("timestamp", before)])]).expect_err("before none");
    assert_eq!(error.to_string(), "row 0 (t-0): timestamp -2 is below -1");
    // What is exact wins, in whatever order the columns come.
    let exact: ArrayRef = Arc::new(Int64Array::from(vec![Some(41), None]));
    let rounded: ArrayRef = Arc::new(TimestampSecondArray::from(vec![1, 2]));
    for columns in [
        [("timestamp", Arc::clone(&rounded)), ("timestampMs", Arc::clone(&exact))],
        [("timestampMs", exact), ("timestamp", rounded)],
    ] {
        let times: Vec<_> = rows_of(&columns).iter().map(|row| row.timestamp).collect();
        assert_eq!(times, [41, 7]);
    }
}

/// Three rows: two headers; none, said by null; one, whose key no text could be.
fn header_fields(keys: [Option<&'static [u8]>; 3]) -> (Fields, StructArray) {
    let fields = Fields::from(vec![
        Field::new("key", DataType::Binary, true),
        Field::new("value", DataType::Binary, true),
    ]);
    let values: [Option<&[u8]>; 3] = [Some(b"1"), None, Some(b"")];
    let arrays: Vec<ArrayRef> =
        vec![Arc::new(BinaryArray::from_iter(keys)), Arc::new(BinaryArray::from_iter(values))];
    (fields.clone(), StructArray::new(fields, arrays, None))
}

pub(super) fn header_lists(keys: [Option<&'static [u8]>; 3], large: bool) -> ArrayRef {
    let (fields, values) = header_fields(keys);
    let item = Arc::new(Field::new("item", DataType::Struct(fields), true));
    let nulls = Some(NullBuffer::from(vec![true, false, true]));
    let lengths = [2, 0, 1];
    if large {
        Arc::new(LargeListArray::new(item, OffsetBuffer::from_lengths(lengths), Arc::new(values), nulls))
    } else {
        Arc::new(ListArray::new(item, OffsetBuffer::from_lengths(lengths), Arc::new(values), nulls))
    }
}

#[test]
fn headers_in_lists_of_both_kinds() {
    let keys: [Option<&[u8]>; 3] = [Some(b"a"), Some(b"a"), Some(b"")];
    for large in [false, true] {
        let lists = header_lists(keys, large);
        let found: Vec<_> =
            rows_of(&[("headers", Arc::clone(&lists))]).into_iter().map(|row| row.headers).collect();
        let two = vec![("a".to_owned(), Some(b"1".to_vec())), ("a".to_owned(), None)];
        let one = vec![(String::new(), Some(Vec::new()))];
        assert_eq!(found, [two, vec![], one.clone()]);
        // A slice of an array begins elsewhere than its memory does.
        let sliced: Vec<_> =
            rows_of(&[("headers", lists.slice(1, 2))]).into_iter().map(|row| row.headers).collect();
        assert_eq!(sliced, [vec![], one]);
    }
}

#[test]
fn keys_as_their_bytes_are_win_where_they_are_as_many() {
    let keys: [Option<&[u8]>; 3] = [Some("\u{fffd}".as_bytes()), Some(b"b"), Some("\u{fffd}".as_bytes())];
    let raw: [Option<&[u8]>; 4] = [Some(b"x"), Some(b"y"), Some(b"z"), Some(b"too many")];
    let item = Arc::new(Field::new("item", DataType::Binary, true));
    let raw = ListArray::new(
        item,
        OffsetBuffer::from_lengths([2, 0, 2]),
        Arc::new(BinaryArray::from_iter(raw)),
        None,
    );
    let rows = rows_of(&[("headers", header_lists(keys, false)), ("rawHeaderKeys", Arc::new(raw))]);
    let found: Vec<Vec<_>> =
        rows.into_iter().map(|row| row.headers.into_iter().map(|it| it.0).collect()).collect();
    assert_eq!(found, [vec!["x", "y"], vec![], vec!["\u{fffd}"]]);
}

#[test]
fn other_columns_are_passed_over() {
    let made = rows_of(&[
        ("value", Arc::new(BinaryArray::from_vec(vec![b"v"]))),
        ("note", Arc::new(StringArray::from(vec!["mine"]))),
        ("codec", Arc::new(StringArray::from(vec!["zstd"]))),
        ("baseOffset", Arc::new(Int64Array::from(vec![1000]))),
        ("_corrupt_record", Arc::new(StringArray::from(vec![None::<&str>]))),
    ]);
    assert_eq!(made.len(), 1);
    assert_eq!((made[0].offset, made[0].value.as_deref()), (0, Some(&b"v"[..])));
}
