//! `.timeindex`: up to which offset a timestamp was not yet reached.
//!
//! ```text
//! entry => timestamp int64, relativeOffset int32          big-endian, 12 bytes
//! ```
//!
//! `timestamp` (ms since 1970) is the greatest in the segment up to and with the offset. Source: Apache Kafka,
//! `storage` module, class `TimeIndex`; KIP-33.

use super::entries::{Index, IndexBuilder, IndexEntry, field};
use crate::error::{Flaw, Result};

/// An entry of a time index, its offset absolute.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TimestampOffset {
    /// Greatest timestamp so far, in ms since 1970; −1 is none.
    pub timestamp: i64,
    /// The offset at which it stands, or the last one of its batch.
    pub offset: i64,
}

/// The timestamp of a record that has none (`RecordBatch.NO_TIMESTAMP`).
const NO_TIMESTAMP: i64 = -1;

const TIMESTAMP: usize = 0;
const RELATIVE_OFFSET: usize = TIMESTAMP + 8;

/// Bytes of an entry.
const SIZE: usize = RELATIVE_OFFSET + 4;

/// A view over the bytes of a `.timeindex` file: timestamps rise, offsets do not fall.
pub type TimeIndex<'a> = Index<'a, TimestampOffset, SIZE>;

impl TimeIndex<'_> {
    /// The last entry whose timestamp (ms) is at or before `timestamp`, else (−1, base offset)
    /// (`TimeIndex.lookup`). The first record at or after `timestamp` is in the batch that holds the given
    /// offset or in a later one: the search begins at that batch, where the offset index leads, and not at
    /// the offset itself, which can be the last one of the batch.
    #[must_use]
    pub fn lookup(&self, timestamp: i64) -> TimestampOffset {
        self.last_where(|entry| entry.timestamp <= timestamp)
            .unwrap_or(TimestampOffset { timestamp: NO_TIMESTAMP, offset: self.base_offset() })
    }
}

impl IndexEntry<SIZE> for TimestampOffset {
    const LEFT_OVER: Flaw =
        Flaw::Index("time index: its size is not a multiple of 12, bytes of an entry are missing");

    fn decode(raw: &[u8; SIZE], base_offset: i64) -> Self {
        let (timestamp, relative) = numbers(raw);
        Self { timestamp, offset: base_offset.saturating_add(i64::from(relative)) }
    }

    /// Timestamps begin at 0 or above and rise; offsets begin at 0 or above and do not fall
    /// (`TimeIndex.maybeAppend`).
    fn rises(previous: Option<&[u8; SIZE]>, raw: &[u8; SIZE], base_offset: i64) -> Result<(), Flaw> {
        let (timestamp, offset) = numbers(raw);
        let (last_timestamp, last_offset) = previous.map_or(BEFORE_THE_FIRST, numbers);
        if timestamp <= last_timestamp {
            return Err(Flaw::Index("time index: an entry's timestamp does not rise"));
        }
        if offset < last_offset {
            return Err(Flaw::Index("time index: an entry's offset falls"));
        }
        if base_offset.checked_add(i64::from(offset)).is_none() {
            return Err(Flaw::Index("time index: an entry's offset is over 2^63 - 1"));
        }
        Ok(())
    }
}

/// What the first entry has to rise over.
const BEFORE_THE_FIRST: (i64, i32) = (NO_TIMESTAMP, 0);

/// Timestamp and relative offset.
fn numbers(raw: &[u8; SIZE]) -> (i64, i32) {
    (i64::from_be_bytes(field(raw, TIMESTAMP)), i32::from_be_bytes(field(raw, RELATIVE_OFFSET)))
}

/// Writes a `.timeindex` file.
pub type TimeIndexBuilder = IndexBuilder<TimestampOffset>;

impl TimeIndexBuilder {
    /// Adds an entry: up to and with `offset`, the greatest timestamp is `timestamp` (ms). As in Kafka's
    /// `maybeAppend`, one whose timestamp is that of the last entry, or −1 in an empty index, adds nothing.
    ///
    /// # Errors
    /// [`Flaw::Index`] where timestamp or offset falls, or the offset is more than 2^31 − 1 over the base
    /// offset. Nothing is added then.
    pub fn append(&mut self, timestamp: i64, offset: i64) -> Result<()> {
        let too_far = Flaw::Index("time index: the offset is too far from the base offset");
        let relative = self.relative(offset, too_far)?;
        let (last_timestamp, last_offset) = self.bytes.last_chunk().map_or(BEFORE_THE_FIRST, numbers);
        if timestamp == last_timestamp && relative >= last_offset {
            return Ok(());
        }
        let mut raw = [0; SIZE];
        raw[TIMESTAMP..RELATIVE_OFFSET].copy_from_slice(&timestamp.to_be_bytes());
        raw[RELATIVE_OFFSET..].copy_from_slice(&relative.to_be_bytes());
        self.add(&raw)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // A test may panic.
mod tests {
    use super::*;

    fn file(entries: &[(i64, i32)]) -> Vec<u8> {
        entries.iter().flat_map(|(t, o)| [&t.to_be_bytes()[..], &o.to_be_bytes()].concat()).collect()
    }

    fn at(timestamp: i64, offset: i64) -> TimestampOffset {
        TimestampOffset { timestamp, offset }
    }

    #[test]
    fn lookup_gives_the_last_entry_at_or_before() {
        let bytes = file(&[(10, 1), (20, 1), (30, 3)]);
        let index = TimeIndex::new(&bytes, 100);
        assert_eq!((index.len(), index.flaw()), (3, None));
        assert_eq!(index.lookup(9), at(-1, 100));
        assert_eq!(index.lookup(10), at(10, 101));
        assert_eq!(index.lookup(29), at(20, 101));
        assert_eq!(index.lookup(i64::MAX), at(30, 103));
        assert_eq!(index.lookup(i64::MIN), at(-1, 100));
    }

    #[test]
    fn a_lone_entry_of_timestamp_0_is_no_padding() {
        let index = TimeIndex::new(&[0; 12], 5);
        assert_eq!(index.lookup(0), at(0, 5));
        assert!(TimeIndex::new(&[0; 24], 5).is_empty());
        let mut bytes = file(&[(0, 0), (1, 1)]);
        bytes.resize(12 * 1000, 0);
        assert_eq!((TimeIndex::new(&bytes, 5).len(), TimeIndex::new(&bytes, 5).flaw()), (2, None));
    }

    #[test]
    fn an_entry_that_does_not_rise_ends_the_view() {
        for (entries, sound) in [
            (&[(10, 1), (10, 2)][..], 1),
            (&[(10, 4), (11, 2)], 1),
            (&[(10, 1), (0, 0), (12, 4)], 1),
            (&[(-1, 1)], 0),
            (&[(1, -1)], 0),
        ] {
            let bytes = file(entries);
            let index = TimeIndex::new(&bytes, 0);
            assert_eq!(index.len(), sound);
            assert_eq!(index.flaw().map(|e| e.position), Some(sound as u64 * 12), "{entries:?}");
        }
        let bytes = [file(&[(10, 1)]), vec![0; 5]].concat();
        let index = TimeIndex::new(&bytes, 0);
        assert_eq!((index.len(), index.flaw().map(|e| e.position)), (1, Some(12)));
    }

    #[test]
    fn the_builder_is_maybe_append() {
        let mut builder = TimeIndexBuilder::new(100);
        builder.append(-1, 100).unwrap();
        builder.append(7, 101).unwrap();
        builder.append(7, 109).unwrap();
        assert!(builder.append(6, 110).is_err());
        assert!(builder.append(8, 100).is_err());
        assert!(builder.append(7, 100).is_err());
        assert!(builder.append(8, i64::MAX).is_err());
        builder.append(8, 101).unwrap();
        let all: Vec<_> = TimeIndex::new(builder.as_bytes(), 100).iter().collect();
        assert_eq!(all, [at(7, 101), at(8, 101)]);
    }
}
