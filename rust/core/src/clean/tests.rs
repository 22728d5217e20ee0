use std::sync::Arc;

use proptest::prelude::*;

use super::keys::Keys;
use super::{Active, Cleaner, Latest, Policy, Strategy};
use crate::encode::Encoder;
use crate::format::{Dialect, Format};
use crate::header::Header;
use crate::limits::Limits;
use crate::log::{Log, Options};
use crate::new_record::{BatchFields, NewHeaders, NewRecord};
use crate::record::{Record, Sink};
use crate::segment::Producers;
use crate::transactions::Transactions;

const NOW: i64 = 1_000_000;

/// Key, value, header `version`.
type Given = (u8, Option<u8>, Option<i64>);

/// Batches of these records, offsets from 0.
fn log(format: Format, batches: &[Vec<Given>]) -> Vec<u8> {
    let (mut out, mut offset) = (Vec::new(), 0);
    for batch in batches {
        let bytes: Vec<_> =
            batch.iter().map(|it| (it.2.map(i64::to_be_bytes), [it.0], it.1.map(|v| [v]))).collect();
        let headers: Vec<_> = bytes
            .iter()
            .map(|it| it.0.as_ref().map(|v| Header { key: b"version", value: Some(v.as_slice()) }))
            .collect();
        let records: Vec<_> = bytes
            .iter()
            .zip(&headers)
            .map(|(it, header)| {
                offset += 1;
                NewRecord {
                    offset: offset - 1,
                    timestamp: 10,
                    key: Some(&it.1),
                    value: it.2.as_ref().map(<[u8; 1]>::as_slice),
                    headers: NewHeaders::List(header.as_slice()),
                    ..NewRecord::default()
                }
            })
            .collect();
        Encoder::new().encode(format, &BatchFields::default(), &records, &mut out).unwrap();
    }
    out
}

fn options(format: Format) -> Options {
    Options { dialect: Dialect::Only(format), ..Options::default() }
}

/// Cleans all of a log; returns the bytes and how many tables of keys it took.
fn clean(bytes: &[u8], format: Format, strategy: Strategy, memory: usize, now: i64) -> (Vec<u8>, u32) {
    let options = options(format);
    let entries = || Log::new(bytes, options).map(Result::unwrap);
    let transactions = Arc::new(Transactions::default());
    let mut latest = Latest::new(strategy, memory, 1000, Limits::default());
    loop {
        entries().for_each(|entry| latest.map(&entry).unwrap());
        if latest.is_done() {
            break;
        }
        entries().for_each(|entry| latest.mark(&entry).unwrap());
        if !latest.go_on() {
            break;
        }
    }
    let policy = Policy { now, delete_retention: 5, high_watermark: i64::MAX, limits: Limits::default() };
    let active = Active::of(&Producers::new(), now, 1);
    let mut cleaner = Cleaner::new(policy, latest, transactions, active);
    let mut out = Vec::new();
    entries().for_each(|entry| {
        cleaner.entry(&entry, true, &mut out).unwrap();
    });
    let counts = cleaner.counts();
    assert_eq!(
        counts.records,
        counts.kept + counts.outranked + counts.tombstones + counts.aborted + counts.without_key
    );
    (out, cleaner.rounds())
}

#[derive(Default)]
struct Offsets(Vec<i64>);

impl<'a> Sink<'a> for Offsets {
    fn record(&mut self, record: &Record<'a>) -> bool {
        self.0.push(record.offset);
        false
    }

    fn header(&mut self, _key: &'a [u8], _value: Option<&'a [u8]>) {}
}

fn offsets(bytes: &[u8], format: Format) -> Vec<i64> {
    let mut all = Offsets::default();
    for entry in Log::new(bytes, options(format)) {
        let entry = entry.unwrap();
        entry.check_crc().unwrap();
        let (mut buffer, limits) = (crate::Buffer::new(), Limits::default());
        let payload = entry.open(&mut crate::Decompressor::new(), &limits, &mut buffer).unwrap();
        payload.decode(&limits, &mut all).unwrap();
    }
    all.0
}

#[test]
fn keys_hold_the_highest_rank_and_say_when_they_are_full() {
    let mut keys = Keys::new(1 << 10, 3, true);
    assert!(keys.put(b"a", (7, 1)) && keys.put(b"a", (3, 2)) && keys.put(b"b", (0, 3)));
    assert_eq!((keys.get(b"a"), keys.get(b"b"), keys.get(b"c")), (Some((7, 1)), Some((0, 3)), None));
    let mut tiny = Keys::new(0, 1000, false);
    assert!(tiny.put(b"a", (0, 1)) && !tiny.put(b"b", (0, 2)) && tiny.put(b"a", (0, 3)));
    tiny.clear();
    assert!(tiny.put(b"b", (0, 2)) && tiny.len() == 1);
}

#[test]
fn a_tombstone_is_stamped_once_and_goes_when_its_time_is_over() {
    let bytes = log(Format::V2, &[vec![(1, Some(1), None), (1, None, None)], vec![(2, Some(2), None)]]);
    let (first, _) = clean(&bytes, Format::V2, Strategy::Offset, 1 << 10, NOW);
    let heads: Vec<_> = Log::new(&first, options(Format::V2)).map(|entry| entry.unwrap().head).collect();
    assert_eq!(
        (heads[0].delete_horizon(), heads[0].base_offset, heads[0].last_offset),
        (Some(NOW + 5), 0, 1)
    );
    assert_eq!((offsets(&first, Format::V2), heads[1].delete_horizon()), (vec![1, 2], None));
    // Not yet: nothing changes, the stamp least of all.
    assert_eq!(clean(&first, Format::V2, Strategy::Offset, 1 << 10, NOW + 4).0, first);
    let (last, _) = clean(&first, Format::V2, Strategy::Offset, 1 << 10, NOW + 5);
    assert_eq!(offsets(&last, Format::V2), [2]);
}

#[test]
fn the_highest_version_wins_and_the_later_offset_among_equals() {
    let some = vec![(1, Some(0), Some(9)), (1, Some(0), Some(4)), (2, Some(0), None), (2, Some(0), Some(0))];
    let bytes = log(Format::V3, &[some, vec![(1, Some(0), Some(9)), (2, Some(0), Some(-5))]]);
    let header = Strategy::Header(b"version".to_vec());
    assert_eq!(offsets(&clean(&bytes, Format::V3, header, 1 << 10, NOW).0, Format::V3), [3, 4]);
    // Timestamps are all the same.
    let timestamp = clean(&bytes, Format::V3, Strategy::Timestamp, 1 << 10, NOW).0;
    assert_eq!(offsets(&timestamp, Format::V3), [4, 5]);
}

#[test]
fn a_null_value_that_lives_is_no_tombstone_where_the_format_can_say_so() {
    let record = |offset, tombstone| NewRecord { offset, key: Some(b"k"), tombstone, ..NewRecord::default() };
    let mut out = Vec::new();
    let live = [record(0, Some(true)), NewRecord { value: Some(b"v"), ..record(1, Some(true)) }];
    Encoder::new().encode(Format::Kip87, &BatchFields::default(), live, &mut out).unwrap();
    let (kept, _) = clean(&out, Format::Kip87, Strategy::Offset, 1 << 10, NOW);
    assert_eq!(offsets(&kept, Format::Kip87), [1]);
}

proptest! {
    /// What stays is the latest of each key, whatever the memory, the batches and the format are.
    #[test]
    fn what_stays_is_the_latest_of_each_key(
        batches in prop::collection::vec(
            prop::collection::vec((0..12_u8, prop::option::weighted(0.8, any::<u8>()), prop::option::of(-1..4_i64)), 1..9),
            1..9,
        ),
        memory in 0..400_usize,
        versions: bool,
        v3: bool,
    ) {
        let format = if v3 { Format::V3 } else { Format::V2 };
        let strategy = if versions { Strategy::Header(b"version".to_vec()) } else { Strategy::Offset };
        let bytes = log(format, &batches);
        let all: Vec<Given> = batches.into_iter().flatten().collect();
        let rank = |at: usize| (if versions { all[at].2.unwrap_or(-1).max(-1) } else { 0 }, at);
        let wanted: Vec<i64> = (0..all.len())
            .filter(|&at| (0..all.len()).all(|other| all[other].0 != all[at].0 || rank(other) <= rank(at)))
            .map(|at| at as i64)
            .collect();
        let (kept, _) = clean(&bytes, format, strategy.clone(), memory, NOW);
        prop_assert_eq!(offsets(&kept, format), wanted);
        // A second time, nothing changes.
        prop_assert_eq!(clean(&kept, format, strategy, 1 << 12, NOW).0, kept);
    }
}
