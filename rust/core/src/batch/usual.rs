//! Records of v2 of the usual kind, found without a look at each byte's bounds.
//!
//! Numbers are read in words of eight bytes: one look at the end of the batch serves several, and what follows happens
//! in a register. What is unusual (a number of four bytes, the batch's last bytes, whatever is not sound) gives `None`,
//! and is left to `decode.rs`, which alone says what is wrong.

use crate::limits::Limits;

/// Where the parts of a record lie in the records of its batch. A length of −1 is null.
#[derive(Clone, Copy)]
pub(crate) struct Usual {
    pub(crate) attributes: i8,
    pub(crate) timestamp_delta: i64,
    pub(crate) offset_delta: i64,
    pub(crate) key: (usize, i32),
    pub(crate) value: (usize, i32),
    /// Behind their number; they reach to the record's end.
    pub(crate) headers: usize,
    pub(crate) header_count: u32,
    pub(crate) end: usize,
}

/// Eight bytes, read from the lowest on; zeros behind them.
struct Word {
    bits: u64,
    taken: usize,
}

impl Word {
    #[inline(always)]
    fn at(bytes: &[u8], at: usize) -> Option<Self> {
        let bytes = bytes.get(at..)?.first_chunk()?;
        Some(Self { bits: u64::from_le_bytes(*bytes), taken: 0 })
    }

    #[inline(always)]
    const fn byte(&mut self) -> u8 {
        let byte = self.bits as u8;
        self.bits >>= 8;
        self.taken += 1;
        byte
    }

    /// The groups of a number of at most three bytes.
    #[inline(always)]
    const fn number(&mut self) -> Option<u32> {
        let bits = self.bits as u32;
        if bits & 0x80 == 0 {
            self.bits >>= 8;
            self.taken += 1;
            Some(bits & 0x7f)
        } else if bits & 0x8000 == 0 {
            self.bits >>= 16;
            self.taken += 2;
            Some(bits & 0x7f | bits >> 1 & 0x3f80)
        } else if bits & 0x80_0000 == 0 {
            self.bits >>= 24;
            self.taken += 3;
            Some(bits & 0x7f | bits >> 1 & 0x3f80 | bits >> 2 & 0x1f_c000)
        } else {
            None
        }
    }
}

#[inline(always)]
const fn unzigzag(groups: u32) -> i64 {
    ((groups >> 1) as i32 ^ -((groups & 1) as i32)) as i64
}

/// A string whose length's groups are `groups`, at `at`: where it lies, and what is behind it.
#[inline(always)]
const fn string(groups: u32, at: usize) -> ((usize, i32), usize) {
    if groups & 1 == 1 { ((at, -1), at) } else { ((at, (groups >> 1) as i32), at + (groups >> 1) as usize) }
}

/// The record at `at`, if it is of the usual kind and within the limits. All of its parts lie in `records`, one behind
/// the other.
#[inline(always)]
pub(crate) fn usual(records: &[u8], at: usize, limits: &Limits) -> Option<Usual> {
    // Seven bytes at the most.
    let mut word = Word::at(records, at)?;
    let length = word.number()?;
    if length & 1 == 1 {
        return None;
    }
    let length = (length >> 1) as usize;
    let end = at + word.taken + length;
    let attributes = word.byte() as i8;
    let timestamp_delta = unzigzag(word.number()?);
    let at = at + word.taken;
    // Six, but nine where the key is null.
    let mut word = Word::at(records, at)?;
    let offset_delta = unzigzag(word.number()?);
    let groups = word.number()?;
    let (key, mut behind) = string(groups, at + word.taken);
    if groups & 1 == 0 {
        word = Word::at(records, behind)?;
    }
    let before = word.taken;
    let groups = word.number()?;
    if word.taken > size_of::<u64>() {
        return None;
    }
    behind += word.taken - before;
    let (value, behind) = string(groups, behind);
    let (headers, header_count) = match *records.get(behind)? {
        0 => (behind + 1, 0),
        _ => headers(records, behind, end, limits)?,
    };
    let sound =
        (header_count > 0 || headers == end) && end <= records.len() && length as u64 <= limits.record;
    sound.then_some(Usual {
        attributes,
        timestamp_delta,
        offset_delta,
        key,
        value,
        headers,
        header_count,
        end,
    })
}

/// Where the headers begin whose number stands at `at`, and that number, if they end at `end`.
#[inline(never)]
fn headers(records: &[u8], at: usize, end: usize, limits: &Limits) -> Option<(usize, u32)> {
    let mut word = Word::at(records, at)?;
    let groups = word.number()?;
    let (count, begin) = (groups >> 1, at + word.taken);
    // A header takes two bytes at the least.
    if groups & 1 == 1 || u64::from(count) > limits.headers || count as usize > end.checked_sub(begin)? {
        return None;
    }
    let mut at = begin;
    for _ in 0..count {
        let mut word = Word::at(records, at)?;
        let groups = word.number()?;
        if groups & 1 == 1 {
            return None;
        }
        at = string(groups, at + word.taken).1;
        let mut word = Word::at(records, at)?;
        let groups = word.number()?;
        at = string(groups, at + word.taken).1;
    }
    (at == end).then_some((begin, count))
}
