//! How much memory and work one piece of input may ask for.

use crate::error::Flaw;

/// Bounds that are checked before memory is taken. The defaults are far above what a broker accepts.
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
