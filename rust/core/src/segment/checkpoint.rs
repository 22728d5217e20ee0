//! `leader-epoch-checkpoint`: which leader epoch wrote which offsets of the partition.
//!
//! ```text
//! 0                    version
//! 2                    number of entries
//! 5 0                  epoch, its first offset
//! 7 1042
//! ```
//!
//! Source: KIP-101; Apache Kafka, classes `LeaderEpochCheckpointFile`, `CheckpointFile`, `LeaderEpochFileCache`.

use super::text::{Line, Lines};
use crate::error::{Flaw, Result};
use std::fmt::Write as _;

/// The one version there is (`LeaderEpochCheckpointFile.CURRENT_VERSION`).
const CURRENT_VERSION: i32 = 0;

/// A leader epoch and the first offset that was written in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EpochEntry {
    /// The leader epoch.
    pub epoch: i32,
    /// The first offset written in it; the epoch ends where the next one begins.
    pub start_offset: i64,
}

/// The leader epochs of a partition, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeaderEpochCheckpoint {
    entries: Vec<EpochEntry>,
}

impl LeaderEpochCheckpoint {
    /// Reads the file. As in Kafka, a file that ends before its count (a broker died while it made it) has no
    /// entries. Memory is bounded by the file's size; the count is compared, never believed.
    ///
    /// # Errors
    /// [`Flaw::Index`] with the byte position of the line that is at fault: an unknown version, a count that
    /// does not fit, a line that is not two numbers, negative numbers, an epoch that does not rise or a start
    /// offset that falls.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        let mut lines = Lines::new(bytes);
        let Some(line) = lines.next() else {
            return Ok(Self::default());
        };
        const VERSION: &str = "leader epoch checkpoint: the version is not 0";
        if line.number::<i32>(VERSION)? != CURRENT_VERSION {
            return Err(line.flaw(VERSION));
        }
        let Some(count_line) = lines.next() else {
            return Ok(Self::default());
        };
        let count: usize =
            count_line.number("leader epoch checkpoint: the number of entries is no number")?;
        let mut checkpoint = Self::default();
        for line in lines {
            let entry = parse_entry(&line)?;
            checkpoint.push(entry).map_err(|flaw| flaw.at(line.position))?;
        }
        if checkpoint.entries.len() != count {
            return Err(
                count_line.flaw("leader epoch checkpoint: the number of entries is not that of the lines")
            );
        }
        Ok(checkpoint)
    }

    /// A checkpoint of these entries.
    ///
    /// # Errors
    /// [`Flaw::Index`] for negative numbers, an epoch that does not rise or a start offset that falls.
    pub fn from_entries(entries: impl IntoIterator<Item = EpochEntry>) -> Result<Self, Flaw> {
        let mut checkpoint = Self::default();
        for entry in entries {
            checkpoint.push(entry)?;
        }
        Ok(checkpoint)
    }

    /// Equal start offsets are let pass: brokers before 2.0 wrote them for an epoch without records.
    fn push(&mut self, entry: EpochEntry) -> Result<(), Flaw> {
        if entry.epoch < 0 || entry.start_offset < 0 {
            return Err(Flaw::Index("leader epoch checkpoint: an epoch or its start offset is negative"));
        }
        if let Some(last) = self.entries.last() {
            if entry.epoch <= last.epoch {
                return Err(Flaw::Index("leader epoch checkpoint: an epoch does not rise"));
            }
            if entry.start_offset < last.start_offset {
                return Err(Flaw::Index("leader epoch checkpoint: an epoch's start offset falls"));
            }
        }
        self.entries.push(entry);
        Ok(())
    }

    /// The file's text, as a broker writes it.
    #[must_use]
    pub fn encode(&self) -> String {
        let mut text = format!("{CURRENT_VERSION}\n{}\n", self.entries.len());
        for entry in &self.entries {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{} {}", entry.epoch, entry.start_offset);
        }
        text
    }

    /// The epochs, oldest first.
    #[must_use]
    pub fn entries(&self) -> &[EpochEntry] {
        &self.entries
    }

    /// The epoch in which `offset` was or would be written; none before the first epoch's start
    /// (`LeaderEpochFileCache.epochForOffset`).
    #[must_use]
    pub fn epoch_for(&self, offset: i64) -> Option<i32> {
        let after = self.entries.partition_point(|entry| entry.start_offset <= offset);
        after.checked_sub(1).map(|i| self.entries[i].epoch)
    }

    /// The greatest epoch that is not over `epoch`, and the offset after its last one
    /// (`LeaderEpochFileCache.endOffsetFor`). The latest epoch ends at `log_end_offset`, the offset of the next
    /// record to come, which is not in this file. An epoch before the first is given back as it is, with the
    /// first one's start. None for a negative epoch and one over the latest.
    #[must_use]
    pub fn end_offset(&self, epoch: i32, log_end_offset: i64) -> Option<(i32, i64)> {
        let latest = self.entries.last()?;
        if epoch == latest.epoch {
            return Some((epoch, log_end_offset));
        }
        if epoch < 0 || epoch > latest.epoch {
            return None;
        }
        let higher = self.entries.partition_point(|entry| entry.epoch <= epoch);
        let floor = higher.checked_sub(1).map_or(epoch, |i| self.entries[i].epoch);
        Some((floor, self.entries[higher].start_offset))
    }
}

fn parse_entry(line: &Line<'_>) -> Result<EpochEntry> {
    const MALFORMED: &str = "leader epoch checkpoint: a line is not an epoch and an offset";
    let text = line.text(MALFORMED)?;
    let mut words = text.split_ascii_whitespace();
    let (Some(epoch), Some(start_offset), None) = (words.next(), words.next(), words.next()) else {
        return Err(line.flaw(MALFORMED));
    };
    match (epoch.parse(), start_offset.parse()) {
        (Ok(epoch), Ok(start_offset)) => Ok(EpochEntry { epoch, start_offset }),
        _ => Err(line.flaw(MALFORMED)),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // A test may panic.
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Vec<(i32, i64)>> {
        let checkpoint = LeaderEpochCheckpoint::parse(text.as_bytes())?;
        Ok(checkpoint.entries().iter().map(|e| (e.epoch, e.start_offset)).collect())
    }

    #[test]
    fn reads_what_a_broker_writes() {
        assert_eq!(parse("0\n1\n1 0\n"), Ok(vec![(1, 0)]));
        assert_eq!(parse("0\r\n2\r\n5 0\r\n7 1042"), Ok(vec![(5, 0), (7, 1042)]));
        assert_eq!(parse("0\n0\n"), Ok(vec![]));
        assert_eq!(parse(""), Ok(vec![]));
        assert_eq!(parse("0\n2\n1 5\n2 5\n"), Ok(vec![(1, 5), (2, 5)]));
    }

    #[test]
    fn an_error_names_its_line() {
        for (text, position) in [
            ("1\n0\n", 0),
            ("x", 0),
            ("\n0\n0\n", 0),
            ("0\nx\n", 2),
            ("0\n-1\n", 2),
            ("0\n99999999999999999999\n", 2),
            ("0\n2\n1 0\n", 2),
            ("0\n0\n1 0\n", 2),
            ("0\n2\n1 0\n\n", 8),
            ("0\n2\n1 0\n2\n", 8),
            ("0\n2\n1 0\n2 3 4\n", 8),
            ("0\n2\n1 0\n2 99999999999999999999\n", 8),
            ("0\n2\n1 0\n1 5\n", 8),
            ("0\n2\n1 9\n2 8\n", 8),
            ("0\n1\n-1 8\n", 4),
            ("0\n1\n1 -8\n", 4),
        ] {
            assert_eq!(parse(text).map_err(|e| e.position), Err(position), "{text:?}");
        }
        assert_eq!(LeaderEpochCheckpoint::parse(b"0\n1\n\xff 3\n").map_err(|e| e.position), Err(4));
    }

    #[test]
    fn epochs_and_offsets() {
        let checkpoint = LeaderEpochCheckpoint::parse(b"0\n3\n2 10\n4 20\n7 30\n").unwrap();
        let epochs = [9, 10, 19, 20, 29, 30, i64::MAX].map(|offset| checkpoint.epoch_for(offset));
        assert_eq!(epochs, [None, Some(2), Some(2), Some(4), Some(4), Some(7), Some(7)]);
        let ends = [-1, 0, 2, 3, 4, 6, 7, 8].map(|epoch| checkpoint.end_offset(epoch, 99));
        let expected = [
            None,
            Some((0, 10)),
            Some((2, 20)),
            Some((2, 20)),
            Some((4, 30)),
            Some((4, 30)),
            Some((7, 99)),
            None,
        ];
        assert_eq!(ends, expected);
        assert_eq!(LeaderEpochCheckpoint::default().end_offset(0, 5), None);
    }
}
