//! The index files of a segment against its log.

use std::collections::BTreeMap;

use crate::error::{Error, Kind};
use crate::segment::{AbortedTxn, OffsetIndex, OffsetPosition, TimeIndex, TimestampOffset, TransactionIndex};
use crate::verify::finding::{Findings, InFile, Place, Severity};
use crate::verify::order::Marker;

/// The bytes of the files beside a `.log`, where they are there.
#[derive(Clone, Copy, Debug, Default)]
pub struct Beside<'a> {
    /// The `.index`.
    pub index: Option<&'a [u8]>,
    /// The `.timeindex`.
    pub time_index: Option<&'a [u8]>,
    /// The `.txnindex`.
    pub txn_index: Option<&'a [u8]>,
}

/// The entries that are still to be met on the way through the log.
#[derive(Debug, Default)]
pub(super) struct Cursors {
    offsets: Vec<OffsetPosition>,
    next_offset: usize,
    times: Vec<TimestampOffset>,
    next_time: usize,
    greatest: i64,
    /// Damage was passed, so that timestamps may be missing.
    damaged: bool,
    aborted: Option<BTreeMap<i64, (usize, AbortedTxn)>>,
}

fn tell(
    findings: &mut Findings,
    file: InFile,
    position: usize,
    kind: Kind,
    severity: Severity,
    text: String,
) {
    let at = Place { segment: findings.segment, file, position: position as u64 };
    findings.push(at, kind, severity, text);
}

fn flawed(findings: &mut Findings, file: InFile, flaw: Option<Error>) {
    if let Some(error) = flaw {
        let at = Place { segment: findings.segment, file, position: error.position };
        findings.push(at, error.kind(), Severity::Error, error.flaw.to_string());
    }
}

impl Cursors {
    /// Reads the files of the segment that begins at `base_offset`, and tells of what is unsound in them.
    pub(super) fn open(files: &Beside<'_>, base_offset: i64, findings: &mut Findings) -> Self {
        let mut cursors = Self { greatest: -1, ..Self::default() };
        if let Some(bytes) = files.index {
            let index = OffsetIndex::new(bytes, base_offset);
            flawed(findings, InFile::Index, index.flaw());
            cursors.offsets = index.iter().collect();
        }
        if let Some(bytes) = files.time_index {
            let index = TimeIndex::new(bytes, base_offset);
            flawed(findings, InFile::TimeIndex, index.flaw());
            cursors.times = index.iter().collect();
        }
        if let Some(bytes) = files.txn_index {
            let index = TransactionIndex::new(bytes, base_offset);
            flawed(findings, InFile::TxnIndex, index.flaw());
            let sound = index.iter().map_while(Result::ok).enumerate();
            cursors.aborted = Some(sound.map(|(at, txn)| (txn.last_offset, (at, txn))).collect());
        }
        cursors
    }

    /// Damage up to `end`: what points into it cannot be judged.
    pub(super) fn damage(&mut self, end: u64) {
        self.damaged = true;
        while self.offsets.get(self.next_offset).is_some_and(|e| (e.position as u64) < end) {
            self.next_offset += 1;
        }
    }

    /// The entry at `position` with offsets `first` to `last`.
    pub(super) fn entry(
        &mut self,
        position: u64,
        first: i64,
        last: i64,
        max_timestamp: i64,
        findings: &mut Findings,
    ) {
        while let Some(entry) = self.offsets.get(self.next_offset) {
            let points = entry.position as u64;
            if points > position {
                break;
            }
            let at = self.next_offset * OffsetIndex::ENTRY_SIZE;
            let offset = entry.offset;
            if points < position {
                let text = format!("offset {offset} points to byte {points}, where no batch begins");
                tell(findings, InFile::Index, at, Kind::Index, Severity::Error, text);
            } else if offset < first {
                let text = format!("offset {offset} points to byte {points}, where offsets begin at {first}");
                tell(findings, InFile::Index, at, Kind::Index, Severity::Error, text);
            }
            self.next_offset += 1;
        }
        let before = self.greatest;
        self.greatest = self.greatest.max(max_timestamp);
        while let Some(entry) = self.times.get(self.next_time).filter(|entry| entry.offset <= last) {
            let at = self.next_time * TimeIndex::ENTRY_SIZE;
            let (time, offset) = (entry.timestamp, entry.offset);
            if before > time {
                let text = format!("{time} at offset {offset}: a later time, {before}, stands before it");
                tell(findings, InFile::TimeIndex, at, Kind::Index, Severity::Error, text);
            } else if self.greatest < time && !self.damaged {
                let text = format!("{time} at offset {offset}: no record up to there is so late");
                tell(findings, InFile::TimeIndex, at, Kind::Index, Severity::Error, text);
            }
            self.next_time += 1;
        }
    }

    /// A transaction ends here. A cleaner removes what was aborted, and retention what is old, but the index goes on to
    /// name the offset where the transaction began: legal where a record may be `gone`, which is asked for an offset.
    pub(super) fn marker(
        &mut self,
        marker: &Marker,
        position: u64,
        gone: impl Fn(i64) -> bool,
        findings: &mut Findings,
    ) {
        let Some(aborted) = &mut self.aborted else { return };
        if !marker.aborts {
            return;
        }
        let Some((slot, txn)) = aborted.remove(&marker.offset) else {
            if marker.first_offset.is_some() {
                let text = format!(
                    "the transaction of producer {} that is aborted at offset {} is not in the .txnindex",
                    marker.producer_id, marker.offset
                );
                findings.error(position, Kind::TxnIndex, text);
            }
            return;
        };
        let at = slot * AbortedTxn::ENCODED_SIZE;
        if txn.producer_id != marker.producer_id {
            let text = format!(
                "producer {} at offset {}, where the marker is producer {}'s",
                txn.producer_id, marker.offset, marker.producer_id
            );
            tell(findings, InFile::TxnIndex, at, Kind::TxnIndex, Severity::Error, text);
        } else if let Some(first) = marker.first_offset.filter(|&first| first != txn.first_offset) {
            let begins = txn.first_offset;
            let (severity, text) = if begins < first && gone(begins) {
                let text =
                    format!("first offset {begins}, of which the log has kept what stands from {first} on");
                (Severity::Note, text)
            } else {
                (Severity::Error, format!("first offset {begins}, the transaction begins at {first}"))
            };
            tell(findings, InFile::TxnIndex, at, Kind::TxnIndex, severity, text);
        }
    }

    /// The end of the segment's log, whose greatest offset is `last`. `cleaned`: a cleaner may have removed markers.
    pub(super) fn finish(&mut self, last: Option<i64>, cleaned: bool, findings: &mut Findings) {
        for (slot, entry) in self.offsets.iter().enumerate().skip(self.next_offset) {
            let text = format!("offset {} points to byte {}, past the end", entry.offset, entry.position);
            tell(findings, InFile::Index, slot * OffsetIndex::ENTRY_SIZE, Kind::Index, Severity::Error, text);
        }
        let beyond = |offset: i64| last.is_none_or(|last| offset > last);
        let met = self.next_offset == self.offsets.len() && !self.damaged;
        if let Some(entry) = self.offsets.last().filter(|entry| met && beyond(entry.offset)) {
            let text = format!("offset {} is past the last one", entry.offset);
            let at = (self.offsets.len() - 1) * OffsetIndex::ENTRY_SIZE;
            tell(findings, InFile::Index, at, Kind::Index, Severity::Error, text);
        }
        if !self.damaged {
            for (slot, entry) in self.times.iter().enumerate().skip(self.next_time) {
                let text = format!("{} at offset {}: past the last offset", entry.timestamp, entry.offset);
                tell(
                    findings,
                    InFile::TimeIndex,
                    slot * TimeIndex::ENTRY_SIZE,
                    Kind::Index,
                    Severity::Error,
                    text,
                );
            }
        }
        for (offset, (slot, txn)) in self.aborted.take().unwrap_or_default() {
            let severity = if cleaned || self.damaged { Severity::Note } else { Severity::Error };
            let text = format!("no abort marker of producer {} stands at offset {offset}", txn.producer_id);
            tell(findings, InFile::TxnIndex, slot * AbortedTxn::ENCODED_SIZE, Kind::TxnIndex, severity, text);
        }
    }
}
