//! Transactions (KIP-98): whether a record's was committed, told from files alone.
//!
//! ```text
//! producer 7    data … data  COMMIT  data … data  ABORT  data …            the end
//! spans         └── committed ────┘└── aborted ───────┘└── unknown ─────────┘
//! ```
//! A record's fate is that of the first marker of its producer behind it; epochs don't matter, since a marker may carry
//! a bumped one. So all that has to be known of a log is, for each producer, which stretches of offsets were aborted and
//! which committed; neighbours of one fate are one `Span`. That is what a [`Survey`] gathers, from headers alone.
//!
//! A transaction whose marker is not there is neither: `unknown`. Kafka's consumers stop at the first such record, the
//! *last stable offset*; so does [`Isolation::ReadCommitted`], unless told to go on past it.

mod decide;
mod store;
mod survey;

use std::collections::HashMap;

pub use decide::{Isolation, Judge, Ruling};
pub use survey::{Disagreement, SegmentOf, Survey};

use crate::head::Head;

/// What became of a record's transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TransactionState {
    /// The record is part of no transaction, or it is a marker.
    None,
    /// A commit marker follows.
    Committed,
    /// An abort marker follows, or an index says so of a marker that is lost.
    Aborted,
    /// Nothing tells.
    Unknown,
}

impl TransactionState {
    /// Its name in the column `transactionState`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Committed => "committed",
            Self::Aborted => "aborted",
            Self::Unknown => "unknown",
        }
    }
}

/// A stretch of offsets of one producer whose records share a fate. Both ends belong to it; the last is a marker's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Span {
    from: i64,
    to: i64,
    aborted: bool,
}

/// Where a partition's records stop being decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unstable {
    /// The last stable offset: the first record of the first transaction whose end is not known.
    pub offset: i64,
    /// That transaction's producer.
    pub producer_id: i64,
    /// Records from there on, control records left out.
    pub records: u64,
    /// Bytes of the entries from there on.
    pub bytes: u64,
    /// Whether `records` is only a lower bound: the headers of compressed message sets don't tell their number.
    pub at_least: bool,
    /// Whether damaged bytes lie where the transaction's end may have been.
    pub damaged: bool,
}

/// What is known of all transactions of one partition.
///
/// Memory: 24 bytes for each change between commit and abort of a producer; a producer that never aborts takes one span.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Transactions {
    producers: HashMap<i64, Vec<Span>>,
    unstable: Option<Unstable>,
}

impl Transactions {
    /// What became of the transaction of a batch. One that compaction left empty has nothing to be told of.
    #[must_use]
    pub fn state(&self, head: &Head) -> TransactionState {
        if !head.is_transactional() || head.is_control() || head.count == Some(0) {
            return TransactionState::None;
        }
        self.state_at(head.producer_id, head.base_offset)
    }

    /// What became of a producer's transaction that has a record at `offset`.
    #[must_use]
    pub fn state_at(&self, producer_id: i64, offset: i64) -> TransactionState {
        let spans = self.producers.get(&producer_id).map(Vec::as_slice).unwrap_or_default();
        // Spans don't overlap and rise, so the first that ends behind the offset is the only one that can hold it.
        match spans.get(spans.partition_point(|span| span.to < offset)) {
            Some(span) if span.from <= offset && span.aborted => TransactionState::Aborted,
            Some(span) if span.from <= offset => TransactionState::Committed,
            _ => TransactionState::Unknown,
        }
    }

    /// Where the first transaction begins whose end is not known; `None` where all are decided.
    #[must_use]
    pub const fn unstable(&self) -> Option<&Unstable> {
        self.unstable.as_ref()
    }

    /// The same for a part of the log: only what is needed for offsets `first` to `end` (exclusive).
    #[must_use]
    pub fn within(&self, first: i64, end: i64) -> Self {
        let cut = |spans: &Vec<Span>| -> Vec<Span> {
            let from = spans.partition_point(|span| span.to < first);
            spans[from..].iter().take_while(|span| span.from < end).copied().collect()
        };
        let kept = self.producers.iter().map(|(&id, spans)| (id, cut(spans)));
        Self { producers: kept.filter(|(_, spans)| !spans.is_empty()).collect(), unstable: self.unstable }
    }

    /// Producers of which something is known.
    #[must_use]
    pub fn producers(&self) -> usize {
        self.producers.len()
    }

    /// Stretches of one fate, of all producers.
    #[must_use]
    pub fn spans(&self) -> usize {
        self.producers.values().map(Vec::len).sum()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // A test may panic.
mod tests;
