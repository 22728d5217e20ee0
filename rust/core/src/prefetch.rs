//! Tells the processor which bytes come next: a checksum runs at the speed of memory, and the processor's own prefetching
//! stops at every 4 KiB page.

use std::cell::Cell;

/// Bytes of a cache line.
const LINE: usize = 64;

/// Begins to fetch all of `bytes` into the nearest cache.
#[inline(always)]
pub(crate) fn prefetch(bytes: &[u8]) {
    bytes.chunks(LINE).for_each(|line| hint(line.as_ptr()));
}

/// Begins to fetch the line at an address.
#[inline(always)]
#[allow(unsafe_code, reason = "no safe way to prefetch; scan and columns from memory gain 20 to 40 %")]
fn hint(at: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a hint. It reads nothing that the program could see and faults at no address. SSE, which it belongs to,
        // is part of x86-64.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) };
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = at;
}

/// Batches ahead of which a header is fetched, and how far from where it is expected.
const HEADERS: usize = 4;
const SPREAD: usize = 32;

/// Fetches the header of a batch some way behind one that is passed over, if those between are about as large: headers
/// that lie far apart are else waited for one after the other.
#[inline(always)]
pub(crate) fn prefetch_head(window: &[u8], size: usize) {
    let from = size.saturating_mul(HEADERS).saturating_sub(SPREAD);
    let rest = window.get(from..).unwrap_or_default();
    prefetch(rest.get(..2 * SPREAD + LINE).unwrap_or(rest));
}

/// How far a checksum looks ahead, beyond its own batch.
pub(crate) const AHEAD: usize = 8192;
/// Batches over this size would push what is fetched out of the near caches before it is needed.
const LARGEST: usize = 128 << 10;
/// Average length of records under which decoding, not memory, is what takes time.
const SHORT: usize = 32;

thread_local! {
    /// The address up to which a [`Follower`] had bytes fetched last.
    static FETCHED: Cell<usize> = const { Cell::new(0) };
}

/// What a checksum of `length` bytes that begin at the front of `bytes` has to fetch while it runs: from
/// [`AHEAD`] bytes behind its begin to as far behind its end, but for what was fetched before.
#[inline]
pub(crate) fn missing(length: usize, bytes: &[u8]) -> &[u8] {
    let begin = bytes.as_ptr() as usize;
    let fetched = FETCHED.get().wrapping_sub(begin);
    let to = (length + AHEAD).min(bytes.len());
    let from = if fetched <= LARGEST + 2 * AHEAD { fetched.max(AHEAD) } else { AHEAD };
    bytes.get(from..to).unwrap_or_default()
}

/// Has the next batch fetched while this one's records are decoded, so that memory is never idle: as much of it as was
/// decoded.
#[derive(Clone, Copy)]
pub(crate) struct Follower {
    /// As far behind the records' begin as lines are fetched ahead of decoding.
    ahead: *const u8,
    /// Most that is fetched for a record.
    most: usize,
}

impl Follower {
    /// A processor cannot wait for more lines at a time, so longer records leave the next batch to its checksum.
    const MOST: usize = 32 * LINE;

    /// Whether fetching meanwhile pays for `count` records where they lie. `stored` says that they lie in the log.
    #[inline]
    pub(crate) const fn pays(records: &[u8], count: u32, stored: bool) -> bool {
        let (bytes, count) = (records.len(), count as usize);
        let usual = SHORT.saturating_mul(count) <= bytes && bytes <= Self::MOST.saturating_mul(count);
        stored && usual && bytes <= LARGEST
    }

    /// For records where they lie in the log, if it `pays`.
    #[inline(always)]
    pub(crate) const fn new(records: &[u8], pays: bool) -> Self {
        let most = if pays { Self::MOST } else { 0 };
        Self { ahead: records.as_ptr().wrapping_add(records.len() + AHEAD), most }
    }

    /// The record at `from..to` is decoded.
    #[inline(always)]
    pub(crate) fn passed(self, from: usize, to: usize) {
        let to = to.min(from + self.most);
        let mut line = from;
        while line < to {
            hint(self.ahead.wrapping_add(line));
            line += LINE;
        }
    }

    /// The last record, which ends at `to`, is decoded.
    #[inline(always)]
    pub(crate) fn finish(self, to: usize) {
        FETCHED.set((self.ahead as usize).wrapping_add(to));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_fetched_is_not_fetched_again() {
        let log = vec![0; 100_000];
        let (records, next) = (&log[61..10_000], &log[10_000..]);
        FETCHED.set(0);
        let all = missing(20_000, next);
        assert_eq!((all.as_ptr(), all.len()), (next[AHEAD..].as_ptr(), 20_000));

        let follower = Follower::new(records, true);
        (0..records.len()).step_by(100).for_each(|at| follower.passed(at, at + 100));
        follower.finish(records.len());
        let rest = missing(20_000, next);
        assert_eq!(rest.as_ptr_range().end, all.as_ptr_range().end);
        let spared = all.len() - rest.len();
        assert_eq!(spared, records.len());

        // A shorter batch, and one that was reached another way.
        assert!(missing(1000, next).is_empty());
        FETCHED.set(next.as_ptr() as usize - LINE);
        assert_eq!(missing(20_000, next), all);
    }

    #[test]
    fn what_was_decompressed_is_followed_by_nothing_and_short_records_wait_for_no_memory() {
        assert!(Follower::pays(&[0; 3200], 100, true));
        assert!(!Follower::pays(&[0; 3200], 100, false));
        assert!(!Follower::pays(&[0; 3200], 101, true));
        assert!(!Follower::pays(&[0; 10_000], 4, true));
        assert!(!Follower::pays(&vec![0; LARGEST + 1], 100, true));
    }
}
