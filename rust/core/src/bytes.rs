//! A cursor over borrowed bytes: the one place of the core that checks bounds.

/// Reads big-endian fields and slices from the front of borrowed bytes. Every method leaves the cursor where it
/// was when it returns `None`.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// A cursor at the start of `bytes`.
    #[inline(always)]
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// The bytes not yet read.
    #[inline(always)]
    #[must_use]
    pub const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// How many bytes are left.
    #[inline(always)]
    #[must_use]
    pub const fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// Whether nothing is left.
    #[inline(always)]
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Goes on behind what a caller has parsed out of [`Reader::rest`] by itself.
    #[inline(always)]
    pub(crate) const fn set_rest(&mut self, rest: &'a [u8]) {
        self.rest = rest;
    }

    /// The next `n` bytes.
    #[inline(always)]
    pub const fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        match self.rest.split_at_checked(n) {
            Some((head, rest)) => {
                self.rest = rest;
                Some(head)
            }
            None => None,
        }
    }

    /// The next `N` bytes as an array.
    #[inline(always)]
    pub const fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        match self.rest.split_first_chunk::<N>() {
            Some((head, rest)) => {
                self.rest = rest;
                Some(*head)
            }
            None => None,
        }
    }

    /// int8.
    #[inline(always)]
    pub fn i8(&mut self) -> Option<i8> {
        self.array().map(i8::from_be_bytes)
    }

    /// int16.
    #[inline(always)]
    pub fn i16(&mut self) -> Option<i16> {
        self.array().map(i16::from_be_bytes)
    }

    /// int32.
    #[inline(always)]
    pub fn i32(&mut self) -> Option<i32> {
        self.array().map(i32::from_be_bytes)
    }

    /// uint32.
    #[inline(always)]
    pub fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    /// int64.
    #[inline(always)]
    pub fn i64(&mut self) -> Option<i64> {
        self.array().map(i64::from_be_bytes)
    }
}

/// `N` bytes of a header at a fixed place. For offset chains that were checked to be there as a whole.
#[inline(always)]
pub(crate) fn field<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk::<N>().copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_that_does_not_fit_moves_nothing() {
        let mut r = Reader::new(&[1, 2, 3]);
        assert_eq!(r.i32(), None);
        assert_eq!(r.take(4), None);
        assert_eq!(r.i16(), Some(0x0102));
        assert_eq!(r.remaining(), 1);
        assert_eq!(r.i8(), Some(3));
        assert!(r.is_empty());
    }
}
