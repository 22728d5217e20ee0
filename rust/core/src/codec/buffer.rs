//! A byte buffer that is used again for every batch.

use std::fmt;
use std::ops::Deref;

/// Bytes that a decompressor filled, in memory that outlives them.
///
/// The memory stays initialised up to its high-water mark, so a batch that needs no more than an earlier
/// one costs neither an allocation nor zeroing.
#[derive(Default)]
pub struct Buffer {
    /// Initialised memory; what lies beyond `filled` is scratch.
    bytes: Vec<u8>,
    filled: usize,
}

impl Buffer {
    /// An empty buffer without memory.
    #[must_use]
    pub const fn new() -> Self {
        Self { bytes: Vec::new(), filled: 0 }
    }

    /// A buffer over memory that is there already; what it holds is scratch.
    #[must_use]
    pub const fn from_vec(scratch: Vec<u8>) -> Self {
        Self { bytes: scratch, filled: 0 }
    }

    /// The filled bytes, with the memory they lie in.
    #[must_use]
    pub fn into_vec(mut self) -> Vec<u8> {
        self.bytes.truncate(self.filled);
        self.bytes
    }

    /// All memory, and how many bytes of it are filled.
    #[cfg(feature = "arrow")]
    pub(crate) fn into_parts(self) -> (Vec<u8>, usize) {
        (self.bytes, self.filled)
    }

    /// Cuts back to `len` filled bytes.
    #[cfg(feature = "arrow")]
    pub(crate) fn truncate(&mut self, len: usize) {
        self.filled = self.filled.min(len);
    }

    /// The filled bytes.
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.filled]
    }

    /// How many bytes are filled.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.filled
    }

    /// Whether no byte is filled.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.filled == 0
    }

    /// Forgets the bytes and keeps the memory.
    pub const fn clear(&mut self) {
        self.filled = 0;
    }

    /// Bytes of memory held.
    #[must_use]
    pub const fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// Gives memory back where more than `bytes` is held; filled bytes always stay.
    pub fn shrink_to(&mut self, bytes: usize) {
        if self.bytes.capacity() > bytes {
            self.bytes.truncate(bytes.max(self.filled));
            self.bytes.shrink_to_fit();
        }
    }

    /// Appends `bytes`.
    pub fn extend_from_slice(&mut self, bytes: &[u8]) {
        let end = self.filled + bytes.len();
        self.room(bytes.len(), end)[..bytes.len()].copy_from_slice(bytes);
        self.filled = end;
    }

    /// All memory behind the filled bytes, at least `want` bytes of it, but none beyond `limit` bytes in all.
    ///
    /// Grows by doubling, so that a caller who asks for a little at a time copies each byte only a few times.
    pub(crate) fn room(&mut self, want: usize, limit: usize) -> &mut [u8] {
        let need = self.filled.saturating_add(want).min(limit);
        if self.bytes.len() < need {
            let grown = need.max(self.bytes.len().saturating_mul(2)).min(limit);
            self.bytes.reserve_exact(grown - self.bytes.len());
            self.bytes.resize(grown, 0);
        }
        let end = self.bytes.len().min(limit).max(self.filled);
        &mut self.bytes[self.filled..end]
    }

    /// Counts `bytes` of the room as filled.
    pub(crate) fn advance(&mut self, bytes: usize) {
        self.filled = (self.filled + bytes).min(self.bytes.len());
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.as_slice()
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        self.as_slice()
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({} of {} bytes)", self.filled, self.bytes.capacity())
    }
}
