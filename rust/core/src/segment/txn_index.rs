//! `.txnindex`: the aborted transactions whose abort marker lies in the segment.
//!
//! ```text
//! entry => version int16 (0), producerId int64, firstOffset int64, lastOffset int64, lastStableOffset int64
//!                                                         big-endian, 34 bytes
//! ```
//!
//! `firstOffset` can lie in an earlier segment; `lastOffset` is the marker's own. Source: KIP-98; Apache Kafka,
//! `storage` module, classes `AbortedTxn` and `TransactionIndex`.

use super::entries::{IndexBuilder, field, position_of};
use crate::error::{Error, Flaw, Result};

const VERSION: usize = 0;
const PRODUCER_ID: usize = VERSION + 2;
const FIRST_OFFSET: usize = PRODUCER_ID + 8;
const LAST_OFFSET: usize = FIRST_OFFSET + 8;
const LAST_STABLE_OFFSET: usize = LAST_OFFSET + 8;

/// The one version there is (`AbortedTxn.CURRENT_VERSION`).
const CURRENT_VERSION: i16 = 0;

/// An aborted transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AbortedTxn {
    /// The producer that began it.
    pub producer_id: i64,
    /// Offset of its first record in this partition.
    pub first_offset: i64,
    /// Offset of its abort marker.
    pub last_offset: i64,
    /// The last stable offset once the marker was written: below it no transaction was open.
    pub last_stable_offset: i64,
}

impl AbortedTxn {
    /// Bytes of an entry.
    pub const ENCODED_SIZE: usize = LAST_STABLE_OFFSET + 8;

    /// The entry's bytes.
    #[must_use]
    pub fn encode(&self) -> [u8; Self::ENCODED_SIZE] {
        let mut raw = [0; Self::ENCODED_SIZE];
        raw[VERSION..PRODUCER_ID].copy_from_slice(&CURRENT_VERSION.to_be_bytes());
        raw[PRODUCER_ID..FIRST_OFFSET].copy_from_slice(&self.producer_id.to_be_bytes());
        raw[FIRST_OFFSET..LAST_OFFSET].copy_from_slice(&self.first_offset.to_be_bytes());
        raw[LAST_OFFSET..LAST_STABLE_OFFSET].copy_from_slice(&self.last_offset.to_be_bytes());
        raw[LAST_STABLE_OFFSET..].copy_from_slice(&self.last_stable_offset.to_be_bytes());
        raw
    }

    /// Reads an entry.
    ///
    /// # Errors
    /// [`Flaw::TxnIndex`] for a version other than 0.
    pub fn decode(raw: &[u8; Self::ENCODED_SIZE]) -> Result<Self, Flaw> {
        if i16::from_be_bytes(field(raw, VERSION)) != CURRENT_VERSION {
            return Err(Flaw::TxnIndex("transaction index: an entry's version is not 0"));
        }
        Ok(Self {
            producer_id: i64::from_be_bytes(field(raw, PRODUCER_ID)),
            first_offset: i64::from_be_bytes(field(raw, FIRST_OFFSET)),
            last_offset: i64::from_be_bytes(field(raw, LAST_OFFSET)),
            last_stable_offset: i64::from_be_bytes(field(raw, LAST_STABLE_OFFSET)),
        })
    }

    /// Markers stand in the order of the log, after the transaction that they end.
    fn follows(&self, last_offset: Option<i64>, base_offset: i64) -> Result<(), Flaw> {
        if self.first_offset < 0 || self.first_offset > self.last_offset {
            return Err(Flaw::TxnIndex(
                "transaction index: an entry's first offset is negative or after its last",
            ));
        }
        if self.last_offset < base_offset {
            return Err(Flaw::TxnIndex("transaction index: an entry ends before the segment begins"));
        }
        if last_offset.is_some_and(|last| self.last_offset <= last) {
            return Err(Flaw::TxnIndex("transaction index: an entry's last offset does not rise"));
        }
        Ok(())
    }
}

/// What [`TransactionIndex::collect_aborted`] found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CollectedTxns {
    /// The aborted transactions that touch the range, in the order of their markers.
    pub aborted: Vec<AbortedTxn>,
    /// True where no later segment's index can add one (`TxnIndexSearchResult.isComplete`).
    pub complete: bool,
}

/// A view over the bytes of a `.txnindex` file. It is never preallocated; most segments have none or an empty one.
#[derive(Clone, Copy, Debug)]
pub struct TransactionIndex<'a> {
    base_offset: i64,
    entries: &'a [[u8; AbortedTxn::ENCODED_SIZE]],
    ragged: bool,
}

impl<'a> TransactionIndex<'a> {
    /// A view; nothing is looked at yet. `base_offset` is the number in the file's name.
    #[must_use]
    pub fn new(bytes: &'a [u8], base_offset: i64) -> Self {
        let (entries, rest) = bytes.as_chunks();
        Self { base_offset, entries, ragged: !rest.is_empty() }
    }

    /// Number of whole entries, sound or not.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.entries.len()
    }

    /// True where there is no whole entry.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The entries in order. The first bad one is given as an error ([`Flaw::TxnIndex`], byte position in the
    /// file) and is the last item; so are bytes left over at the end, since they may be an abort half written.
    #[must_use]
    pub const fn iter(&self) -> AbortedTxns<'a> {
        AbortedTxns { index: *self, next: 0, last_offset: None, done: false }
    }

    /// The first thing that is wrong, if any.
    #[must_use]
    pub fn flaw(&self) -> Option<Error> {
        self.iter().find_map(Result::err)
    }

    /// The aborted transactions that a `read_committed` reader of offsets `fetch_offset` (inclusive) to
    /// `upper_bound_offset` (exclusive) has to know (`TransactionIndex.collectAbortedTxns`). Where `complete` is
    /// false, the search goes on in the next segment's index: an abort marker can lie segments later.
    ///
    /// # Errors
    /// Those of [`iter`](Self::iter), unless the search was complete before. Kafka passes over bytes left over at
    /// the end; here they are an error, or an aborted record could pass for a committed one.
    pub fn collect_aborted(&self, fetch_offset: i64, upper_bound_offset: i64) -> Result<CollectedTxns> {
        let mut found = CollectedTxns::default();
        for txn in self.iter() {
            let txn = txn?;
            if txn.last_offset >= fetch_offset && txn.first_offset < upper_bound_offset {
                found.aborted.push(txn);
            }
            if txn.last_stable_offset >= upper_bound_offset {
                found.complete = true;
                break;
            }
        }
        Ok(found)
    }
}

/// The iterator of [`TransactionIndex::iter`].
#[derive(Clone, Debug)]
pub struct AbortedTxns<'a> {
    index: TransactionIndex<'a>,
    next: usize,
    last_offset: Option<i64>,
    done: bool,
}

impl Iterator for AbortedTxns<'_> {
    type Item = Result<AbortedTxn>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let position = position_of(self.next, AbortedTxn::ENCODED_SIZE);
        let Some(raw) = self.index.entries.get(self.next) else {
            self.done = true;
            return self.index.ragged.then(|| {
                let flaw = Flaw::TxnIndex("transaction index: its size is not a multiple of 34");
                Err(flaw.at(position))
            });
        };
        self.next += 1;
        let txn = AbortedTxn::decode(raw)
            .and_then(|txn| txn.follows(self.last_offset, self.index.base_offset).map(|()| txn));
        match txn {
            Ok(txn) => {
                self.last_offset = Some(txn.last_offset);
                Some(Ok(txn))
            }
            Err(flaw) => {
                self.done = true;
                Some(Err(flaw.at(position)))
            }
        }
    }
}

/// Writes a `.txnindex` file.
pub type TransactionIndexBuilder = IndexBuilder<AbortedTxn>;

impl TransactionIndexBuilder {
    /// Adds an aborted transaction.
    ///
    /// # Errors
    /// [`Flaw::TxnIndex`] where its offsets contradict each other or its last offset does not rise. Nothing is
    /// added then.
    pub fn append(&mut self, txn: &AbortedTxn) -> Result<()> {
        let last = self.bytes.last_chunk::<{ AbortedTxn::ENCODED_SIZE }>();
        let last_offset = last.map(|raw| i64::from_be_bytes(field(raw, LAST_OFFSET)));
        txn.follows(last_offset, self.base_offset).map_err(|flaw| flaw.at(self.bytes.len() as u64))?;
        self.bytes.extend_from_slice(&txn.encode());
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // A test may panic.
mod tests {
    use super::*;

    fn txn(producer_id: i64, first_offset: i64, last_offset: i64, last_stable_offset: i64) -> AbortedTxn {
        AbortedTxn { producer_id, first_offset, last_offset, last_stable_offset }
    }

    fn file(txns: &[AbortedTxn]) -> Vec<u8> {
        txns.iter().flat_map(AbortedTxn::encode).collect()
    }

    #[test]
    fn collects_what_touches_the_range() {
        let all = [txn(1, 0, 10, 11), txn(2, 5, 15, 13), txn(3, 13, 35, 25), txn(4, 25, 39, 40)];
        let bytes = file(&all);
        let index = TransactionIndex::new(&bytes, 0);
        let found = |from, to| index.collect_aborted(from, to).map(|f| (f.aborted, f.complete));
        assert_eq!(found(0, 100), Ok((all.to_vec(), false)));
        assert_eq!(found(0, 32), Ok((all.to_vec(), true)));
        assert_eq!(found(0, 35), Ok((all.to_vec(), true)));
        assert_eq!(found(10, 35), Ok((all.to_vec(), true)));
        assert_eq!(found(11, 35), Ok((all[1..].to_vec(), true)));
        assert_eq!(found(20, 41), Ok((all[2..].to_vec(), false)));
        assert_eq!(found(0, 8), Ok((all[..1].to_vec(), true)));
    }

    #[test]
    fn the_first_bad_entry_is_the_last_item() {
        let good = txn(1, 0, 10, 11);
        let mut version = txn(2, 5, 15, 13).encode();
        version[1] = 1;
        for bad in [version, good.encode(), txn(1, 20, 19, 20).encode(), txn(1, -1, 19, 20).encode()] {
            let bytes = [file(&[good]), bad.to_vec(), file(&[txn(9, 40, 50, 51)])].concat();
            let index = TransactionIndex::new(&bytes, 0);
            let items: Vec<_> = index.iter().collect();
            assert_eq!((items.len(), items[0]), (2, Ok(good)));
            assert_eq!(items[1].unwrap_err().position, 34);
            assert_eq!(index.flaw(), items[1].err());
            assert!(index.collect_aborted(0, 100).is_err());
            assert!(index.collect_aborted(0, 11).is_ok_and(|found| found.complete));
        }
        assert!(TransactionIndex::new(&file(&[good]), 11).flaw().is_some());
    }

    #[test]
    fn bytes_left_over_are_an_error() {
        let bytes = [file(&[txn(1, 0, 10, 11)]), vec![0; 33]].concat();
        let index = TransactionIndex::new(&bytes, 0);
        assert_eq!((index.len(), index.flaw().map(|e| e.position)), (1, Some(34)));
        assert!(index.collect_aborted(0, 100).is_err());
    }

    #[test]
    fn the_builder_refuses_what_a_reader_would() {
        let mut builder = TransactionIndexBuilder::new(10);
        assert!(builder.append(&txn(1, 0, 9, 9)).is_err());
        builder.append(&txn(1, 0, 10, 11)).unwrap();
        assert!(builder.append(&txn(2, 0, 10, 11)).is_err());
        builder.append(&txn(2, 1, 11, 12)).unwrap();
        assert_eq!(builder.as_bytes().len(), 68);
        assert_eq!(TransactionIndex::new(&builder.into_bytes(), 10).iter().count(), 2);
    }
}
