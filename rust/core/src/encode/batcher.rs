//! A stream of records cut into batches by size, as a producer does it.

use crate::codec::Compressor;
use crate::encode::{Encoder, Open, Written};
use crate::encode_error::{EncodeError, EncodeFlaw};
use crate::format::Format;
use crate::new_record::{BatchFields, NewRecord};

/// Writes records to batches of about `batch_bytes` each, of which only one is in memory.
#[derive(Debug)]
pub struct Batcher {
    encoder: Encoder,
    format: Format,
    fields: BatchFields,
    batch_bytes: usize,
    open: Option<Open>,
    last_offset: Option<i64>,
    /// The open batch's bytes, so that the caller's buffer can be emptied between records.
    bytes: Vec<u8>,
}

impl Batcher {
    /// Batches with these fields, of which `base_offset`, `last_offset_delta`, `base_timestamp` and, under CreateTime,
    /// `max_timestamp` are computed for each, and `base_sequence` counts on where it is given.
    ///
    /// `batch_bytes` is compared before compression, as a producer's `batch.size` is before it knows better. A record
    /// that is larger makes a batch of its own.
    #[must_use]
    pub fn new(format: Format, fields: BatchFields, batch_bytes: usize) -> Self {
        let fields = BatchFields { base_offset: None, last_offset_delta: None, ..fields };
        Self {
            encoder: Encoder::new(),
            format,
            fields,
            batch_bytes,
            open: None,
            last_offset: None,
            bytes: Vec::new(),
        }
    }

    /// Takes a record. Where it begins a new batch, the one before is appended to `out` first, and told of.
    ///
    /// # Errors
    /// What the format cannot carry. The record is left out; others may follow.
    pub fn push(
        &mut self,
        record: &NewRecord<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Option<Written>, EncodeError> {
        self.push_of(record, None, out)
    }

    /// As [`Batcher::push`]; `sequence` is the record's own, for the batch that it may begin.
    ///
    /// # Errors
    /// As [`Batcher::push`].
    #[inline]
    pub fn push_of(
        &mut self,
        record: &NewRecord<'_>,
        sequence: Option<i32>,
        out: &mut Vec<u8>,
    ) -> Result<Option<Written>, EncodeError> {
        if let Some(previous) = self.last_offset.filter(|last| record.offset <= *last) {
            return Err(EncodeFlaw::OffsetOrder { offset: record.offset, previous }.of(0));
        }
        let full = self.open.as_ref().is_some_and(|open| {
            open.size().saturating_add(about(record)) > self.batch_bytes || !open.reaches(record.offset)
        });
        let before = if full { self.finish(out)? } else { None };
        let mut open = match self.open.take() {
            Some(open) => open,
            None => {
                self.bytes.clear();
                self.fields.base_sequence = sequence.unwrap_or(self.fields.base_sequence);
                Open::new(self.format, self.fields.clone(), false, &mut self.encoder, &mut self.bytes)?
            }
        };
        let done = open.push(record, &mut self.encoder, &mut self.bytes);
        self.open = (open.count() > 0).then_some(open);
        done?;
        self.last_offset = Some(record.offset);
        Ok(before)
    }

    /// Ends the batch that is open; those to come have these fields, of which the same are computed as of the first ones.
    ///
    /// # Errors
    /// As [`Batcher::finish`].
    pub fn set_fields(
        &mut self,
        fields: BatchFields,
        out: &mut Vec<u8>,
    ) -> Result<Option<Written>, EncodeError> {
        let before = self.finish(out)?;
        self.fields = BatchFields { base_offset: None, last_offset_delta: None, ..fields };
        Ok(before)
    }

    /// Exchanges the compressor, so that many batchers can have one codec's contexts in turn.
    pub fn swap_compressor(&mut self, other: &mut Compressor) {
        std::mem::swap(&mut self.encoder.compressor, other);
    }

    /// Appends the batch that is open to `out`, and tells of it.
    ///
    /// # Errors
    /// As [`crate::Writer::finish`].
    pub fn finish(&mut self, out: &mut Vec<u8>) -> Result<Option<Written>, EncodeError> {
        let Some(mut open) = self.open.take() else { return Ok(None) };
        let written = open.finish(&mut self.encoder, &mut self.bytes)?;
        out.extend_from_slice(&self.bytes);
        if self.fields.base_sequence >= 0 {
            let next = i64::from(self.fields.base_sequence) + i64::from(written.count);
            self.fields.base_sequence = next.rem_euclid(1 << 31) as i32;
        }
        Ok(Some(written))
    }
}

/// No less than the record takes in any format, without its headers' lengths.
fn about(record: &NewRecord<'_>) -> usize {
    const FIELDS: usize = 34;
    let headers: usize = record.headers.iter().map(|header| header.len(crate::HeaderLayout::Varint)).sum();
    FIELDS + record.key.map_or(0, <[u8]>::len) + record.value.map_or(0, <[u8]>::len) + headers
}
