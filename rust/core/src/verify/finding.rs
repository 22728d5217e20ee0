//! What `verify` found: defects, bounded in number, counted in full.

use std::collections::BTreeMap;

use crate::error::{Flaw, Kind};

/// Whether a defect makes the log unsound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Severity {
    /// Something is lost, contradicts itself, or is read differently by different readers.
    Error,
    /// Every reader gets the same records: an unusual form, compaction's gaps, the tail of an active segment.
    Note,
}

impl Severity {
    /// `error` or `note`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Note => "note",
        }
    }
}

/// Which file of a segment a defect lies in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum InFile {
    /// The `.log`, or the bytes that were handed over.
    Log,
    /// The `.index`.
    Index,
    /// The `.timeindex`.
    TimeIndex,
    /// The `.txnindex`.
    TxnIndex,
}

impl InFile {
    /// The file's ending, with its dot; none for the log itself.
    #[must_use]
    pub const fn suffix(self) -> &'static str {
        match self {
            Self::Log => "",
            Self::Index => ".index",
            Self::TimeIndex => ".timeindex",
            Self::TxnIndex => ".txnindex",
        }
    }
}

/// One defect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Defect {
    /// Which segment, counted from 0 in the order they were handed over.
    pub segment: usize,
    /// Which of its files.
    pub file: InFile,
    /// Byte position in that file.
    pub position: u64,
    /// The family.
    pub kind: Kind,
    /// Error or note.
    pub severity: Severity,
    /// In words.
    pub message: String,
}

/// Where a defect is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) segment: usize,
    pub(super) file: InFile,
    pub(super) position: u64,
}

/// Defects of one kind and severity that are kept in words; the others are only counted. A healthy log of librdkafka's
/// has one note a batch.
pub const KEPT: u64 = 1000;

/// The defects of a partition.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    list: Vec<Defect>,
    counts: BTreeMap<(Kind, Severity), u64>,
    pub(super) segment: usize,
}

impl Findings {
    /// The defects in words, in the order they were found, at most [`KEPT`] of each kind and severity.
    #[must_use]
    pub fn list(&self) -> &[Defect] {
        &self.list
    }

    /// How many of each kind and severity there are in all.
    pub fn counts(&self) -> impl Iterator<Item = (Kind, Severity, u64)> {
        self.counts.iter().map(|((kind, severity), count)| (*kind, *severity, *count))
    }

    /// How many errors.
    #[must_use]
    pub fn errors(&self) -> u64 {
        let errors = |((_, severity), count): (&(Kind, Severity), &u64)| {
            if *severity == Severity::Error { *count } else { 0 }
        };
        self.counts.iter().map(errors).sum()
    }

    /// In the log, at `position`.
    pub(super) fn here(&self, position: u64) -> Place {
        Place { segment: self.segment, file: InFile::Log, position }
    }

    pub(super) fn push(&mut self, at: Place, kind: Kind, severity: Severity, message: String) {
        let count = self.counts.entry((kind, severity)).or_default();
        *count += 1;
        if *count <= KEPT {
            let Place { segment, file, position } = at;
            self.list.push(Defect { segment, file, position, kind, severity, message });
        }
    }

    pub(super) fn error(&mut self, position: u64, kind: Kind, message: String) {
        self.push(self.here(position), kind, Severity::Error, message);
    }

    pub(super) fn note(&mut self, position: u64, kind: Kind, message: String) {
        self.push(self.here(position), kind, Severity::Note, message);
    }

    pub(super) fn flaw(&mut self, position: u64, flaw: Flaw) {
        self.error(position, flaw.kind(), flaw.to_string());
    }
}
