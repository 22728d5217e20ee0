//! What a reader does with a batch, by its transaction.

use std::sync::Arc;

use super::{TransactionState, Transactions, Unstable};
use crate::head::Head;

/// Kafka's `isolation.level`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Isolation {
    /// Every record.
    #[default]
    ReadUncommitted,
    /// Only records of committed transactions, and of none.
    ReadCommitted,
}

impl Isolation {
    /// By Kafka's name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "read_uncommitted" => Self::ReadUncommitted,
            "read_committed" => Self::ReadCommitted,
            _ => return None,
        })
    }
}

/// What to do with a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ruling {
    /// Read it.
    Take(TransactionState),
    /// Pass over it.
    LeaveOut,
    /// The partition ends here for this reader.
    Stop,
}

/// Rules on the batches of one partition.
#[derive(Clone, Debug)]
pub struct Judge {
    /// What is known of the partition.
    pub transactions: Arc<Transactions>,
    /// What is wanted.
    pub isolation: Isolation,
    /// Whether `read_committed` goes on behind the last stable offset and leaves only unknown ones out.
    pub past_lso: bool,
}

impl Judge {
    /// What to do with a batch.
    #[must_use]
    pub fn rule(&self, head: &Head) -> Ruling {
        let committed = self.isolation == Isolation::ReadCommitted;
        if committed && !self.past_lso && self.lso().is_some_and(|lso| head.base_offset >= lso) {
            return Ruling::Stop;
        }
        match self.transactions.state(head) {
            TransactionState::Aborted if committed => Ruling::LeaveOut,
            TransactionState::Unknown if committed && self.past_lso => Ruling::LeaveOut,
            // Written since the survey, or the offsets are in disorder.
            TransactionState::Unknown if committed => Ruling::Stop,
            state => Ruling::Take(state),
        }
    }

    /// The last stable offset, where one is known.
    #[must_use]
    pub fn lso(&self) -> Option<i64> {
        self.transactions.unstable().map(|unstable| unstable.offset)
    }

    /// Says why reading stopped at a batch, and what is left behind.
    #[must_use]
    pub fn left_behind(&self, head: &Head) -> String {
        match self.transactions.unstable() {
            Some(Unstable { offset, producer_id, records, at_least, damaged, .. })
                if head.base_offset >= *offset =>
            {
                let least = if *at_least { "at least " } else { "" };
                let noun = if *records == 1 { "record is" } else { "records are" };
                let why = if *damaged { "lies in damaged bytes" } else { "is not in the data" };
                format!(
                    "read_committed ends at the last stable offset {offset}: there a transaction of producer \
                     {producer_id} begins whose end {why}; {least}{records} {noun} left behind"
                )
            }
            _ => format!(
                "read_committed ends at offset {}: nothing is known of that transaction of producer {}; it was \
                 written since, or offsets around it are false",
                head.base_offset, head.producer_id
            ),
        }
    }
}
