//! A validity bitmap that grows bit by bit and can be cut back.

use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer};

/// Bits, least significant first, as Arrow has them. The last, unfinished word is kept apart.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bitmap {
    words: Vec<u64>,
    open: u64,
    len: usize,
    unset: usize,
}

impl Bitmap {
    #[inline(always)]
    pub(crate) fn push(&mut self, bit: bool) {
        self.open |= u64::from(bit) << (self.len & 63);
        self.unset += usize::from(!bit);
        self.len += 1;
        if self.len & 63 == 0 {
            self.words.push(self.open);
            self.open = 0;
        }
    }

    /// Cuts back to `len` bits.
    pub(crate) fn truncate(&mut self, len: usize) {
        if len >= self.len {
            return;
        }
        let whole = len / 64;
        let last = self.words.get(whole).copied().unwrap_or(self.open);
        self.words.truncate(whole);
        self.open = last & ((1u64 << (len & 63)) - 1);
        self.len = len;
        let set: u32 = self.words.iter().map(|word| word.count_ones()).sum::<u32>() + self.open.count_ones();
        self.unset = len - set as usize;
    }

    /// Takes all bits out. The memory is Arrow's from here on: it is a 64th of the smallest column.
    pub(crate) fn take(&mut self) -> BooleanBuffer {
        let mut words = std::mem::take(&mut self.words);
        if self.len & 63 != 0 {
            words.push(self.open);
        }
        let len = std::mem::take(&mut self.len);
        (self.open, self.unset) = (0, 0);
        if cfg!(target_endian = "big") {
            words.iter_mut().for_each(|word| *word = word.to_le());
        }
        BooleanBuffer::new(Buffer::from_vec(words), 0, len)
    }

    /// Takes all bits out as validity; `None` where all are set, which Arrow reads as no nulls.
    pub(crate) fn take_validity(&mut self) -> Option<NullBuffer> {
        if self.unset == 0 {
            *self = Self { words: std::mem::take(&mut self.words), ..Self::default() };
            self.words.clear();
            return None;
        }
        Some(NullBuffer::new(self.take()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn is_a_list_of_bits(bits: Vec<bool>, cut in 0usize..300, more: Vec<bool>) {
            let (mut map, mut model) = (Bitmap::default(), bits.clone());
            bits.iter().for_each(|&bit| map.push(bit));
            map.truncate(cut);
            model.truncate(cut);
            more.iter().for_each(|&bit| map.push(bit));
            model.extend(&more);
            prop_assert_eq!(map.len, model.len());
            let nulls = model.iter().filter(|bit| !**bit).count();
            prop_assert_eq!(map.unset, nulls);
            match map.take_validity() {
                None => prop_assert_eq!(nulls, 0),
                Some(validity) => prop_assert_eq!(validity.iter().collect::<Vec<_>>(), model),
            }
            prop_assert_eq!(map.len, 0);
        }
    }
}
