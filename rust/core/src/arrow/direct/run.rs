//! Sound records of v2, parsed and written in one loop without a look at each byte's bounds.
//!
//! One check a record makes this sound: it ends [`BEHIND`] bytes before the batch does, so that no move of constant
//! size leaves the batch, as long as each string ends within its record. Whatever is unusual (a number of four bytes,
//! the last record, a record that is not sound) is left to `batch::decode`, which alone says what is wrong with it.

use super::{LONG, PIECE, Pen, Pens, RECORD, Tip, Tips};
use crate::arrow::builder::Origin;
use crate::arrow::cells::INLINE;
use crate::codec::Codec;
use crate::head::Head;
use crate::limits::Limits;
use crate::prefetch::Follower;

/// A record's numbers may reach this far behind its end before that is seen, and a move `PIECE` further.
const BEHIND: usize = PIECE + 16;

/// See [`crate::record::Sink::run`].
#[inline]
pub(super) fn run<const STRINGS: bool, const HEADERS: bool, const VIEWS: bool>(
    pens: &Pens,
    tips: &mut Tips,
    head: &Head,
    limits: &Limits,
    records: &[u8],
    count: u32,
) -> (u32, usize) {
    if Follower::pays(records, count, head.codec_id() == Codec::None.id()) {
        best::<STRINGS, HEADERS, VIEWS, true>(pens, tips, head, limits, records, count)
    } else {
        best::<STRINGS, HEADERS, VIEWS, false>(pens, tips, head, limits, records, count)
    }
}

/// `FOLLOWED` says that the next batch is fetched meanwhile.
#[inline]
fn best<const STRINGS: bool, const HEADERS: bool, const VIEWS: bool, const FOLLOWED: bool>(
    pens: &Pens,
    tips: &mut Tips,
    head: &Head,
    limits: &Limits,
    records: &[u8],
    count: u32,
) -> (u32, usize) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if std::is_x86_feature_detected!("avx2") && std::is_x86_feature_detected!("bmi2") {
        // SAFETY: the processor has both.
        return unsafe {
            wide::<STRINGS, HEADERS, VIEWS, FOLLOWED>(pens, tips, head, limits, records, count)
        };
    }
    any::<STRINGS, HEADERS, VIEWS, FOLLOWED>(pens, tips, head, limits, records, count)
}

/// Moves of 32 bytes are one here.
///
/// # Safety
/// The processor must have AVX2 and BMI2.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[target_feature(enable = "avx2,bmi2")]
unsafe fn wide<const STRINGS: bool, const HEADERS: bool, const VIEWS: bool, const FOLLOWED: bool>(
    pens: &Pens,
    tips: &mut Tips,
    head: &Head,
    limits: &Limits,
    records: &[u8],
    count: u32,
) -> (u32, usize) {
    any::<STRINGS, HEADERS, VIEWS, FOLLOWED>(pens, tips, head, limits, records, count)
}

#[inline(always)]
fn any<const STRINGS: bool, const HEADERS: bool, const VIEWS: bool, const FOLLOWED: bool>(
    pens: &Pens,
    tips: &mut Tips,
    head: &Head,
    limits: &Limits,
    records: &[u8],
    count: u32,
) -> (u32, usize) {
    let (pens, mut own) = (*pens, *tips);
    // One look at the budget for all: they cost no more than three times their bytes, see `RECORD`.
    let is_paid = records.len().saturating_add(RECORD.saturating_mul(count as usize)) <= own.budget;
    let paid = if is_paid { records.len() } else { records.len().min(own.budget / 3) };
    let Some(room) = paid.checked_sub(BEHIND).filter(|_| paid as u64 <= limits.record) else { return (0, 0) };
    let follower = Follower::new(records, FOLLOWED);
    let from = records.as_ptr();
    // The last place where a record may begin, and the last one's end.
    let last = from.wrapping_add(room);
    let (mut done, mut at) = (0, from);
    while done < count {
        // SAFETY: there are `BEHIND` bytes from `at` on: at first by the lines above, then because each record sees to it.
        // All records together cost no more than the budget.
        let next = unsafe { one::<STRINGS, HEADERS, VIEWS>(&pens, own, head, limits, at, last) };
        let Some((end, tips)) = next else { break };
        if FOLLOWED {
            follower.passed(at as usize - from as usize, end as usize - from as usize);
        }
        (at, own) = (end, tips);
        done += 1;
    }
    let size = at as usize - from as usize;
    if FOLLOWED {
        follower.finish(size);
    }
    own.budget -= size + RECORD * done as usize;
    *tips = own;
    (done, size)
}

/// The record at `at`: where it ends, and how far the columns are then.
///
/// # Safety
/// `BEHIND` bytes must be readable from `last` on, where `at` is at the most, and the columns must have room for a record
/// of all bytes up to there.
#[inline(always)]
unsafe fn one<const STRINGS: bool, const HEADERS: bool, const VIEWS: bool>(
    pens: &Pens,
    mut tips: Tips,
    head: &Head,
    limits: &Limits,
    mut at: *const u8,
    last: *const u8,
) -> Option<(*const u8, Tips)> {
    // SAFETY: `at` is at most 16 bytes behind `end` where a number is read: one byte of attributes and five numbers of
    // at most three. Each string brings it back to `end` at the most. The batch has `BEHIND` bytes behind `end`. All
    // strings together are no longer than the record, and there are no more than half as many headers as it has
    // bytes: what the caller paid is room for them in each column.
    unsafe {
        let length = number(&mut at)?;
        let end = at.wrapping_add(length >> 1);
        if length & 1 == 1 || end > last {
            return None;
        }
        // Attributes say nothing.
        at = at.wrapping_add(1);
        let row = tips.row;
        let timestamp = head.base_timestamp.wrapping_add(unzigzag(number(&mut at)?));
        pens.timestamps.wrapping_add(row).write(timestamp);
        let offset = head.base_offset.wrapping_add(unzigzag(number(&mut at)?));
        pens.offsets.wrapping_add(row).write(offset);
        string::<STRINGS, VIEWS>(&pens.key, (row, pens.row), &mut tips.key, &mut at, end, pens.origin)?;
        string::<STRINGS, VIEWS>(&pens.value, (row, pens.row), &mut tips.value, &mut at, end, pens.origin)?;
        if HEADERS {
            pens.list_ends.wrapping_add(row).write(tips.header as i32);
        }
        let count = number(&mut at)?;
        if count > 0 {
            if count & 1 == 1 || at.wrapping_add(count >> 1) > end || limits.headers(count >> 1).is_err() {
                return None;
            }
            for _ in 0..count >> 1 {
                let length = number(&mut at)?;
                if length & 1 == 1 || at.wrapping_add(length >> 1) > end {
                    return None;
                }
                let length = length >> 1;
                if HEADERS && VIEWS {
                    pens.header_key.view(tips.header, view(pens.origin, at, length));
                } else if HEADERS {
                    copy(at, pens.header_key.data.wrapping_add(tips.header_key.filled), length);
                    tips.header_key.filled += length;
                    pens.header_key.end(tips.header, tips.header_key.filled);
                }
                at = at.wrapping_add(length);
                let place = (tips.header, pens.header);
                string::<HEADERS, VIEWS>(
                    &pens.header_value,
                    place,
                    &mut tips.header_value,
                    &mut at,
                    end,
                    pens.origin,
                )?;
                tips.header += 1;
            }
        }
        tips.row = row + 1;
        (at == end).then_some((end, tips))
    }
}

/// Reads a string that may be null, and writes it if it is `WANTED`; `rows` are its own and where the pen began.
///
/// # Safety
/// Three bytes must be readable at `at` and `PIECE` behind `end`; the pen must have room for the row and its string.
#[inline(always)]
unsafe fn string<const WANTED: bool, const VIEWS: bool>(
    pen: &Pen,
    rows: (usize, usize),
    tip: &mut Tip,
    at: &mut *const u8,
    end: *const u8,
    origin: Origin,
) -> Option<()> {
    // SAFETY: the caller's; the string ends before `end`.
    unsafe {
        let length = number(at)?;
        if length & 1 == 1 {
            if WANTED {
                pen.null::<VIEWS>(rows.0, rows.1, tip);
            }
            return Some(());
        }
        let length = length >> 1;
        if at.wrapping_add(length) > end {
            return None;
        }
        if WANTED && VIEWS {
            pen.view(rows.0, view(origin, *at, length));
        } else if WANTED {
            copy(*at, pen.data.wrapping_add(tip.filled), length);
            tip.filled += length;
            pen.end(rows.0, tip.filled);
        }
        *at = at.wrapping_add(length);
        Some(())
    }
}

/// The view of `length` bytes.
///
/// # Safety
/// Sixteen bytes must be readable at `from`, whatever the length.
#[inline(always)]
unsafe fn view(origin: Origin, from: *const u8, length: usize) -> u128 {
    // SAFETY: the caller's.
    let bytes = u128::from_le(unsafe { from.cast::<u128>().read_unaligned() });
    if length <= INLINE {
        // Up to 96 bits, so the shift is in range.
        let own = bytes & ((1 << (8 * length)) - 1);
        length as u128 | own << 32
    } else {
        origin.long(length, bytes as u32, from as usize)
    }
}

/// The groups of a varint of up to three bytes.
///
/// # Safety
/// Three bytes must be readable at `at`.
#[inline(always)]
unsafe fn number(at: &mut *const u8) -> Option<usize> {
    // SAFETY: the caller's.
    let byte = |n: usize| usize::from(unsafe { at.wrapping_add(n).read() });
    let (bytes, value) = match byte(0) {
        first @ ..0x80 => (1, first),
        first => match byte(1) {
            second @ ..0x80 => (2, first - 0x80 + (second << 7)),
            second => match byte(2) {
                third @ ..0x80 => (3, first - 0x80 + ((second - 0x80) << 7) + (third << 14)),
                _ => return None,
            },
        },
    };
    *at = at.wrapping_add(bytes);
    Some(value)
}

const fn unzigzag(raw: usize) -> i64 {
    (raw >> 1) as i64 ^ -((raw & 1) as i64)
}

/// Copies `length` bytes and perhaps up to `PIECE` behind them.
///
/// # Safety
/// Both sides must have room for `PIECE` bytes more than `length`.
#[inline(always)]
unsafe fn copy(from: *const u8, to: *mut u8, length: usize) {
    // SAFETY: each move stays within `length.max(PIECE)` bytes.
    unsafe {
        if length <= PIECE {
            std::ptr::copy_nonoverlapping(from, to, PIECE);
        } else if length > LONG && length <= 2 * LONG {
            let last = length - LONG;
            let (first, last) = ((from, to), (from.wrapping_add(last), to.wrapping_add(last)));
            std::ptr::copy_nonoverlapping(first.0, first.1, LONG);
            std::ptr::copy_nonoverlapping(last.0, last.1, LONG);
        } else {
            std::ptr::copy_nonoverlapping(from, to, length);
        }
    }
}
