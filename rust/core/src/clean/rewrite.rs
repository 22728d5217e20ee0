//! Batches written again with records left out or changed, offsets as they are: for custom retention and redaction.

use super::cleaner::{empty, fields};
use crate::codec::{Buffer, Decompressor};
use crate::convert::ConvertError;
use crate::encode::{Encoder, Open};
use crate::encode_error::EncodeError;
use crate::entry::Entry;
use crate::format::Family;
use crate::head::Head;
use crate::limits::Limits;
use crate::new_record::{BatchFields, NewHeaders, NewRecord};
use crate::record::{Record, Sink};

/// What becomes of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict<'v> {
    /// It stays as it is.
    Keep,
    /// It goes. Its offset is not given again.
    Drop,
    /// It stays, with this value; `None` is null, which compaction takes for a delete.
    Change {
        /// The new value.
        value: Option<&'v [u8]>,
        /// Whether its headers go.
        without_headers: bool,
    },
}

/// What was done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rewritten {
    /// Records of data that were read.
    pub records: u64,
    /// Those that are gone.
    pub dropped: u64,
    /// Those that were changed.
    pub changed: u64,
    /// Batches (messages and wrappers too) that were read, control batches among them.
    pub batches: u64,
    /// Written again.
    pub rebuilt: u64,
    /// Kept as headers without records.
    pub emptied: u64,
}

/// Writes entries again. Batches of which nothing changes, and control batches, are copied byte for byte.
///
/// Of a batch that loses all of its records the header stays where it holds a producer's sequences, or where the caller
/// says so; a broker's cleaner makes such batches, too. Producers, sequences, epochs and delete horizons stay as they are.
#[derive(Debug, Default)]
pub struct Rewriter {
    limits: Limits,
    done: Rewritten,
    encoder: Encoder,
    decompressor: Decompressor,
    buffer: Buffer,
}

impl Rewriter {
    /// Nothing done yet.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// What was done so far.
    #[must_use]
    pub const fn done(&self) -> &Rewritten {
        &self.done
    }

    /// Appends to `out` what becomes of an entry. `last`: it ends the log, so its header stays in any case.
    ///
    /// # Errors
    /// Those of reading the entry; what cannot be written again.
    pub fn entry<'v>(
        &mut self,
        entry: &Entry<'_>,
        last: bool,
        decide: impl FnMut(&Record<'_>) -> Verdict<'v>,
        out: &mut Vec<u8>,
    ) -> Result<(), ConvertError> {
        self.done.batches += 1;
        let head = &entry.head;
        if head.is_control() || head.count == Some(0) {
            out.extend_from_slice(entry.bytes);
            return Ok(());
        }
        let mut buffer = std::mem::take(&mut self.buffer);
        let done = self.sort_and_write(entry, last, decide, &mut buffer, out);
        self.buffer = buffer;
        done
    }

    fn sort_and_write<'v>(
        &mut self,
        entry: &Entry<'_>,
        last: bool,
        decide: impl FnMut(&Record<'_>) -> Verdict<'v>,
        buffer: &mut Buffer,
        out: &mut Vec<u8>,
    ) -> Result<(), ConvertError> {
        let head = &entry.head;
        let payload = entry.open(&mut self.decompressor, &self.limits, buffer)?;
        let mut sorted = Sorted { head, decide, kept: Vec::new(), dropped: 0, changed: 0 };
        let read = payload.decode(&self.limits, &mut sorted)?;
        let Sorted { kept, dropped, changed, .. } = sorted;
        self.done.records += u64::from(read);
        self.done.dropped += dropped;
        self.done.changed += changed;
        if dropped == 0 && changed == 0 {
            out.extend_from_slice(entry.bytes);
            return Ok(());
        }
        let write = |error| ConvertError::Write { position: entry.position, error };
        if kept.is_empty() {
            if head.format.traits().family == Family::Batch && (last || head.producer_id >= 0) {
                put(head, &empty(head), &[], &mut self.encoder, out).map_err(write)?;
                self.done.emptied += 1;
            }
            return Ok(());
        }
        let mut fields = fields(head, head.delete_horizon());
        if head.append_time().is_none() && head.format.traits().family == Family::Batch && dropped == 0 {
            // Whatever the batch says of its times stays as it is said.
            fields.max_timestamp = Some(head.max_timestamp);
        }
        put(head, &fields, &kept, &mut self.encoder, out).map_err(write)?;
        self.done.rebuilt += 1;
        Ok(())
    }
}

/// Writes a batch; on an error `out` is as it was.
pub(super) fn put(
    head: &Head,
    fields: &BatchFields,
    kept: &[NewRecord<'_>],
    encoder: &mut Encoder,
    out: &mut Vec<u8>,
) -> Result<(), EncodeError> {
    let start = out.len();
    let mut open = Open::new(head.format, fields.clone(), true, encoder, out)?;
    for record in kept {
        if let Err(error) = open.push(record, encoder, out) {
            out.truncate(start);
            return Err(error);
        }
    }
    open.finish(encoder, out).map(|_| ())
}

/// A record as it is written again: stored as a consumer sees it, so that its batch's append time goes on to hold.
pub(super) fn again<'b>(head: &Head, record: &Record<'b>) -> NewRecord<'b> {
    let message = head.count.is_none();
    NewRecord {
        timestamp: record.effective_timestamp(head),
        attributes: if message { 0 } else { record.attributes },
        ..NewRecord::from(record)
    }
}

struct Sorted<'h, 'b, F> {
    head: &'h Head,
    decide: F,
    kept: Vec<NewRecord<'b>>,
    dropped: u64,
    changed: u64,
}

impl<'b, 'v: 'b, F: FnMut(&Record<'_>) -> Verdict<'v>> Sink<'b> for Sorted<'_, 'b, F> {
    fn record(&mut self, record: &Record<'b>) -> bool {
        let mut new = again(self.head, record);
        match (self.decide)(record) {
            Verdict::Drop => {
                self.dropped += 1;
                return false;
            }
            Verdict::Keep => {}
            Verdict::Change { value, without_headers } => {
                new.value = value;
                if without_headers {
                    new.headers = NewHeaders::default();
                }
                self.changed += 1;
            }
        }
        self.kept.push(new);
        false
    }

    fn header(&mut self, _key: &'b [u8], _value: Option<&'b [u8]>) {}
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // A test may panic.
mod tests;
