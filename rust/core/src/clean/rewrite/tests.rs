use super::*;
use crate::codec::Codec;
use crate::encode_error::EncodeFlaw;
use crate::format::{Dialect, Format};
use crate::head::TimestampType;
use crate::header::Header;
use crate::log::{Log, Options};

/// The codec, but none under Miri, which runs no C.
const fn or_none_in_miri(codec: Codec) -> Codec {
    if cfg!(miri) { Codec::None } else { codec }
}

/// Offsets 5, 7 and 9 of a batch that begins at 3 and ends at 12, each with a header.
fn batch(format: Format, fields: BatchFields) -> Vec<u8> {
    let header = [Header { key: b"h", value: Some(b"1") }];
    let message = format.traits().family == Family::MessageSet;
    let records = [5, 7, 9].map(|offset| NewRecord {
        offset,
        timestamp: 100 + offset,
        key: Some(b"k"),
        value: Some(b"a value"),
        headers: NewHeaders::List(if message { &[] } else { &header }),
        ..NewRecord::default()
    });
    let fields = if message {
        fields
    } else {
        BatchFields { base_offset: Some(3), last_offset_delta: Some(9), ..fields }
    };
    let mut out = Vec::new();
    Encoder::new().encode(format, &fields, records, &mut out).unwrap();
    out
}

/// What becomes of a log whose records are decided by their offsets.
fn written<'v>(
    log: &[u8],
    format: Format,
    last: bool,
    decide: impl Fn(i64) -> Verdict<'v>,
) -> (Vec<u8>, Rewritten) {
    let mut rewriter = Rewriter::new(Limits::default());
    let mut out = Vec::new();
    for entry in Log::new(log, Options { dialect: Dialect::Only(format), ..Options::default() }) {
        rewriter.entry(&entry.unwrap(), last, |record| decide(record.offset), &mut out).unwrap();
    }
    (out, *rewriter.done())
}

/// Offset, timestamp, value, count of headers.
type Shown = (i64, i64, Option<Vec<u8>>, usize);

/// The records, and the heads of the entries.
fn shown(log: &[u8], format: Format) -> (Vec<Shown>, Vec<Head>) {
    #[derive(Default)]
    struct Seen(Vec<Shown>);

    impl<'a> Sink<'a> for Seen {
        fn record(&mut self, record: &Record<'a>) -> bool {
            let value = record.value.map(<[u8]>::to_vec);
            self.0.push((record.offset, record.timestamp, value, record.headers.len()));
            false
        }

        fn header(&mut self, _key: &'a [u8], _value: Option<&'a [u8]>) {}
    }

    let (mut seen, mut heads) = (Seen::default(), Vec::new());
    for entry in Log::new(log, Options { dialect: Dialect::Only(format), ..Options::default() }) {
        let entry = entry.unwrap();
        entry.check_crc().unwrap();
        let (mut buffer, limits) = (Buffer::new(), Limits::default());
        let payload = entry.open(&mut Decompressor::new(), &limits, &mut buffer).unwrap();
        payload.decode(&limits, &mut seen).unwrap();
        heads.push(entry.head);
    }
    (seen.0, heads)
}

fn producer() -> BatchFields {
    BatchFields {
        producer_id: 4,
        producer_epoch: 1,
        base_sequence: 20,
        leader_epoch: 6,
        ..BatchFields::default()
    }
}

#[test]
fn what_stays_whole_is_copied() {
    for format in Format::ALL {
        let log = batch(format, BatchFields::default());
        let (same, done) = written(&log, format, false, |_| Verdict::Keep);
        assert_eq!(same, log, "{}", format.name());
        assert_eq!((done.records, done.dropped, done.changed, done.rebuilt), (3, 0, 0, 0));
    }
}

#[test]
fn some_records_go_and_the_offsets_of_all_stay() {
    let drop = |offset| if offset == 9 { Verdict::Drop } else { Verdict::Keep };
    let value = || Some(b"a value".to_vec());
    for codec in [Codec::None, or_none_in_miri(Codec::Lz4)] {
        let log = batch(Format::V2, BatchFields { codec, ..producer() });
        let (out, done) = written(&log, Format::V2, false, drop);
        let (records, heads) = shown(&out, Format::V2);
        assert_eq!(records, [(5, 105, value(), 1), (7, 107, value(), 1)]);
        let [head] = heads[..] else { panic!("a batch") };
        assert_eq!((head.base_offset, head.last_offset, head.count), (3, 12, Some(2)));
        assert_eq!((head.producer_id, head.producer_epoch, head.base_sequence), (4, 1, 20));
        assert_eq!((head.leader_epoch, head.codec(), head.max_timestamp), (6, Some(codec), 107));
        let expected = Rewritten { records: 3, dropped: 1, batches: 1, rebuilt: 1, ..Rewritten::default() };
        assert_eq!(done, expected);
    }
    // A compressed message set is one entry, others are one each.
    for (codec, batches) in [(Codec::Gzip, 1), (Codec::None, 3)].into_iter().skip(usize::from(cfg!(miri))) {
        let log = batch(Format::V1, BatchFields { codec, ..BatchFields::default() });
        let (out, done) = written(&log, Format::V1, false, drop);
        let (records, _) = shown(&out, Format::V1);
        assert_eq!(records, [(5, 105, value(), 0), (7, 107, value(), 0)]);
        assert_eq!((done.batches, done.dropped, done.emptied), (batches, 1, 0));
    }
}

#[test]
fn values_change_and_headers_go() {
    let log = batch(Format::V3, BatchFields { max_timestamp: Some(500), ..BatchFields::default() });
    let (out, done) = written(&log, Format::V3, false, |offset| match offset {
        5 => Verdict::Change { value: Some(b"hidden"), without_headers: false },
        7 => Verdict::Change { value: None, without_headers: true },
        _ => Verdict::Keep,
    });
    let (records, heads) = shown(&out, Format::V3);
    let value = |text: &[u8]| Some(text.to_vec());
    assert_eq!(records, [(5, 105, value(b"hidden"), 1), (7, 107, None, 0), (9, 109, value(b"a value"), 1)]);
    assert_eq!(
        heads[0].max_timestamp, 500,
        "no record went, so what the batch says of its times goes on to hold"
    );
    assert_eq!((done.changed, done.dropped, done.rebuilt), (2, 0, 1));
}

#[test]
fn an_append_time_stays_that_of_every_record() {
    let fields = BatchFields {
        timestamp_type: TimestampType::LogAppendTime,
        max_timestamp: Some(900),
        ..BatchFields::default()
    };
    let (out, _) = written(&batch(Format::V2, fields), Format::V2, false, |offset| match offset {
        9 => Verdict::Drop,
        _ => Verdict::Keep,
    });
    let (records, heads) = shown(&out, Format::V2);
    assert_eq!(heads[0].append_time(), Some(900));
    assert_eq!(records.iter().map(|it| heads[0].effective_timestamp(it.1)).collect::<Vec<_>>(), [900, 900]);
}

#[test]
fn of_a_batch_without_records_the_header_stays_where_somebody_needs_it() {
    let plain = BatchFields::default;
    for (format, fields, last, emptied) in [
        (Format::V2, producer(), false, 1),
        (Format::V2, plain(), false, 0),
        (Format::V2, plain(), true, 1),
        (Format::V3, BatchFields { codec: or_none_in_miri(Codec::Zstd), ..plain() }, true, 1),
        (Format::V1, plain(), true, 0),
        (Format::V1, BatchFields { codec: or_none_in_miri(Codec::Gzip), ..plain() }, true, 0),
    ] {
        let log = batch(format, fields.clone());
        let (out, done) = written(&log, format, last, |_| Verdict::Drop);
        assert_eq!((done.dropped, done.emptied, done.rebuilt), (3, emptied, 0));
        let (records, heads) = shown(&out, format);
        assert_eq!((records.len(), heads.len() as u64), (0, emptied));
        for head in heads {
            assert_eq!((head.base_offset, head.last_offset, head.count), (3, 12, Some(0)));
            assert_eq!((head.producer_id, head.base_sequence), (fields.producer_id, fields.base_sequence));
            assert_eq!(head.max_timestamp, 109);
            // A second time, nothing changes.
            assert_eq!(written(&out, format, last, |_| Verdict::Drop).0, out);
        }
    }
}

#[test]
fn nobody_is_asked_about_markers() {
    let marker = NewRecord { key: Some(&[0, 0, 0, 1]), value: Some(&[0; 6]), ..NewRecord::default() };
    let fields = BatchFields { control: true, transactional: true, ..producer() };
    let mut log = Vec::new();
    Encoder::new().encode(Format::V2, &fields, [marker], &mut log).unwrap();
    let (out, done) = written(&log, Format::V2, false, |_| panic!("a marker is nobody's record"));
    assert_eq!(out, log);
    assert_eq!(done, Rewritten { batches: 1, ..Rewritten::default() });
}

#[test]
fn what_cannot_be_written_leaves_the_output_as_it_was() {
    let log = batch(Format::V2, BatchFields::default());
    let head = Log::new(&log, Options::default()).next().unwrap().unwrap().head;
    let good = NewRecord { offset: 5, value: Some(b"v"), ..NewRecord::default() };
    let bad = NewRecord { offset: 6, tombstone: Some(true), ..good };
    let mut out = b"before".to_vec();
    let error = put(&head, &BatchFields::default(), &[good, bad], &mut Encoder::new(), &mut out).unwrap_err();
    assert_eq!(error, EncodeFlaw::TombstoneValue.of(1));
    assert_eq!(error.to_string(), "record 1: the format cannot write a tombstone that has a value");
    assert_eq!(out, b"before");
}
