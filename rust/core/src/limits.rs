//! How much memory and work one piece of input may ask for.

use crate::error::Flaw;

/// What a reader notes of each record, and of each header, besides their bytes: where they lie, and their fixed columns.
const RECORD_COST: u64 = 64;
const HEADER_COST: u64 = 16;
/// So much of that is always allowed, however low the limit for decompressed bytes is.
const LEAST_COST: u64 = 64 << 20;
/// More than that cannot come out of a byte: a record takes four of them at the least (kip82b), a header two.
const MOST_OF_A_BYTE: u64 = 16;

/// Bounds that are checked before memory is taken. The defaults are far above what a broker accepts.
///
/// Millions of tiny records or headers would take many times their bytes, so these are bounded too, by what
/// `decompressed` allows: 64 bytes count for a record of a batch, 16 for a header, and 64 MiB are always allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of one record, or of one uncompressed message.
    pub record: u64,
    /// Bytes of one entry as it is stored.
    pub batch: u64,
    /// Bytes that one batch may decompress to.
    pub decompressed: u64,
    /// Headers of one record.
    pub headers: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { record: 256 << 20, batch: 256 << 20, decompressed: 256 << 20, headers: 1 << 20 }
    }
}

impl Limits {
    #[inline(always)]
    pub(crate) fn record(&self, bytes: usize) -> Result<(), Flaw> {
        within(bytes, self.record, "record")
    }

    #[inline(always)]
    pub(crate) fn headers(&self, count: usize) -> Result<(), Flaw> {
        within(count, self.headers, "headers")
    }

    /// Whether so many bytes may hold more records and headers than are allowed, so that they must be counted.
    #[inline]
    pub(crate) fn must_count(&self, bytes: usize) -> bool {
        (bytes as u64).saturating_mul(MOST_OF_A_BYTE) > self.decompressed.max(LEAST_COST)
    }

    pub(crate) fn counted(&self, records: u64, headers: u64) -> Result<(), Flaw> {
        let limit = self.decompressed.max(LEAST_COST);
        let cost = records.saturating_mul(RECORD_COST).saturating_add(headers.saturating_mul(HEADER_COST));
        if cost > limit {
            return Err(Flaw::Limit { what: "records and headers of a batch", limit });
        }
        Ok(())
    }

    pub(crate) fn batch(&self, bytes: u64) -> Result<(), Flaw> {
        if bytes > self.batch {
            return Err(Flaw::Limit { what: "batch", limit: self.batch });
        }
        Ok(())
    }
}

#[inline(always)]
fn within(have: usize, limit: u64, what: &'static str) -> Result<(), Flaw> {
    if have as u64 > limit {
        return Err(Flaw::Limit { what, limit });
    }
    Ok(())
}
