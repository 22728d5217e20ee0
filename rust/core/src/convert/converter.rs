//! One entry of a log to what it becomes in another format.

use crate::codec::{Buffer, Codec, Decompressor};
use crate::convert::carry::{Carry, Rules};
use crate::convert::{Conversion, ConvertError, Dropped};
use crate::encode::{Encoder, Open};
use crate::encode_error::{EncodeError, EncodeFlaw};
use crate::entry::{Entry, Payload};
use crate::error::Flaw;
use crate::format::{Family, Format};
use crate::head::{Head, TimestampType};
use crate::new_record::BatchFields;

/// Single messages that wait to become one batch.
#[derive(Debug)]
struct Group {
    open: Open,
    /// Where the first of them begins in the source.
    position: u64,
}

/// Converts entries one by one.
#[derive(Debug)]
pub struct Converter {
    conversion: Conversion,
    encoder: Encoder,
    decompressor: Decompressor,
    buffer: Buffer,
    group: Option<Group>,
    /// The bytes of the group, kept apart so that the caller's buffer can be emptied between entries.
    grouped: Vec<u8>,
    next_offset: Option<i64>,
    dropped: Dropped,
}

impl Converter {
    /// A converter at the beginning of its output.
    #[must_use]
    pub fn new(conversion: Conversion) -> Self {
        Self {
            conversion,
            encoder: Encoder::new(),
            decompressor: Decompressor::new(),
            buffer: Buffer::new(),
            group: None,
            grouped: Vec::new(),
            next_offset: conversion.first_offset,
            dropped: Dropped::default(),
        }
    }

    /// What was lost so far.
    #[must_use]
    pub const fn dropped(&self) -> &Dropped {
        &self.dropped
    }

    /// Appends what `entry` becomes to `out`: nothing, one batch, or several messages. Some of it may wait for the next
    /// entry, or for [`Converter::finish`].
    ///
    /// # Errors
    /// Where it cannot be read or not be written. `out` and the counts are then as if the entry was not there, and the
    /// next one may be tried.
    pub fn entry(&mut self, entry: &Entry<'_>, out: &mut Vec<u8>) -> Result<(), ConvertError> {
        let before = self.dropped;
        if self.groups(&entry.head) {
            let done = self.add_to_group(entry, out);
            if done.is_err() {
                self.dropped = before;
            }
            return done;
        }
        self.finish(out)?;
        let start = out.len();
        let done = self.single(entry, out);
        if done.is_err() {
            self.dropped = before;
            out.truncate(start);
        }
        done
    }

    /// Appends what still waits.
    ///
    /// # Errors
    /// Where the batch turns out too large.
    pub fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), ConvertError> {
        if let Some(Group { mut open, position }) = self.group.take() {
            let done = open.finish(&mut self.encoder, &mut self.grouped);
            done.map_err(|error| ConvertError::Write { position, error })?;
            out.extend_from_slice(&self.grouped);
        }
        Ok(())
    }

    /// Whether the entry is a single message that joins others in one batch.
    fn groups(&self, head: &Head) -> bool {
        self.next_offset.is_some()
            && self.conversion.to.traits().family == Family::Batch
            && head.format.traits().family == Family::MessageSet
            && head.codec_id() == Codec::None.id()
    }

    fn add_to_group(&mut self, entry: &Entry<'_>, out: &mut Vec<u8>) -> Result<(), ConvertError> {
        let waiting = self.group.as_ref().map_or(0, |group| group.open.size());
        if waiting > 0 && waiting.saturating_add(entry.bytes.len()) > self.conversion.batch_bytes {
            self.finish(out)?;
        }
        let payload = entry.payload(&[], None)?;
        let mut rules = self.rules(&entry.head);
        // One batch tells one append time; its messages may have had different ones.
        rules.effective_timestamps = true;
        let mut group = match self.group.take() {
            Some(group) => group,
            None => {
                self.grouped.clear();
                let fields = BatchFields {
                    codec: self.conversion.codec.unwrap_or(Codec::None),
                    level: self.conversion.level,
                    leader_epoch: self.conversion.leader_epoch.unwrap_or(-1),
                    ..BatchFields::default()
                };
                let open = Open::new(rules.to, fields, true, &mut self.encoder, &mut self.grouped);
                let open = open.map_err(|error| write_error(entry, error))?;
                Group { open, position: entry.position }
            }
        };
        let mut carry = Carry {
            rules,
            open: &mut group.open,
            encoder: &mut self.encoder,
            out: &mut self.grouped,
            dropped: &mut self.dropped,
            refused: None,
            seen: 0,
        };
        let read = payload.decode(&self.conversion.limits, &mut carry);
        let (refused, next) = (carry.refused, carry.rules.next_offset);
        if group.open.count() > 0 {
            self.group = Some(group);
        }
        read?;
        if let Some(error) = refused {
            return Err(write_error(entry, error));
        }
        self.next_offset = next;
        Ok(())
    }

    fn single(&mut self, entry: &Entry<'_>, out: &mut Vec<u8>) -> Result<(), ConvertError> {
        let (head, to) = (&entry.head, self.conversion.to);
        let target = to.traits();
        if head.is_control() && !target.producer {
            self.dropped.control_batches += 1;
            return Ok(());
        }
        if head.count == Some(0) && (target.family == Family::MessageSet || self.next_offset.is_some()) {
            self.dropped.empty_batches += 1;
            return Ok(());
        }
        if self.copy(entry, out) {
            return Ok(());
        }
        let codec = head.codec().ok_or_else(|| Flaw::Codec(head.codec_id()).at(entry.position))?;
        let codec = self.conversion.codec.unwrap_or(codec);
        let mut buffer = std::mem::take(&mut self.buffer);
        let done = entry
            .open(&mut self.decompressor, &self.conversion.limits, &mut buffer)
            .map_err(ConvertError::from)
            .and_then(|payload| {
                let mut fields = self.fields(&payload, codec);
                match self.records(entry, &payload, fields.clone(), out) {
                    // Seldom: a record attributes byte that is not 0 must not be lost.
                    Err(ConvertError::Write {
                        error: EncodeError { flaw: EncodeFlaw::RecordAttributes(_), .. },
                        ..
                    }) => {
                        fields.ignore_message_attributes = false;
                        self.records(entry, &payload, fields, out)
                    }
                    done => done,
                }
            });
        self.buffer = buffer;
        done?;
        if !target.producer {
            self.dropped.producer_state += u64::from(head.producer_id != -1);
            self.dropped.delete_horizons += u64::from(head.delete_horizon().is_some());
        }
        Ok(())
    }

    /// Copies an entry of which nothing, or only what its header has, changes. `false` where its records must be
    /// written anew.
    fn copy(&mut self, entry: &Entry<'_>, out: &mut Vec<u8>) -> bool {
        let (head, conversion) = (&entry.head, &self.conversion);
        let recodes = conversion.codec.is_some_and(|codec| codec.id() != head.codec_id());
        let older = conversion.keep_older && head.format < conversion.to && conversion.to <= Format::V2;
        if (head.format != conversion.to && !older) || recodes {
            return false;
        }
        let mut base_offset = head.base_offset;
        if let Some(next) = self.next_offset {
            let span = head.last_offset.wrapping_sub(head.base_offset).checked_add(1);
            // As many records as offsets: no holes, so they keep their distances.
            if head.count.is_none() || head.count.map(i64::from) != span {
                return false;
            }
            base_offset = next;
            self.next_offset = span.map(|span| next.wrapping_add(span));
        }
        let start = out.len();
        out.extend_from_slice(entry.bytes);
        if head.format.traits().family == Family::Batch {
            // Neither field is covered by the checksum. The epoch stands before magic and checksum in all formats.
            out[start..start + 8].copy_from_slice(&base_offset.to_be_bytes());
            let epoch = start + head.crc_from - 4 - 1 - 4;
            let value = conversion.leader_epoch.unwrap_or(head.leader_epoch);
            out[epoch..epoch + 4].copy_from_slice(&value.to_be_bytes());
        }
        true
    }

    fn rules(&self, head: &Head) -> Rules {
        let to = self.conversion.to;
        let partly = to.traits().family == Family::MessageSet && head.codec_id() == Codec::None.id();
        Rules {
            head: *head,
            to,
            next_offset: self.next_offset,
            from_offset: self.conversion.from_offset.filter(|_| partly).unwrap_or(i64::MIN),
            effective_timestamps: false,
            null_is_tombstone: self.conversion.null_is_tombstone,
        }
    }

    /// The fields of the batch that an entry becomes.
    fn fields(&self, payload: &Payload<'_>, codec: Codec) -> BatchFields {
        let (head, renumbers) = (payload.head(), self.next_offset.is_some());
        let both = (head.format.traits().family, self.conversion.to.traits().family);
        let kept = BatchFields {
            codec,
            level: self.conversion.level,
            leader_epoch: self.conversion.leader_epoch.unwrap_or(head.leader_epoch),
            timestamp_type: head.timestamp_type,
            // The append time, which bounds nothing, is as true in the new batch.
            max_timestamp: head.append_time(),
            ..BatchFields::default()
        };
        match both {
            (Family::Batch, Family::Batch) => BatchFields {
                base_offset: Some(head.base_offset).filter(|_| !renumbers),
                last_offset_delta: Some(head.last_offset.wrapping_sub(head.base_offset) as i32)
                    .filter(|_| !renumbers),
                base_timestamp: Some(head.base_timestamp),
                max_timestamp: Some(head.max_timestamp),
                producer_id: head.producer_id,
                producer_epoch: head.producer_epoch,
                base_sequence: head.base_sequence,
                transactional: head.is_transactional(),
                control: head.is_control(),
                delete_horizon: head.delete_horizon().is_some(),
                ignore_message_attributes: head.format != Format::V3 || head.ignores_message_attributes(),
                ..kept
            },
            (Family::MessageSet, Family::MessageSet) if head.codec_id() != Codec::None.id() => BatchFields {
                // v0's inner offsets count from nothing.
                base_offset: Some(payload.base_offset()).filter(|_| !renumbers && head.format != Format::V0),
                max_timestamp: Some(head.max_timestamp)
                    .filter(|_| head.timestamp_type != TimestampType::None),
                ..kept
            },
            _ => kept,
        }
    }

    /// Writes the records of one entry as one batch, or as messages.
    fn records(
        &mut self,
        entry: &Entry<'_>,
        payload: &Payload<'_>,
        fields: BatchFields,
        out: &mut Vec<u8>,
    ) -> Result<(), ConvertError> {
        let before = (self.dropped, out.len());
        let rules = self.rules(&entry.head);
        let open = Open::new(rules.to, fields, true, &mut self.encoder, out);
        let mut open = open.map_err(|error| write_error(entry, error))?;
        let mut carry = Carry {
            rules,
            open: &mut open,
            encoder: &mut self.encoder,
            out,
            dropped: &mut self.dropped,
            refused: None,
            seen: 0,
        };
        let read = payload.decode(&self.conversion.limits, &mut carry);
        let (refused, next) = (carry.refused, carry.rules.next_offset);
        let done = match (read, refused) {
            (Err(error), _) => Err(error.into()),
            (Ok(_), Some(error)) => Err(write_error(entry, error)),
            // All of its records lie below `from_offset`.
            (Ok(1..), None) if open.count() == 0 => {
                out.truncate(before.1);
                return Ok(());
            }
            (Ok(_), None) => {
                open.finish(&mut self.encoder, out).map(|_| ()).map_err(|error| write_error(entry, error))
            }
        };
        match done {
            Ok(()) => self.next_offset = next,
            Err(_) => {
                self.dropped = before.0;
                out.truncate(before.1);
            }
        }
        done
    }
}

fn write_error(entry: &Entry<'_>, error: EncodeError) -> ConvertError {
    ConvertError::Write { position: entry.position, error }
}
