//! `.timeindex`: up to which offset a timestamp was not yet reached.
//!
//! ```text
//! entry => timestamp int64, relativeOffset int32          big-endian, 12 bytes
//! ```
//!
//! `timestamp` (ms since 1970) is the greatest in the segment up to and with the offset. Source: Apache Kafka,
//! `storage` module, class `TimeIndex`; KIP-33.

use super::entries::{field, position_of, without_padding};
use crate::error::{Error, Flaw, Result};

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

/// A view over the bytes of a `.timeindex` file: its sound entries, from the front.
///
/// Zeros at the end, as a preallocated file has, are no entries and no flaw. Any other entry that does not rise
/// ends the view; [`flaw`](Self::flaw) tells where and why.
#[derive(Clone, Copy, Debug)]
pub struct TimeIndex<'a> {
    base_offset: i64,
    entries: &'a [[u8; TimeIndex::ENTRY_SIZE]],
    flaw: Option<Error>,
}

impl<'a> TimeIndex<'a> {
    /// Bytes of an entry.
    pub const ENTRY_SIZE: usize = RELATIVE_OFFSET + 4;

    /// Looks over the bytes of a `.timeindex` file once. `base_offset` is the number in its file name.
    #[must_use]
    pub fn new(bytes: &'a [u8], base_offset: i64) -> Self {
        let (whole, rest) = bytes.as_chunks();
        let used = without_padding(whole);
        let mut previous = None;
        for (i, raw) in used.iter().enumerate() {
            if let Err(flaw) = rises(previous, raw, base_offset) {
                let flaw = Some(flaw.at(position_of(i, Self::ENTRY_SIZE)));
                return Self { base_offset, entries: &used[..i], flaw };
            }
            previous = Some(raw);
        }
        let flaw = (!rest.is_empty()).then(|| {
            let end = position_of(whole.len(), Self::ENTRY_SIZE);
            Flaw::Index("time index: its size is not a multiple of 12, bytes of an entry are missing").at(end)
        });
        Self { base_offset, entries: used, flaw }
    }

    /// The segment's base offset.
    #[must_use]
    pub const fn base_offset(&self) -> i64 {
        self.base_offset
    }

    /// Number of sound entries.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.entries.len()
    }

    /// True where there is no entry: records without timestamps make none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// What is wrong behind the last sound entry, with its byte position in the `.timeindex` file.
    #[must_use]
    pub const fn flaw(&self) -> Option<Error> {
        self.flaw
    }

    /// The entry at `index`, counted from 0.
    #[must_use]
    pub fn entry(&self, index: usize) -> Option<TimestampOffset> {
        self.entries.get(index).map(|raw| decode(raw, self.base_offset))
    }

    /// All sound entries, timestamps rising and offsets not falling.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = TimestampOffset> + ExactSizeIterator + use<'a> {
        let base_offset = self.base_offset;
        self.entries.iter().map(move |raw| decode(raw, base_offset))
    }

    /// The last entry whose timestamp (ms) is at or before `timestamp`, else (−1, base offset)
    /// (`TimeIndex.lookup`). The first record at or after `timestamp` is in the batch that holds the given
    /// offset or in a later one: the search begins at that batch, where the offset index leads, and not at
    /// the offset itself, which can be the last one of the batch.
    #[must_use]
    pub fn lookup(&self, timestamp: i64) -> TimestampOffset {
        let after =
            self.entries.partition_point(|raw| i64::from_be_bytes(field(raw, TIMESTAMP)) <= timestamp);
        after
            .checked_sub(1)
            .and_then(|slot| self.entry(slot))
            .unwrap_or(TimestampOffset { timestamp: NO_TIMESTAMP, offset: self.base_offset })
    }
}

/// Only for entries that `rises` has passed: the sum cannot overflow there.
fn decode(raw: &[u8; TimeIndex::ENTRY_SIZE], base_offset: i64) -> TimestampOffset {
    TimestampOffset {
        timestamp: i64::from_be_bytes(field(raw, TIMESTAMP)),
        offset: base_offset.saturating_add(i64::from(i32::from_be_bytes(field(raw, RELATIVE_OFFSET)))),
    }
}

/// Timestamps begin at 0 or above and rise; offsets begin at 0 or above and do not fall
/// (`TimeIndex.maybeAppend`).
fn rises(
    previous: Option<&[u8; TimeIndex::ENTRY_SIZE]>,
    raw: &[u8; TimeIndex::ENTRY_SIZE],
    base_offset: i64,
) -> Result<(), Flaw> {
    let numbers =
        |raw| (i64::from_be_bytes(field(raw, TIMESTAMP)), i32::from_be_bytes(field(raw, RELATIVE_OFFSET)));
    let (timestamp, offset) = numbers(raw);
    let (last_timestamp, last_offset) = previous.map_or((NO_TIMESTAMP, 0), numbers);
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

/// Writes a `.timeindex` file: as many bytes as it has entries, no padding, as after a roll.
#[derive(Clone, Debug)]
pub struct TimeIndexBuilder {
    base_offset: i64,
    bytes: Vec<u8>,
}

impl TimeIndexBuilder {
    /// An empty index of the segment that begins at `base_offset`.
    #[must_use]
    pub const fn new(base_offset: i64) -> Self {
        Self { base_offset, bytes: Vec::new() }
    }

    /// Adds an entry: up to and with `offset`, the greatest timestamp is `timestamp` (ms). As in Kafka's
    /// `maybeAppend`, one whose timestamp is that of the last entry, or −1 in an empty index, adds nothing.
    ///
    /// # Errors
    /// [`Flaw::Index`] where timestamp or offset falls, or the offset is more than 2^31 − 1 over the base
    /// offset. Nothing is added then.
    pub fn append(&mut self, timestamp: i64, offset: i64) -> Result<()> {
        let at = self.bytes.len() as u64;
        let relative = offset
            .checked_sub(self.base_offset)
            .and_then(|relative| i32::try_from(relative).ok())
            .ok_or(Flaw::Index("time index: the offset is too far from the base offset").at(at))?;
        let last = self.bytes.last_chunk::<{ TimeIndex::ENTRY_SIZE }>();
        let last_offset = last.map_or(0, |raw| i32::from_be_bytes(field(raw, RELATIVE_OFFSET)));
        let last_timestamp = last.map_or(NO_TIMESTAMP, |raw| i64::from_be_bytes(field(raw, TIMESTAMP)));
        if timestamp == last_timestamp && relative >= last_offset {
            return Ok(());
        }
        let mut raw = [0; TimeIndex::ENTRY_SIZE];
        raw[TIMESTAMP..RELATIVE_OFFSET].copy_from_slice(&timestamp.to_be_bytes());
        raw[RELATIVE_OFFSET..].copy_from_slice(&relative.to_be_bytes());
        rises(last, &raw, self.base_offset).map_err(|flaw| flaw.at(at))?;
        self.bytes.extend_from_slice(&raw);
        Ok(())
    }

    /// The file's bytes so far.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The file's bytes.
    #[must_use]
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
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
