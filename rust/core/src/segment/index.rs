//! `.index`: where in the segment an offset can be found.
//!
//! ```text
//! entry => relativeOffset int32, position int32          big-endian, 8 bytes
//! ```
//!
//! `relativeOffset` is an offset minus the segment's base offset: the last offset of the batch that begins at
//! byte `position` of the `.log`. There is an entry about every `index.interval.bytes` (4096), none for the
//! batch at position 0. Source: Apache Kafka, `storage` module, class `OffsetIndex`.

use super::entries::{field, position_of, without_padding};
use crate::error::{Error, Flaw, Result};

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

/// A view over the bytes of an `.index` file: its sound entries, from the front.
///
/// Zeros at the end, as a preallocated file has, are no entries and no flaw. Any other entry that does not rise
/// ends the view; [`flaw`](Self::flaw) tells where and why.
#[derive(Clone, Copy, Debug)]
pub struct OffsetIndex<'a> {
    base_offset: i64,
    entries: &'a [[u8; OffsetIndex::ENTRY_SIZE]],
    flaw: Option<Error>,
}

impl<'a> OffsetIndex<'a> {
    /// Bytes of an entry.
    pub const ENTRY_SIZE: usize = POSITION + 4;

    /// Looks over the bytes of an `.index` file once. `base_offset` is the number in its file name.
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
            Flaw::Index("offset index: its size is not a multiple of 8, bytes of an entry are missing")
                .at(end)
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

    /// True where there is no entry, which is sound: a segment of up to 4096 bytes has none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// What is wrong behind the last sound entry, with its byte position in the `.index` file.
    #[must_use]
    pub const fn flaw(&self) -> Option<Error> {
        self.flaw
    }

    /// The entry at `index`, counted from 0.
    #[must_use]
    pub fn entry(&self, index: usize) -> Option<OffsetPosition> {
        self.entries.get(index).map(|raw| decode(raw, self.base_offset))
    }

    /// All sound entries, offsets and positions rising.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = OffsetPosition> + ExactSizeIterator + use<'a> {
        let base_offset = self.base_offset;
        self.entries.iter().map(move |raw| decode(raw, base_offset))
    }

    /// Where to begin reading to find `offset`: the last entry at or before it, else the segment's beginning
    /// (`OffsetIndex.lookup`). The position can lie past the end of a `.log` that was cut: the caller checks.
    #[must_use]
    pub fn lookup(&self, offset: i64) -> OffsetPosition {
        let after = self.entries.partition_point(|raw| decode(raw, self.base_offset).offset <= offset);
        after
            .checked_sub(1)
            .and_then(|slot| self.entry(slot))
            .unwrap_or(OffsetPosition { offset: self.base_offset, position: 0 })
    }
}

/// Only for entries that `rises` has passed: the sum cannot overflow there.
fn decode(raw: &[u8; OffsetIndex::ENTRY_SIZE], base_offset: i64) -> OffsetPosition {
    OffsetPosition {
        offset: base_offset.saturating_add(i64::from(i32::from_be_bytes(field(raw, RELATIVE_OFFSET)))),
        position: i32::from_be_bytes(field(raw, POSITION)),
    }
}

/// Both numbers begin at 0 or above and rise from entry to entry (`OffsetIndex.append`).
fn rises(
    previous: Option<&[u8; OffsetIndex::ENTRY_SIZE]>,
    raw: &[u8; OffsetIndex::ENTRY_SIZE],
    base_offset: i64,
) -> Result<(), Flaw> {
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

/// Writes an `.index` file: as many bytes as it has entries, no padding, as after a roll.
#[derive(Clone, Debug)]
pub struct OffsetIndexBuilder {
    base_offset: i64,
    bytes: Vec<u8>,
}

impl OffsetIndexBuilder {
    /// An empty index of the segment that begins at `base_offset`.
    #[must_use]
    pub const fn new(base_offset: i64) -> Self {
        Self { base_offset, bytes: Vec::new() }
    }

    /// Adds an entry: the batch at byte `position` of the `.log` ends in `offset`.
    ///
    /// # Errors
    /// [`Flaw::Index`] where offset or position does not rise, or the offset is more than 2^31 − 1 over the base
    /// offset: a segment has to roll before that. Nothing is added then.
    pub fn append(&mut self, offset: i64, position: i32) -> Result<()> {
        let at = self.bytes.len() as u64;
        let relative = offset
            .checked_sub(self.base_offset)
            .and_then(|relative| i32::try_from(relative).ok())
            .ok_or(Flaw::Index("offset index: the offset is too far from the base offset").at(at))?;
        let mut raw = [0; OffsetIndex::ENTRY_SIZE];
        raw[RELATIVE_OFFSET..POSITION].copy_from_slice(&relative.to_be_bytes());
        raw[POSITION..].copy_from_slice(&position.to_be_bytes());
        rises(self.bytes.last_chunk(), &raw, self.base_offset).map_err(|flaw| flaw.at(at))?;
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
