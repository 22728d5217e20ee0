//! Transactions, markers and producers, over several cleanings.

use super::*;
use crate::clean::Strategy;
use crate::format::Format;
use crate::log::{Log, Options};
use crate::transactions::{SegmentOf, Survey};

const NOW: i64 = 1_000;
const RETENTION: i64 = 100;

#[derive(Default)]
struct Made {
    log: Vec<u8>,
    next: i64,
}

impl Made {
    fn batch(mut self, fields: &BatchFields, keys: &[Option<&[u8]>], value: &[u8]) -> Self {
        let records: Vec<_> = keys
            .iter()
            .zip(self.next..)
            .map(|(&key, offset)| NewRecord {
                offset,
                timestamp: 500,
                key,
                value: Some(value),
                ..NewRecord::default()
            })
            .collect();
        Encoder::new().encode(Format::V2, fields, &records, &mut self.log).unwrap();
        self.next += keys.len() as i64;
        self
    }

    /// Records of a producer in a transaction, one a key.
    fn of(self, producer_id: i64, base_sequence: i32, keys: &[&[u8]]) -> Self {
        let keys: Vec<_> = keys.iter().map(|&key| Some(key)).collect();
        let fields = BatchFields {
            producer_id,
            producer_epoch: 0,
            base_sequence,
            transactional: true,
            ..BatchFields::default()
        };
        self.batch(&fields, &keys, b"value")
    }

    fn marker(self, producer_id: i64, kind: u8) -> Self {
        let fields = BatchFields {
            producer_id,
            producer_epoch: 0,
            transactional: true,
            control: true,
            ..BatchFields::default()
        };
        self.batch(&fields, &[Some(&[0, 0, 0, kind])], &[0; 6])
    }
}

fn entries(log: &[u8]) -> impl Iterator<Item = Entry<'_>> {
    Log::new(log, Options::default()).map(Result::unwrap)
}

/// What is left of a log, how, and of which entries (by base offset) the transaction index is to tell.
fn clean(log: &[u8], now: i64, active: Active, high_watermark: i64) -> (Vec<u8>, Counts, Vec<i64>) {
    let mut survey = Survey::new();
    survey.segment(log, Options::default(), SegmentOf { last: true, ..SegmentOf::default() }).unwrap();
    let transactions = Arc::new(survey.finish());
    let mut latest = Latest::new(Strategy::Offset, 1 << 12, 100, Limits::default());
    for entry in entries(log).filter(|it| Cleaner::counts_for_keys(&transactions, &it.head)) {
        latest.map(&entry).unwrap();
    }
    assert!(latest.is_done());
    let policy = Policy { now, delete_retention: RETENTION, high_watermark, limits: Limits::default() };
    let mut cleaner = Cleaner::new(policy, latest, transactions, active);
    let (mut out, mut told) = (Vec::new(), Vec::new());
    for entry in entries(log) {
        if cleaner.entry(&entry, false, &mut out).unwrap() {
            told.push(entry.head.base_offset);
        }
    }
    assert_eq!(cleaner.rounds(), 1);
    (out, *cleaner.counts(), told)
}

/// First and last offset, records, and whether it is control, of each batch.
fn heads(log: &[u8]) -> Vec<(i64, i64, i32, bool)> {
    let of = |head: &Head| (head.base_offset, head.last_offset, head.count.unwrap(), head.is_control());
    entries(log).map(|entry| of(&entry.head)).collect()
}

const NEVER: i64 = i64::MAX;

#[test]
fn an_aborted_transaction_goes_at_once_and_its_marker_later() {
    let made = Made::default().of(1, 0, &[b"a", b"b"]).marker(1, 0).of(2, 0, &[b"a"]).marker(2, 1);
    let (first, counts, told) = clean(&made.log, NOW, Active::default(), NEVER);
    assert_eq!(heads(&first), [(2, 2, 1, true), (3, 3, 1, false), (4, 4, 1, true)]);
    assert_eq!((counts.records, counts.aborted, counts.kept, counts.markers), (3, 2, 1, 0));
    assert_eq!(told, [2], "data of it was there in this pass");

    // Nothing is left of its data, so its time begins to run; the commit's data is still there.
    let (second, counts, told) = clean(&first, NOW, Active::default(), NEVER);
    assert_eq!(heads(&second), heads(&first));
    let horizons: Vec<_> = entries(&second).map(|entry| entry.head.delete_horizon()).collect();
    assert_eq!(horizons, [Some(NOW + RETENTION), None, None]);
    assert_eq!((counts.stamped, counts.copied, told), (1, 2, vec![]));
    let (same, counts, _) = clean(&second, NOW + RETENTION - 1, Active::default(), NEVER);
    assert_eq!((same == second, counts.markers), (true, 0));

    let (last, counts, _) = clean(&second, NOW + RETENTION, Active::default(), NEVER);
    assert_eq!(heads(&last), [(3, 3, 1, false), (4, 4, 1, true)]);
    assert_eq!(counts.markers, 1);
}

#[test]
fn an_open_transaction_is_left_alone() {
    let made = Made::default().of(1, 0, &[b"a"]).of(1, 1, &[b"b"]);
    let (same, counts, told) = clean(&made.log, NOW, Active::default(), NEVER);
    assert_eq!((same, told), (made.log, vec![]));
    assert_eq!((counts.kept, counts.copied), (2, 2));
}

/// A header without records says which sequence a producer is at, so that a broker can tell a second delivery.
#[test]
fn what_a_producer_is_at_outlasts_its_records() {
    let made =
        Made::default().of(1, 0, &[b"a"]).of(1, 1, &[b"b"]).marker(1, 1).of(2, 0, &[b"a", b"b"]).marker(2, 1);
    let mut producers = Producers::new();
    for entry in entries(&made.log) {
        producers.append(&entry).unwrap();
    }
    let active = Active::of(&producers, 500, 10);
    let (kept, counts, _) = clean(&made.log, NOW, active.clone(), NEVER);
    assert_eq!(
        heads(&kept),
        [(1, 1, 0, false), (2, 2, 1, true), (3, 4, 2, false), (5, 5, 1, true)],
        "the first batch is not the producer's last"
    );
    assert_eq!((counts.emptied, counts.outranked), (1, 2));
    let empty = entries(&kept).next().unwrap().head;
    assert_eq!((empty.base_sequence, empty.producer_id, empty.max_timestamp), (1, 1, 500));
    // The empty batch is data of its transaction: the marker has no horizon yet. An empty batch stays as it is.
    let (again, counts, _) = clean(&kept, NOW, active, NEVER);
    assert_eq!((again == kept, counts.stamped), (true, 0));

    // Silent for longer than it takes to be forgotten.
    let forgotten = Active::of(&producers, 510, 10);
    assert_eq!(forgotten, Active::default());
    let (kept, counts, _) = clean(&made.log, NOW, forgotten, NEVER);
    assert_eq!(heads(&kept), [(2, 2, 1, true), (3, 4, 2, false), (5, 5, 1, true)]);
    assert_eq!(counts.emptied, 0);
}

#[test]
fn an_open_transaction_keeps_its_producer_active() {
    let mut producers = Producers::new();
    let made = Made::default().of(7, 0, &[b"a"]);
    for entry in entries(&made.log) {
        producers.append(&entry).unwrap();
    }
    let active = Active::of(&producers, i64::MAX, 0);
    assert_ne!(active, Active::default());
    assert!(active.has(&entries(&made.log).next().unwrap().head));
    let other = Made::default().of(8, 0, &[b"a"]);
    assert!(!active.has(&entries(&other.log).next().unwrap().head));
}

/// A bumped epoch forgot the data, so the last marker says which epoch it is.
#[test]
fn of_a_producer_without_data_its_last_marker_stays() {
    let made = Made::default().marker(3, 0);
    let mut producers = Producers::new();
    for entry in entries(&made.log) {
        producers.append(&entry).unwrap();
    }
    let active = Active::of(&producers, 0, i64::MAX);
    let (stamped, _, _) = clean(&made.log, NOW, active.clone(), NEVER);
    let (kept, counts, told) = clean(&stamped, NOW + RETENTION, active, NEVER);
    assert_eq!(heads(&kept), [(0, 0, 0, true)]);
    assert_eq!((counts.markers, counts.emptied, told), (1, 1, vec![]));
    let (kept, _, _) = clean(&stamped, NOW + RETENTION, Active::default(), NEVER);
    assert_eq!(heads(&kept), []);
}

/// No offset is given a second time.
#[test]
fn the_batch_that_ends_the_log_stays_as_a_header() {
    let plain = BatchFields::default();
    let made = Made::default().batch(&plain, &[Some(b"a"), None], b"v").batch(&plain, &[None, None], b"v");
    let (kept, counts, _) = clean(&made.log, NOW, Active::default(), 4);
    assert_eq!(heads(&kept), [(0, 1, 1, false), (2, 3, 0, false)]);
    assert_eq!((counts.without_key, counts.kept, counts.rebuilt, counts.emptied), (3, 1, 1, 1));
    let (kept, _, _) = clean(&made.log, NOW, Active::default(), 5);
    assert_eq!(heads(&kept), [(0, 1, 1, false)]);
}
