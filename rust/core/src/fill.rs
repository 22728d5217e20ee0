//! Fills bytes whose place was made before, front to back: the writers' counterpart of [`crate::bytes::Reader`].

/// What is left to fill. Callers measure first, so it never runs out.
#[derive(Debug)]
pub(crate) struct Fill<'a> {
    rest: &'a mut [u8],
}

/// Up to this many bytes are copied without a call.
const SHORT: usize = 32;

impl<'a> Fill<'a> {
    #[inline(always)]
    pub(crate) const fn new(place: &'a mut [u8]) -> Self {
        Self { rest: place }
    }

    /// Bytes left to fill.
    #[inline(always)]
    pub(crate) const fn remaining(&self) -> usize {
        self.rest.len()
    }

    #[inline(always)]
    fn take(&mut self, n: usize) -> &'a mut [u8] {
        let (head, rest) = std::mem::take(&mut self.rest).split_at_mut(n);
        self.rest = rest;
        head
    }

    #[inline(always)]
    pub(crate) fn byte(&mut self, byte: u8) {
        self.take(1)[0] = byte;
    }

    #[inline(always)]
    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        let n = bytes.len();
        let place = self.take(n);
        // Keys, header keys and small values are short: two copies of a fixed size that overlap are several times
        // faster than a call.
        match n {
            0 => {}
            1..4 => {
                place[0] = bytes[0];
                place[n / 2] = bytes[n / 2];
                place[n - 1] = bytes[n - 1];
            }
            4..8 => ends::<4>(place, bytes),
            8..16 => ends::<8>(place, bytes),
            16..=SHORT => ends::<16>(place, bytes),
            _ => place.copy_from_slice(bytes),
        }
    }

    /// The 7-bit groups of [`crate::varint`].
    #[inline(always)]
    fn groups(&mut self, raw: u64) {
        const MORE: u8 = 0x80;
        if raw < 1 << 7 {
            self.byte(raw as u8);
        } else if raw < 1 << 14 {
            self.take(2).copy_from_slice(&[raw as u8 | MORE, (raw >> 7) as u8]);
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

/// Copies `N` to `2 * N` bytes as their first and their last `N`.
#[inline(always)]
fn ends<const N: usize>(place: &mut [u8], bytes: &[u8]) {
    let last = bytes.len() - N;
    place[..N].copy_from_slice(&bytes[..N]);
    place[last..last + N].copy_from_slice(&bytes[last..last + N]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::varint::{write_varint, write_varlong};
    use proptest::prelude::*;

    #[test]
    fn every_short_length() {
        let bytes: Vec<u8> = (1..=100).collect();
        for n in 0..=bytes.len() {
            let mut place = vec![0; n + 1];
            Fill::new(&mut place).bytes(&bytes[..n]);
            assert_eq!((&place[..n], place[n]), (&bytes[..n], 0));
        }
    }

    proptest! {
        #[test]
        fn as_the_other_writers(value: i64, shift in 0..64) {
            let value = value >> shift;
            let mut want = Vec::new();
            write_varlong(value, &mut want);
            write_varint(value as i32, &mut want);
            let mut have = vec![0; want.len()];
            let mut fill = Fill::new(&mut have);
            fill.varlong(value);
            fill.varint(value as i32);
            prop_assert_eq!(fill.remaining(), 0);
            prop_assert_eq!(have, want);
        }
    }
}
