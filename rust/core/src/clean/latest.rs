//! Which record of a key is the latest, found out within a bound of memory.
//!
//! ```text
//! keys fit      one pass of map; the table itself answers
//! they don't    map up to the first key that does not fit, mark every record that some record in the table outranks,
//!               forget the table, map on from there, mark … ; a bit a record answers
//! ```
//! So the outcome does not depend on the memory, only the number of passes does.

use super::keys::{Keys, Rank};
use crate::codec::{Buffer, Decompressor};
use crate::entry::Entry;
use crate::error::Result;
use crate::head::Head;
use crate::header::Headers;
use crate::limits::Limits;
use crate::record::{Record, Sink};

/// What makes a record the latest of its key (KIP-280, `log.cleaner.compaction.strategy`).
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum Strategy {
    /// The highest offset.
    #[default]
    Offset,
    /// The highest timestamp, as a consumer sees it; among equals the highest offset.
    Timestamp,
    /// The highest version in the header of this name: 8 bytes, big-endian, or ASCII digits. One that is missing, below
    /// 0, not readable, or there several times with different values counts as −1. Among equals the highest offset.
    Header(Vec<u8>),
}

impl Strategy {
    fn rank(&self, head: &Head, record: &Record<'_>) -> Rank {
        match self {
            Self::Offset => (0, record.offset),
            Self::Timestamp => (record.effective_timestamp(head), record.offset),
            Self::Header(name) => (version(name, &record.headers), record.offset),
        }
    }
}

fn version(name: &[u8], headers: &Headers<'_>) -> i64 {
    let mut found: Option<Option<&[u8]>> = None;
    for header in headers.iter() {
        if header.key == name {
            match found {
                Some(value) if value != header.value => return -1,
                _ => found = Some(header.value),
            }
        }
    }
    found.flatten().and_then(number).unwrap_or(-1)
}

fn number(value: &[u8]) -> Option<i64> {
    if (1..=19).contains(&value.len()) && value.iter().all(u8::is_ascii_digit) {
        return std::str::from_utf8(value).ok()?.parse().ok();
    }
    value.try_into().ok().map(i64::from_be_bytes).filter(|&number| number >= 0)
}

/// Finds the latest record of each key, below the bound of a cleaning.
///
/// Passes: [`Latest::map`] for every entry, then, while [`Latest::is_done`] says no, [`Latest::mark`] for every entry,
/// [`Latest::go_on`], and so on. Memory: the table, and where it did not fit a bit for each record.
#[derive(Debug)]
pub struct Latest {
    strategy: Strategy,
    limits: Limits,
    keys: Keys,
    /// Records that the table in hand and those before it took in.
    taken: u64,
    /// Records that tables before it took in.
    before: u64,
    full: bool,
    /// Records that are outranked, by their number in the pass; `None` while one table does.
    outranked: Option<Vec<u64>>,
    /// The number of the record that comes next in a pass.
    next: u64,
    rounds: u32,
    decompressor: Decompressor,
    buffer: Buffer,
}

impl Latest {
    /// Nothing seen yet. `memory`: bytes of the table, 24 for a key (32 where there are versions). `expected`: records
    /// there may be at most; a smaller table is made where they need less.
    #[must_use]
    pub fn new(strategy: Strategy, memory: usize, expected: u64, limits: Limits) -> Self {
        let keys = Keys::new(memory, expected, strategy != Strategy::Offset);
        Self {
            strategy,
            limits,
            keys,
            taken: 0,
            before: 0,
            full: false,
            outranked: None,
            next: 0,
            rounds: 1,
            decompressor: Decompressor::new(),
            buffer: Buffer::new(),
        }
    }

    /// Takes in an entry's records. Those of control batches, of aborted transactions and without a key don't count:
    /// the caller leaves the first two out.
    ///
    /// # Errors
    /// Those of reading the entry.
    pub fn map(&mut self, entry: &Entry<'_>) -> Result<()> {
        if self.full {
            return Ok(());
        }
        self.each(entry, |it, head, record| {
            let number = it.next;
            it.next += 1;
            let Some(key) = record.key else { return };
            if number < it.before || it.full {
                return;
            }
            if it.keys.put(key, it.strategy.rank(head, record)) {
                it.taken = number + 1;
            } else {
                it.full = true;
            }
        })
    }

    /// Ends a pass of [`Latest::map`]: whether all is known. If not, a pass of [`Latest::mark`] comes next.
    pub fn is_done(&mut self) -> bool {
        self.next = 0;
        !self.full && self.outranked.is_none()
    }

    /// Compares an entry's records with what was taken in.
    ///
    /// # Errors
    /// Those of reading the entry.
    pub fn mark(&mut self, entry: &Entry<'_>) -> Result<()> {
        self.each(entry, |it, head, record| {
            let number = it.next;
            it.next += 1;
            let Some(key) = record.key else { return };
            let rank = it.strategy.rank(head, record);
            if it.keys.get(key).is_some_and(|there| there > rank) {
                let bits = it.outranked.get_or_insert_default();
                let word = (number / 64) as usize;
                if bits.len() <= word {
                    bits.resize(word + 1, 0);
                }
                bits[word] |= 1 << (number % 64);
            }
        })
    }

    /// Ends a pass of [`Latest::mark`]. True: some keys did not fit, and another pass of [`Latest::map`] goes on there.
    pub fn go_on(&mut self) -> bool {
        self.outranked.get_or_insert_default();
        self.next = 0;
        if !self.full {
            return false;
        }
        self.full = false;
        self.before = self.taken;
        self.keys.clear();
        self.rounds += 1;
        true
    }

    /// How many tables it took.
    #[must_use]
    pub const fn rounds(&self) -> u32 {
        self.rounds
    }

    /// Keys in the table in hand.
    #[must_use]
    pub const fn keys(&self) -> usize {
        self.keys.len()
    }

    /// Whether another record of its key wins over this one. Asked for each record in order, as in a pass.
    pub(super) fn is_outranked(&mut self, head: &Head, record: &Record<'_>) -> bool {
        let number = self.next;
        self.next += 1;
        let Some(key) = record.key else { return false };
        match &self.outranked {
            Some(bits) => bits.get((number / 64) as usize).is_some_and(|word| word >> (number % 64) & 1 == 1),
            None => {
                let rank = self.strategy.rank(head, record);
                self.keys.get(key).is_some_and(|there| there > rank)
            }
        }
    }

    fn each(&mut self, entry: &Entry<'_>, take: impl Fn(&mut Self, &Head, &Record<'_>)) -> Result<()> {
        let limits = self.limits;
        let mut buffer = std::mem::take(&mut self.buffer);
        let opened = entry.open(&mut self.decompressor, &limits, &mut buffer);
        let done = opened.and_then(|payload| {
            let mut sink = Each { latest: &mut *self, head: &entry.head, take };
            payload.decode(&limits, &mut sink)
        });
        self.buffer = buffer;
        done.map(|_| ())
    }
}

struct Each<'l, F> {
    latest: &'l mut Latest,
    head: &'l Head,
    take: F,
}

impl<'a, F: Fn(&mut Latest, &Head, &Record<'_>)> Sink<'a> for Each<'_, F> {
    fn record(&mut self, record: &Record<'a>) -> bool {
        (self.take)(self.latest, self.head, record);
        false
    }

    fn header(&mut self, _key: &'a [u8], _value: Option<&'a [u8]>) {}
}
