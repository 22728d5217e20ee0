//! Tells the processor which bytes come next. The one `unsafe` of the core, for what it brings: a checksum runs at the
//! speed of memory, and its own prefetching stops at every 4 KiB page.

/// Bytes of a cache line.
const LINE: usize = 64;

/// Begins to fetch all of `bytes` into the nearest cache.
#[inline(always)]
#[allow(unsafe_code, reason = "no safe way to prefetch; scan and columns from memory gain 20 to 40 %")]
pub(crate) fn prefetch(bytes: &[u8]) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    for line in bytes.chunks(LINE) {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a hint. It reads nothing that the program could see and faults at no address; this one is of a byte
        // of `bytes`. SSE, which it belongs to, is part of x86-64.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(line.as_ptr().cast()) };
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = bytes;
}
