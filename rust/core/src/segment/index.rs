//! `.index`: where in the segment an offset can be found.
//!
//! ```text
//! entry => relativeOffset int32, position int32          big-endian, 8 bytes
//! ```
//!
//! `relativeOffset` is an offset minus the segment's base offset: the last offset of the batch that begins at
//! byte `position` of the `.log`. There is an entry about every `index.interval.bytes` (4096), none for the
//! batch at position 0. Source: Apache Kafka, `storage` module, class `OffsetIndex`.

use super::entries::{Index, IndexBuilder, IndexEntry, field};
use crate::error::{Flaw, Result};

/// An entry of an offset index, its offset absolute.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OffsetPosition {
    /// Last offset of the batch (in very old logs: of the whole produce request) at `position`.
    pub offset: i64,
    /// Byte position of that batch in the `.log`.
    pub position: i32,
}

const RELATIVE_OFFSET: usize = 0;
const POSITION: usize = RELATIVE_OFFSET + 4;

/// Bytes of an entry.
const SIZE: usize = POSITION + 4;

/// A view over the bytes of an `.index` file: offsets and positions rise.
pub type OffsetIndex<'a> = Index<'a, OffsetPosition, SIZE>;

impl OffsetIndex<'_> {
    /// Where to begin reading to find `offset`: the last entry at or before it, else the segment's beginning
    /// (`OffsetIndex.lookup`). The position can lie past the end of a `.log` that was cut: the caller checks.
    #[must_use]
    pub fn lookup(&self, offset: i64) -> OffsetPosition {
        self.last_where(|entry| entry.offset <= offset)
            .unwrap_or(OffsetPosition { offset: self.base_offset(), position: 0 })
    }
}

impl IndexEntry<SIZE> for OffsetPosition {
    const LEFT_OVER: Flaw =
        Flaw::Index("offset index: its size is not a multiple of 8, bytes of an entry are missing");

    fn decode(raw: &[u8; SIZE], base_offset: i64) -> Self {
        Self {
            offset: base_offset.saturating_add(i64::from(i32::from_be_bytes(field(raw, RELATIVE_OFFSET)))),
            position: i32::from_be_bytes(field(raw, POSITION)),
        }
    }

    /// Both numbers begin at 0 or above and rise from entry to entry (`OffsetIndex.append`).
    fn rises(previous: Option<&[u8; SIZE]>, raw: &[u8; SIZE], base_offset: i64) -> Result<(), Flaw> {
        let numbers =
            |raw| (i32::from_be_bytes(field(raw, RELATIVE_OFFSET)), i32::from_be_bytes(field(raw, POSITION)));
        let (offset, position) = numbers(raw);
        let (last_offset, last_position) = previous.map_or((-1, -1), numbers);
        if offset <= last_offset {
            return Err(Flaw::Index("offset index: an entry's offset does not rise"));
        }
        if position <= last_position {
            return Err(Flaw::Index("offset index: an entry's position does not rise"));
        }
        if base_offset.checked_add(i64::from(offset)).is_none() {
            return Err(Flaw::Index("offset index: an entry's offset is over 2^63 - 1"));
        }
        Ok(())
    }
}

/// Writes an `.index` file.
pub type OffsetIndexBuilder = IndexBuilder<OffsetPosition>;

impl OffsetIndexBuilder {
    /// Adds an entry: the batch at byte `position` of the `.log` ends in `offset`.
    ///
    /// # Errors
    /// [`Flaw::Index`] where offset or position does not rise, or the offset is more than 2^31 − 1 over the base
    /// offset: a segment has to roll before that. Nothing is added then.
    pub fn append(&mut self, offset: i64, position: i32) -> Result<()> {
        let too_far = Flaw::Index("offset index: the offset is too far from the base offset");
        let relative = self.relative(offset, too_far)?;
        let mut raw = [0; SIZE];
        raw[RELATIVE_OFFSET..POSITION].copy_from_slice(&relative.to_be_bytes());
        raw[POSITION..].copy_from_slice(&position.to_be_bytes());
        self.add(&raw)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // A test may panic.
mod tests {
    use super::*;

    fn file(entries: &[(i32, i32)]) -> Vec<u8> {
        entries.iter().flat_map(|(o, p)| [o.to_be_bytes(), p.to_be_bytes()].concat()).collect()
    }

    fn at(offset: i64, position: i32) -> OffsetPosition {
        OffsetPosition { offset, position }
    }

    #[test]
    fn lookup_gives_the_last_entry_at_or_before() {
        let bytes = file(&[(10, 100), (20, 200), (30, 300)]);
        let index = OffsetIndex::new(&bytes, 1000);
        assert_eq!((index.len(), index.flaw()), (3, None));
        assert_eq!(index.lookup(0), at(1000, 0));
        assert_eq!(index.lookup(1009), at(1000, 0));
        assert_eq!(index.lookup(1010), at(1010, 100));
        assert_eq!(index.lookup(1029), at(1020, 200));
        assert_eq!(index.lookup(i64::MAX), at(1030, 300));
        assert_eq!(index.lookup(i64::MIN), at(1000, 0));
        assert_eq!(index.iter().next_back(), Some(at(1030, 300)));
        assert_eq!(index.entry(3), None);
    }

    #[test]
    fn zeros_at_the_end_are_padding() {
        let mut bytes = file(&[(0, 100), (20, 200)]);
        bytes.resize(10 << 20, 0);
        let index = OffsetIndex::new(&bytes, 0);
        assert_eq!((index.len(), index.flaw()), (2, None));
        assert!(OffsetIndex::new(&[0; 80], 7).is_empty());
    }

    #[test]
    fn an_entry_that_does_not_rise_ends_the_view() {
        for (entries, sound) in [
            (&[(10, 100), (10, 200), (30, 300)][..], 1),
            (&[(10, 100), (20, 200), (30, 200)], 2),
            (&[(10, 100), (0, 0), (30, 300)], 1),
            (&[(-1, 5)], 0),
            (&[(1, -5), (2, 7)], 0),
        ] {
            let bytes = file(entries);
            let index = OffsetIndex::new(&bytes, 0);
            assert_eq!(index.len(), sound);
            assert_eq!(index.flaw().map(|e| e.position), Some(sound as u64 * 8), "{entries:?}");
        }
        let bytes = file(&[(1, 5), (9, 9)]);
        assert_eq!(OffsetIndex::new(&bytes, i64::MAX - 5).len(), 1);
    }

    #[test]
    fn bytes_left_over_are_said() {
        let mut bytes = file(&[(10, 100), (20, 200)]);
        bytes.extend([0, 0, 1]);
        let index = OffsetIndex::new(&bytes, 0);
        assert_eq!((index.len(), index.flaw().map(|e| e.position)), (2, Some(16)));
        assert_eq!(index.lookup(25), at(20, 200));
    }

    #[test]
    fn the_builder_refuses_what_a_reader_would() {
        let mut builder = OffsetIndexBuilder::new(100);
        assert!(builder.append(99, 1).is_err());
        builder.append(100, 1).unwrap();
        assert!(builder.append(100, 2).is_err());
        assert!(builder.append(101, 1).is_err());
        assert!(builder.append(101 + i64::from(i32::MAX), 2).is_err());
        assert!(OffsetIndexBuilder::new(i64::MIN).append(i64::MAX, 2).is_err());
        assert_eq!(builder.append(0, 2).unwrap_err().position, 8);
        assert_eq!(builder.into_bytes(), [0, 0, 0, 0, 0, 0, 0, 1]);
    }
}
