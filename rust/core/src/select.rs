//! Which records are wanted, told as early as an entry's header allows.

mod headers;

use std::ops::Range;
use std::sync::Arc;

use crate::format::HeaderSupport;
use crate::head::Head;
use crate::header::Headers;

pub use headers::{HeaderCondition, HeaderTest};

/// Ranges of offsets and timestamps, conditions on headers, and whether control records are wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection {
    /// Offsets, half-open.
    pub offsets: Range<i64>,
    /// Effective timestamps in milliseconds, half-open. `None` takes records without one as well.
    pub timestamps: Option<Range<i64>>,
    /// Whether control records are handed out; consumers never see them.
    pub control: bool,
    /// What headers must be like: all of these.
    pub headers: Arc<[HeaderCondition]>,
}

impl Default for Selection {
    fn default() -> Self {
        Self { offsets: i64::MIN..i64::MAX, timestamps: None, control: false, headers: Arc::default() }
    }
}

impl Selection {
    /// Whether any record of an entry may be wanted. `false` spares its decompression.
    #[must_use]
    pub fn may_hold(&self, head: &Head) -> bool {
        let bare = head.format.traits().headers == HeaderSupport::No;
        (self.control || !head.is_control())
            && self.overlaps(head)
            && !(bare && self.headers.iter().any(HeaderCondition::needs_headers))
    }

    /// Whether an entry may lie in the ranges. What does not is passed over, its checksum not compared, as a seek
    /// by an index passes it over.
    #[must_use]
    pub fn overlaps(&self, head: &Head) -> bool {
        // A wrapper's base is not known before it is open, but its last offset is. The header of a rewritten
        // batch keeps its original range, which only ever is too wide.
        if head.last_offset < self.offsets.start {
            return false;
        }
        if head.count.is_some() && head.base_offset >= self.offsets.end {
            return false;
        }
        let Some(times) = &self.timestamps else { return true };
        match head.append_time() {
            Some(time) => times.contains(&time),
            // maxTimestamp bounds every record from above; nothing in a header bounds them from below. A
            // wrapper's is set by its producer, as is a batch's, but the broker checks it.
            None => head.max_timestamp >= times.start || head.max_timestamp < 0,
        }
    }

    /// Whether, by its header, each record of a batch is wanted. A header may lie, and does not know of record headers.
    #[must_use]
    pub(crate) fn holds(&self, head: &Head) -> bool {
        let first = head.count.is_some() && head.base_offset >= self.offsets.start;
        let unconditional = self.timestamps.is_none() && self.headers.is_empty();
        unconditional && first && head.last_offset < self.offsets.end
    }

    /// Whether entries may lie outside of the ranges.
    pub(crate) fn is_ranged(&self) -> bool {
        self.timestamps.is_some() || self.offsets != (i64::MIN..i64::MAX)
    }

    /// Whether each record that an entry can hold is wanted, so that none need be asked.
    #[must_use]
    pub fn takes_all(&self) -> bool {
        !self.is_ranged() && self.headers.is_empty()
    }

    /// Whether a record is wanted, by offset and effective timestamp.
    #[inline]
    #[must_use]
    pub fn wants(&self, offset: i64, timestamp: i64) -> bool {
        self.offsets.contains(&offset)
            && self.timestamps.as_ref().is_none_or(|times| times.contains(&timestamp))
    }

    /// Whether a record is wanted, by its headers.
    #[inline]
    #[must_use]
    pub fn wants_headers(&self, headers: Headers<'_>) -> bool {
        self.headers.iter().all(|condition| condition.holds(headers))
    }

    /// Whether any record of an opened entry may be wanted, by a look for what its headers must hold. `false` spares
    /// the records' decoding: whether they are sound is not asked then, beyond the entry's checksum.
    #[must_use]
    pub fn may_occur(&self, bytes: &[u8]) -> bool {
        self.headers.iter().all(|condition| condition.may_occur(bytes))
    }
}
