//! What the three index files share: fixed-size entries, a preallocated tail of zeros, bytes left over; and the two
//! types that the files are read and written by.

use std::marker::PhantomData;

use crate::error::{Error, Flaw, Result};

/// An entry of `N` bytes in an index whose entries rise.
pub trait IndexEntry<const N: usize>: Sized {
    /// What is said of a file whose size is not a multiple of `N`.
    const LEFT_OVER: Flaw;

    /// Called only for entries that `rises` has passed: the sum with the base offset cannot overflow there.
    fn decode(raw: &[u8; N], base_offset: i64) -> Self;

    /// Whether the entry may stand behind the one before.
    ///
    /// # Errors
    /// [`Flaw::Index`] that says what does not rise.
    fn rises(previous: Option<&[u8; N]>, raw: &[u8; N], base_offset: i64) -> Result<(), Flaw>;
}

/// A view over the bytes of an `.index` or `.timeindex` file: its sound entries, from the front.
///
/// Zeros at the end, as a preallocated file has, are no entries and no flaw. Any other entry that does not rise
/// ends the view; [`flaw`](Self::flaw) tells where and why.
#[derive(Clone, Copy, Debug)]
pub struct Index<'a, E, const N: usize> {
    base_offset: i64,
    entries: &'a [[u8; N]],
    flaw: Option<Error>,
    entry: PhantomData<E>,
}

impl<'a, E: IndexEntry<N>, const N: usize> Index<'a, E, N> {
    /// Bytes of an entry.
    pub const ENTRY_SIZE: usize = N;

    /// Looks over the bytes of the file once. `base_offset` is the number in its name.
    #[must_use]
    pub fn new(bytes: &'a [u8], base_offset: i64) -> Self {
        let (whole, rest) = bytes.as_chunks();
        let used = without_padding(whole);
        let mut previous = None;
        for (i, raw) in used.iter().enumerate() {
            if let Err(flaw) = E::rises(previous, raw, base_offset) {
                let flaw = Some(flaw.at(position_of(i, N)));
                return Self { base_offset, entries: &used[..i], flaw, entry: PhantomData };
            }
            previous = Some(raw);
        }
        let flaw = (!rest.is_empty()).then(|| E::LEFT_OVER.at(position_of(whole.len(), N)));
        Self { base_offset, entries: used, flaw, entry: PhantomData }
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

    /// True where there is no entry, which is sound: a segment of up to 4096 bytes has none in its `.index`, and
    /// records without timestamps make none in the `.timeindex`.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// What is wrong behind the last sound entry, with its byte position in the file.
    #[must_use]
    pub const fn flaw(&self) -> Option<Error> {
        self.flaw
    }

    /// The entry at `index`, counted from 0.
    #[must_use]
    pub fn entry(&self, index: usize) -> Option<E> {
        self.entries.get(index).map(|raw| E::decode(raw, self.base_offset))
    }

    /// All sound entries, in the file's order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = E> + ExactSizeIterator + use<'a, E, N> {
        let base_offset = self.base_offset;
        self.entries.iter().map(move |raw| E::decode(raw, base_offset))
    }

    /// The last entry for which `before` holds; it holds for none behind the first for which it does not.
    pub(super) fn last_where(&self, before: impl Fn(E) -> bool) -> Option<E> {
        let after = self.entries.partition_point(|raw| before(E::decode(raw, self.base_offset)));
        after.checked_sub(1).and_then(|slot| self.entry(slot))
    }
}

/// Writes an index file: as many bytes as it has entries, no padding, as after a roll.
#[derive(Clone, Debug)]
pub struct IndexBuilder<E> {
    pub(super) base_offset: i64,
    pub(super) bytes: Vec<u8>,
    entry: PhantomData<E>,
}

impl<E> IndexBuilder<E> {
    /// An empty index of the segment that begins at `base_offset`.
    #[must_use]
    pub const fn new(base_offset: i64) -> Self {
        Self { base_offset, bytes: Vec::new(), entry: PhantomData }
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

    /// An offset as the entry has it.
    pub(super) fn relative(&self, offset: i64, too_far: Flaw) -> Result<i32> {
        let relative = offset.checked_sub(self.base_offset).and_then(|relative| i32::try_from(relative).ok());
        relative.ok_or_else(|| too_far.at(self.bytes.len() as u64))
    }

    /// Adds an entry's bytes where it may stand behind the last one.
    pub(super) fn add<const N: usize>(&mut self, raw: &[u8; N]) -> Result<()>
    where
        E: IndexEntry<N>,
    {
        E::rises(self.bytes.last_chunk(), raw, self.base_offset)
            .map_err(|flaw| flaw.at(self.bytes.len() as u64))?;
        self.bytes.extend_from_slice(raw);
        Ok(())
    }
}

/// `N` bytes of a fixed-size entry at a constant offset.
pub(super) fn field<const N: usize, const M: usize>(entry: &[u8; M], at: usize) -> [u8; N] {
    std::array::from_fn(|i| entry[at + i])
}

/// The entries without the zeros that a preallocated file ends in.
///
/// A broker gives an active segment's index its full size (10 MiB) at once and cuts it when the segment rolls
/// or the broker stops. One lone entry is never padding: no file is preallocated that small, and a record of
/// timestamp 0 at the base offset makes such an entry.
pub(super) fn without_padding<const N: usize>(entries: &[[u8; N]]) -> &[[u8; N]] {
    if entries.len() <= 1 {
        return entries;
    }
    let used = entries.iter().rposition(|entry| *entry != [0; N]).map_or(0, |last| last + 1);
    &entries[..used]
}

/// Byte position of an entry in its file.
pub(super) const fn position_of(index: usize, entry_size: usize) -> u64 {
    index as u64 * entry_size as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn padding_is_the_zeros_at_the_end_only() {
        assert_eq!(without_padding::<2>(&[[0, 0], [0, 1], [0, 0], [0, 0]]), &[[0, 0], [0, 1]]);
        assert!(without_padding::<2>(&[[0, 0], [0, 0]]).is_empty());
        assert_eq!(without_padding::<2>(&[[0, 0]]), &[[0, 0]]);
        assert!(without_padding::<2>(&[]).is_empty());
    }
}
