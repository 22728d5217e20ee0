use super::*;
use crate::encode::Encoder;
use crate::format::Format;
use crate::log::Options;
use crate::new_record::{BatchFields, NewRecord};
use crate::segment::AbortedTxn;

use TransactionState::{Aborted, Committed, Unknown};

/// Builds a log of v2 batches, and remembers where each begins.
#[derive(Clone, Default)]
struct Made {
    bytes: Vec<u8>,
    starts: Vec<usize>,
    next: i64,
}

impl Made {
    fn from(next: i64) -> Self {
        Self { next, ..Self::default() }
    }

    fn batch(&mut self, fields: &BatchFields, offsets: &[i64], key: Option<&[u8]>, value: &[u8]) {
        let record = |&offset: &i64| NewRecord { offset, key, value: Some(value), ..NewRecord::default() };
        let records: Vec<_> = offsets.iter().map(record).collect();
        self.starts.push(self.bytes.len());
        let mut out = std::mem::take(&mut self.bytes);
        Encoder::new().encode(Format::V2, fields, &records, &mut out).unwrap();
        self.bytes = out;
    }

    /// Records of a producer: `count` of them, in one batch.
    fn data(mut self, producer_id: i64, count: i64) -> Self {
        let offsets: Vec<i64> = (self.next..self.next + count).collect();
        let fields = BatchFields {
            base_offset: Some(self.next),
            producer_id,
            producer_epoch: 0,
            transactional: producer_id >= 0,
            ..BatchFields::default()
        };
        self.batch(&fields, &offsets, None, &[b'v'; 200]);
        self.next += count;
        self
    }

    /// What compaction leaves of a batch.
    fn empty(mut self, producer_id: i64, count: i64, control: bool) -> Self {
        let fields = BatchFields {
            base_offset: Some(self.next),
            last_offset_delta: Some(count as i32 - 1),
            producer_id,
            transactional: true,
            control,
            ..BatchFields::default()
        };
        self.batch(&fields, &[], None, b"");
        self.next += count;
        self
    }

    fn marker(mut self, producer_id: i64, kind: u8, epoch: i16) -> Self {
        let fields = BatchFields {
            producer_id,
            producer_epoch: epoch,
            transactional: true,
            control: true,
            ..BatchFields::default()
        };
        let offset = self.next;
        self.batch(&fields, &[offset], Some(&[0, 0, 0, kind]), &[0; 6]);
        self.next += 1;
        self
    }

    fn abort(self, producer_id: i64) -> Self {
        self.marker(producer_id, 0, 0)
    }

    fn commit(self, producer_id: i64) -> Self {
        self.marker(producer_id, 1, 0)
    }

    /// Breaks the batch of that number, so that its checksum does not hold.
    fn broken(mut self, number: usize) -> Self {
        let end = self.starts.get(number + 1).copied().unwrap_or(self.bytes.len());
        self.bytes[end - 1] ^= 1;
        self
    }
}

fn survey(segments: &[(&Made, Option<&[AbortedTxn]>)]) -> (Transactions, Vec<&'static str>) {
    let mut survey = Survey::new();
    let mut odd = Vec::new();
    for (number, (made, index)) in segments.iter().enumerate() {
        let bytes: Option<Vec<u8>> = index.map(|txns| txns.iter().flat_map(AbortedTxn::encode).collect());
        let last = number + 1 == segments.len();
        let of = SegmentOf { index: bytes.as_deref(), last, ..SegmentOf::default() };
        let said = survey.segment(made.bytes.as_slice(), Options::default(), of).unwrap();
        odd.extend(said.map(|said| match said.error.flaw {
            crate::Flaw::TxnIndex(text) => text.trim_start_matches("transaction index: "),
            _ => unreachable!(),
        }));
    }
    (survey.finish(), odd)
}

fn of(made: &Made) -> Transactions {
    survey(&[(made, None)]).0
}

fn lso(transactions: &Transactions) -> Option<(i64, u64)> {
    transactions.unstable().map(|it| (it.offset, it.records))
}

fn txn(producer_id: i64, first_offset: i64, last_offset: i64) -> AbortedTxn {
    AbortedTxn { producer_id, first_offset, last_offset, last_stable_offset: first_offset }
}

#[test]
fn markers_decide_between_markers() {
    // 7: 0–2 committed, 5–6 aborted, 9 open; 8: 3 aborted; plain: 10.
    let made =
        Made::default().data(7, 3).data(8, 1).commit(7).data(7, 2).abort(8).abort(7).data(7, 1).data(-1, 1);
    let found = of(&made);
    let states = |id, offsets: &[i64]| offsets.iter().map(|&at| found.state_at(id, at)).collect::<Vec<_>>();
    assert_eq!(states(7, &[0, 2, 5, 6, 9]), [Committed, Committed, Aborted, Aborted, Unknown]);
    assert_eq!(states(8, &[3]), [Aborted]);
    assert_eq!(states(9, &[3]), [Unknown]);
    assert_eq!(lso(&found), Some((9, 2)));
    assert_eq!(of(&made.abort(7)).unstable(), None);
}

#[test]
fn epochs_do_not_matter() {
    let found = of(&Made::default().data(7, 1).marker(7, 0, 1).data(7, 1).marker(7, 1, 5));
    assert_eq!((found.state_at(7, 0), found.state_at(7, 2)), (Aborted, Committed));
    assert_eq!(found.unstable(), None);
}

#[test]
fn a_transaction_begun_before_the_data_is_decided_by_its_marker() {
    let found = of(&Made::from(1000).data(7, 1).abort(7));
    assert_eq!(found.state_at(7, 1000), Aborted);
}

#[test]
fn markers_may_be_segments_later() {
    let first = Made::default().data(7, 5).data(8, 5);
    let second = Made::from(10).data(-1, 5);
    let third = Made::from(15).abort(7);
    let (found, odd) = survey(&[(&first, None), (&second, None), (&third, Some(&[txn(7, 0, 15)]))]);
    assert_eq!((found.state_at(7, 0), found.state_at(8, 5)), (Aborted, Unknown));
    assert_eq!((lso(&found), odd), (Some((5, 10)), vec![]));
}

#[test]
fn what_compaction_leaves() {
    // Markers without data, data without records, a marker emptied itself.
    let made = Made::default()
        .abort(5)
        .commit(6)
        .empty(7, 4, false)
        .data(8, 1)
        .empty(9, 1, true)
        .commit(8)
        .commit(8);
    let found = of(&made);
    assert_eq!((found.state_at(8, 6), found.unstable()), (Committed, None));
    assert_eq!((found.producers(), found.spans()), (1, 1));
    let judge = Judge { transactions: found.into(), isolation: Isolation::ReadCommitted, past_lso: false };
    for entry in crate::Log::new(&made.bytes, Options::default()) {
        assert!(matches!(judge.rule(&entry.unwrap().head), Ruling::Take(_)));
    }
}

#[test]
fn many_commits_take_one_span() {
    let made = (0..50).fold(Made::default(), |made, _| made.data(7, 2).commit(7));
    assert_eq!(of(&made).spans(), 1);
    let made = (0..50)
        .fold(made, |made, n| if n % 2 == 0 { made.data(7, 2).abort(7) } else { made.data(7, 1).commit(7) });
    assert_eq!(of(&made).spans(), 51);
}

#[test]
fn a_lost_marker_leaves_unknown_unless_an_index_tells() {
    // 0–2, ABORT (3, broken), 4–5, COMMIT (6)
    let made = Made::default().data(7, 3).abort(7).data(7, 2).commit(7).broken(1);
    let found = of(&made);
    assert_eq!((found.state_at(7, 0), found.state_at(7, 4)), (Unknown, Committed));
    assert_eq!(lso(&found), Some((0, 5)));
    assert!(found.unstable().unwrap().damaged);
    let (found, odd) = survey(&[(&made, Some(&[txn(7, 0, 3)]))]);
    assert_eq!((found.state_at(7, 0), found.state_at(7, 4)), (Aborted, Committed));
    assert_eq!((found.unstable(), odd), (None, vec![]));
    // An index that is there and names no abort in the hole: nothing but a commit can have been lost.
    let made = Made::default().data(7, 3).commit(7).data(7, 2).abort(7).broken(1);
    let (found, _) = survey(&[(&made, Some(&[txn(7, 4, 6)]))]);
    assert_eq!((found.state_at(7, 0), found.state_at(7, 4)), (Unknown, Aborted));
    let made = Made::default().data(7, 3).commit(7).data(7, 2).commit(7).broken(1);
    assert_eq!(survey(&[(&made, Some(&[]))]).0.unstable(), None);
}

#[test]
fn an_index_tells_of_markers_behind_the_end() {
    let made = Made::default().data(7, 3).data(8, 1);
    let (found, odd) = survey(&[(&made, Some(&[txn(7, 0, 9)]))]);
    assert_eq!((found.state_at(7, 0), found.state_at(8, 3)), (Aborted, Unknown));
    assert_eq!((lso(&found), odd), (Some((3, 1)), vec![]));
    // In the middle of the log the data are complete, and no marker stands there.
    let (found, odd) = survey(&[(&made, Some(&[txn(7, 0, 3)])), (&Made::from(4).commit(7).commit(8), None)]);
    assert_eq!((found.state_at(7, 0), found.unstable()), (Committed, None));
    assert_eq!(odd, ["no abort marker stands where an entry says"]);
}

#[test]
fn an_index_tells_where_offsets_are_missing() {
    let mut made = Made::default().data(7, 3);
    made.next += 1;
    let made = made.data(7, 2).commit(7);
    assert_eq!(of(&made).state_at(7, 0), Committed);
    let (found, odd) = survey(&[(&made, Some(&[txn(7, 0, 3)]))]);
    assert_eq!((found.state_at(7, 0), found.state_at(7, 4), odd), (Aborted, Committed, vec![]));
}

#[test]
fn an_index_at_odds_is_told_and_not_believed() {
    let made = Made::default().data(7, 3).abort(7).data(7, 1).commit(7).data(8, 1).abort(8);
    let committed = |index: &[AbortedTxn]| {
        let (found, odd) = survey(&[(&made, Some(index)), (&Made::from(8).data(-1, 1), None)]);
        assert_eq!(
            (found.state_at(7, 0), found.state_at(7, 4), found.state_at(8, 6)),
            (Aborted, Committed, Aborted)
        );
        odd
    };
    assert_eq!(committed(&[txn(7, 0, 3), txn(8, 6, 7)]), Vec::<&str>::new());
    assert_eq!(committed(&[txn(7, 0, 3)]), ["an abort marker has no entry"]);
    assert_eq!(
        committed(&[txn(7, 1, 3), txn(8, 6, 7)]),
        ["an aborted transaction begins before the entry says"]
    );
    assert_eq!(
        committed(&[txn(9, 0, 3), txn(8, 6, 7)]),
        ["an entry names another producer than the abort marker at its end"]
    );
    assert_eq!(
        committed(&[txn(7, 0, 3), txn(7, 4, 5), txn(8, 6, 7)]),
        ["no abort marker stands where an entry says"]
    );
    assert_eq!(committed(&[txn(7, 3, 0)]), ["an entry's first offset is negative or after its last"]);
}

#[test]
fn torn_ends_and_false_lengths() {
    let made = Made::default().data(7, 3).commit(7).data(8, 1);
    let cut = Made { bytes: made.bytes[..made.bytes.len() - 1].to_vec(), ..made.clone() };
    assert_eq!(of(&cut).unstable(), None, "a torn batch has no record to be unknown");
    let mut false_length = made.abort(8);
    false_length.bytes[11] ^= 0x08;
    let found = of(&false_length);
    assert_eq!(found.state_at(8, 4), Aborted);
}

/// No checksum covers a base offset.
#[test]
fn false_offsets_are_not_believed() {
    let made =
        Made::default().data(7, 3).commit(7).data(7, 2).abort(7).data(8, 1).commit(8).data(7, 1).commit(7);
    let truth = of(&made);
    let data = [(7, 0), (7, 4), (8, 7), (7, 9)];
    for &start in &made.starts {
        for bit in 0..64 {
            let mut bad = made.clone();
            bad.bytes[start + bit / 8] ^= 1 << (bit % 8);
            let found = of(&bad);
            for (id, at) in data {
                let state = found.state_at(id, at);
                assert!([truth.state_at(id, at), Unknown].contains(&state), "{start} {bit}: {id} at {at}");
            }
        }
    }
}

#[test]
fn overlapping_segments_leave_unknown() {
    let first = Made::default().data(7, 3).commit(7).data(7, 2);
    let second = Made::from(3).abort(8).data(7, 2).abort(7);
    let mut survey = Survey::new();
    let last = SegmentOf { base_offset: Some(3), last: true, ..SegmentOf::default() };
    survey.segment(first.bytes.as_slice(), Options::default(), SegmentOf::default()).unwrap();
    survey.segment(second.bytes.as_slice(), Options::default(), last).unwrap();
    let found = survey.finish();
    assert_eq!(found.state_at(7, 0), Committed);
    assert!(found.unstable().is_some());
}

#[test]
fn a_control_batch_whose_key_says_nothing_leaves_unknown() {
    let mut made = Made::default().data(7, 2);
    let fields = BatchFields { producer_id: 7, transactional: true, control: true, ..BatchFields::default() };
    for key in [&b"\0\0\0"[..], b""] {
        let offset = made.next;
        made.batch(&fields, &[offset], Some(key), &[0; 6]);
        made.next += 1;
    }
    let found = of(&made.data(7, 1).commit(7).data(7, 1).commit(7));
    assert_eq!(
        [found.state_at(7, 0), found.state_at(7, 4), found.state_at(7, 6)],
        [Unknown, Committed, Committed]
    );
}

#[test]
fn overlapping_segments_of_which_each_gives_a_part() {
    // Offsets 0 to 6; then 3 to 8, of which 3 to 6 are not to count, the abort marker of another history among them.
    let first = Made::default().data(7, 3).commit(7).data(7, 2).commit(7);
    let second = Made::from(3).abort(8).data(7, 2).abort(7).data(9, 1).abort(9);
    let index = |producer_id, at| AbortedTxn {
        producer_id,
        first_offset: at - 1,
        last_offset: at,
        last_stable_offset: at,
    };
    let bytes: Vec<u8> = [index(7, 6), index(9, 8)].iter().flat_map(AbortedTxn::encode).collect();
    let mut survey = Survey::new();
    let one = SegmentOf { base_offset: Some(0), to: Some(7), ..SegmentOf::default() };
    let other = SegmentOf {
        base_offset: Some(3),
        index: Some(&bytes),
        last: true,
        from: Some(7),
        ..SegmentOf::default()
    };
    assert_eq!(survey.segment(first.bytes.as_slice(), Options::default(), one).unwrap(), None);
    assert_eq!(survey.segment(second.bytes.as_slice(), Options::default(), other).unwrap(), None);
    let found = survey.finish();
    assert_eq!(
        [found.state_at(7, 0), found.state_at(7, 4), found.state_at(9, 7)],
        [Committed, Committed, Aborted]
    );
    assert!(found.unstable().is_none());
}

#[test]
fn stored_and_read_again() {
    let found = of(&Made::default().data(7, 3).abort(7).data(7, 1).commit(7).data(8, 1).data(9, 4).abort(9));
    let bytes = found.to_bytes();
    assert_eq!(Transactions::from_bytes(&bytes).as_ref(), Some(&found));
    for end in 0..bytes.len() {
        assert_eq!(Transactions::from_bytes(&bytes[..end]), None);
    }
    let part = found.within(4, 6);
    assert_eq!((part.spans(), part.state_at(7, 4), lso(&part)), (1, Committed, lso(&found)));
    assert_eq!(Transactions::from_bytes(&Transactions::default().to_bytes()), Some(Transactions::default()));
}

#[test]
fn rulings() {
    let made = Made::default().data(7, 1).abort(7).data(8, 1).data(7, 1).commit(7).data(-1, 1);
    let heads: Vec<Head> =
        crate::Log::new(&made.bytes, Options::default()).map(|entry| entry.unwrap().head).collect();
    let transactions = std::sync::Arc::new(of(&made));
    let rule = |isolation, past_lso| {
        let judge = Judge { transactions: transactions.clone(), isolation, past_lso };
        heads.iter().map(|head| judge.rule(head)).collect::<Vec<_>>()
    };
    let (take, none) = (Ruling::Take, TransactionState::None);
    assert_eq!(
        rule(Isolation::ReadUncommitted, false),
        [take(Aborted), take(none), take(Unknown), take(Committed), take(none), take(none)]
    );
    let (out, stop) = (Ruling::LeaveOut, Ruling::Stop);
    assert_eq!(rule(Isolation::ReadCommitted, false), [out, take(none), stop, stop, stop, stop]);
    assert_eq!(
        rule(Isolation::ReadCommitted, true),
        [out, take(none), out, take(Committed), take(none), take(none)]
    );
}
