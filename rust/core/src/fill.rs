//! Fills bytes whose place was made before, front to back: the writers' counterpart of [`crate::bytes::Reader`].

/// A place that is filled front to back. Callers measure first, so it never runs out.
///
/// Behind the end stand [`SLACK`] bytes more that may be written over: a varint goes in as one word, whatever its width.
#[derive(Debug)]
pub(crate) struct Fill<'a> {
    place: &'a mut [u8],
    at: usize,
}

/// Bytes that a place has behind its end.
pub(crate) const SLACK: usize = 8;

impl<'a> Fill<'a> {
    /// Begins at `at`.
    #[inline(always)]
    pub(crate) const fn new(place: &'a mut [u8], at: usize) -> Self {
        Self { place, at }
    }

    /// Where the filled bytes end.
    #[inline(always)]
    pub(crate) const fn at(&self) -> usize {
        self.at
    }

    /// The first `n` bytes of a little-endian word, at most eight.
    #[inline(always)]
    fn word(&mut self, word: u64, n: usize) {
        self.place[self.at..self.at + SLACK].copy_from_slice(&word.to_le_bytes());
        self.at += n;
    }

    #[inline(always)]
    pub(crate) fn byte(&mut self, byte: u8) {
        self.place[self.at] = byte;
        self.at += 1;
    }

    #[inline(always)]
    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        let n = bytes.len();
        // Fixed-size copies chosen by length were slower than this call: their branches are mispredicted.
        self.place[self.at..self.at + n].copy_from_slice(bytes);
        self.at += n;
    }

    /// The 7-bit groups of [`crate::varint`].
    #[inline(always)]
    fn groups(&mut self, raw: u64) {
        const MORE: u64 = 0x80;
        if raw < 1 << 7 {
            self.byte(raw as u8);
        } else if raw < 1 << 14 {
            self.word(raw & 0x7f | MORE | raw >> 7 << 8, 2);
        } else {
            self.long_groups(raw);
        }
    }

    #[inline(never)]
    fn long_groups(&mut self, mut raw: u64) {
        while raw >= 0x80 {
            self.byte(raw as u8 | 0x80);
            raw >>= 7;
        }
        self.byte(raw as u8);
    }

    /// An int32 in its shortest form.
    #[inline(always)]
    pub(crate) fn varint(&mut self, value: i32) {
        self.groups(u64::from(((value << 1) ^ (value >> 31)) as u32));
    }

    /// An int64 in its shortest form.
    #[inline(always)]
    pub(crate) fn varlong(&mut self, value: i64) {
        self.groups(((value << 1) ^ (value >> 63)) as u64);
    }

    /// varint length and bytes; −1 for null.
    #[inline(always)]
    pub(crate) fn nullable(&mut self, bytes: Option<&[u8]>) {
        match bytes {
            Some(bytes) => {
                self.varint(bytes.len() as i32);
                self.bytes(bytes);
            }
            None => self.varint(-1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::varint::{write_varint, write_varlong};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn as_the_other_writers(value: i64, shift in 0..64) {
            let value = value >> shift;
            let mut want = Vec::new();
            write_varlong(value, &mut want);
            write_varint(value as i32, &mut want);
            let mut have = vec![0; want.len() + SLACK];
            let mut fill = Fill::new(&mut have, 0);
            fill.varlong(value);
            fill.varint(value as i32);
            prop_assert_eq!(fill.at(), want.len());
            prop_assert_eq!(&have[..want.len()], want);
        }
    }
}
