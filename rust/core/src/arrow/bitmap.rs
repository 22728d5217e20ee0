//! A validity bitmap that grows and can be cut back. It takes no memory until a bit is unset: most columns have no
//! nulls.

use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer};

const WORD: usize = u64::BITS as usize;

/// Bits, least significant first, as Arrow has them. The last, unfinished word is kept apart.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bitmap {
    /// Empty, as is `open`, while all bits are set.
    words: Vec<u64>,
    open: u64,
    len: usize,
    unset: usize,
}

impl Bitmap {
    #[inline]
    pub(crate) fn push(&mut self, bit: bool) {
        self.extend_run(bit, 1);
    }

    /// Appends the same bit so many times.
    pub(crate) fn extend_run(&mut self, bit: bool, count: usize) {
        if bit && self.unset == 0 {
            self.len += count;
            return;
        }
        self.materialise();
        self.unset += if bit { 0 } else { count };
        let mut left = count;
        while left > 0 {
            let at = self.len % WORD;
            let part = left.min(WORD - at);
            if bit {
                self.open |= low_bits(part) << at;
            }
            self.advance(part);
            left -= part;
        }
    }

    /// Appends bits.
    pub(crate) fn extend(&mut self, bits: impl Iterator<Item = bool>) {
        self.materialise();
        for bit in bits {
            self.open |= u64::from(bit) << (self.len % WORD);
            self.unset += usize::from(!bit);
            self.advance(1);
        }
        self.settle();
    }

    /// Counts bits of the open word that do not go beyond it.
    #[inline(always)]
    fn advance(&mut self, bits: usize) {
        self.len += bits;
        if self.len.is_multiple_of(WORD) {
            self.words.push(self.open);
            self.open = 0;
        }
    }

    fn materialise(&mut self) {
        if self.unset == 0 {
            self.words.resize(self.len / WORD, u64::MAX);
            self.open = low_bits(self.len % WORD);
        }
    }

    fn settle(&mut self) {
        if self.unset == 0 {
            self.words.clear();
            self.open = 0;
        }
    }

    /// Cuts back to `len` bits.
    pub(crate) fn truncate(&mut self, len: usize) {
        if len >= self.len {
            return;
        }
        if self.unset > 0 {
            let whole = len / WORD;
            let last = self.words.get(whole).copied().unwrap_or(self.open);
            self.words.truncate(whole);
            self.open = last & low_bits(len % WORD);
            let set =
                self.words.iter().chain([&self.open]).map(|word| word.count_ones() as usize).sum::<usize>();
            self.unset = len - set;
        }
        self.len = len;
        self.settle();
    }

    /// Takes all bits out.
    pub(crate) fn take(&mut self) -> BooleanBuffer {
        self.materialise();
        let Self { mut words, open, len, .. } = std::mem::take(self);
        if len % WORD != 0 {
            words.push(open);
        }
        if cfg!(target_endian = "big") {
            words.iter_mut().for_each(|word| *word = word.to_le());
        }
        BooleanBuffer::new(Buffer::from_vec(words), 0, len)
    }

    /// Takes all bits out as validity; `None` where all are set, which Arrow reads as no nulls.
    pub(crate) fn take_validity(&mut self) -> Option<NullBuffer> {
        if self.unset == 0 {
            self.len = 0;
            return None;
        }
        Some(NullBuffer::new(self.take()))
    }
}

/// A word whose lowest `count` bits are set.
#[inline(always)]
const fn low_bits(count: usize) -> u64 {
    if count >= WORD { u64::MAX } else { (1 << count) - 1 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn is_a_list_of_bits(
            bits: Vec<bool>,
            run in (any::<bool>(), 0usize..200),
            cut in 0usize..400,
            more: Vec<bool>,
            one: bool,
        ) {
            let (mut map, mut model) = (Bitmap::default(), bits.clone());
            bits.iter().for_each(|&bit| map.push(bit));
            map.extend_run(run.0, run.1);
            model.extend(std::iter::repeat_n(run.0, run.1));
            map.truncate(cut);
            model.truncate(cut);
            map.extend(more.iter().copied());
            model.extend(&more);
            map.push(one);
            model.push(one);
            prop_assert_eq!(map.len, model.len());
            let nulls = model.iter().filter(|bit| !**bit).count();
            prop_assert_eq!(map.unset, nulls);
            let data = map.clone().take();
            prop_assert_eq!(data.iter().collect::<Vec<_>>(), model.clone());
            match map.take_validity() {
                None => prop_assert_eq!(nulls, 0),
                Some(validity) => prop_assert_eq!(validity.iter().collect::<Vec<_>>(), model),
            }
            prop_assert_eq!(map.len, 0);
        }
    }
}
