//! The borrowed record that every format yields, and how a batch's records reach whoever wants them.

use crate::head::{Head, TimestampType};
use crate::header::Headers;
use crate::limits::Limits;

/// One record, its parts borrowed from the log or from the decompressed batch.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// Absolute offset in the partition.
    pub offset: i64,
    /// The stored timestamp in milliseconds since the epoch, −1 for none. Under LogAppendTime a consumer sees the
    /// batch's append time instead: [`crate::Head::effective_timestamp`].
    pub timestamp: i64,
    /// Whether the record has no timestamp of any type, although its batch has: a v0 message in a later wrapper.
    pub untimed: bool,
    /// The record's own attributes byte (v2, v3; reserved, 0) or the message's (message sets).
    pub attributes: i8,
    /// `None` is null.
    pub key: Option<&'a [u8]>,
    /// `None` is null: a tombstone wherever the format has no flag for it.
    pub value: Option<&'a [u8]>,
    /// KIP-87's flag; `None` in the formats that have none.
    pub tombstone: Option<bool>,
    /// In order.
    pub headers: Headers<'a>,
    /// Bytes that the record takes in its format, length field included.
    pub size: usize,
}

impl Record<'_> {
    /// What a consumer sees as this record's timestamp, its batch's header being `head`.
    #[inline(always)]
    #[must_use]
    pub const fn effective_timestamp(&self, head: &Head) -> i64 {
        if self.untimed { -1 } else { head.effective_timestamp(self.timestamp) }
    }

    /// And its type.
    #[inline(always)]
    #[must_use]
    pub const fn timestamp_type(&self, head: &Head) -> TimestampType {
        if self.untimed { TimestampType::None } else { head.timestamp_type }
    }
}

/// Takes the records of a batch as they are decoded, in one pass over the bytes and without a copy.
///
/// For each record comes one call of [`Sink::record`], then, where that returned `true`, one of [`Sink::header`] a
/// header. When decoding fails in the middle, the sink has seen the records before the flaw and perhaps a part of
/// the one that is at fault: whoever drives it takes that back ([`Sink::discard`]).
pub trait Sink<'a> {
    /// A record whose headers are still to come. Returns whether it wants them one by one.
    fn record(&mut self, record: &Record<'a>) -> bool;

    /// A header of the record before.
    fn header(&mut self, key: &'a [u8], value: Option<&'a [u8]>);

    /// The record that came last is not sound after all: forget it.
    fn discard(&mut self) {}

    /// Whether [`Sink::run`] does anything.
    #[doc(hidden)]
    const RUNS: bool = false;

    /// Decodes records of v2 by itself, up to `count` of those at the front of `records`, as far as they are sound and
    /// of the usual kind. Returns how many that were, and their bytes; the decoder goes on behind them.
    #[doc(hidden)]
    #[inline(always)]
    fn run(&mut self, _head: &Head, _limits: &Limits, _records: &'a [u8], _count: u32) -> (u32, usize) {
        (0, 0)
    }
}
