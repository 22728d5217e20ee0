//! A batch that is being written: what is computed over its records, and what is written when the last one is there.

use crate::batch;
use crate::batch::encode::{Deltas, framed_record, varint_record};
use crate::batch::layout::{CRC, V2_HEADER, V3_MAX_HEADER, write_fixed, write_v3};
use crate::codec::{Codec, Lz4Checksum};
use crate::encode::{Encoder, Written};
use crate::encode_error::{EncodeError, EncodeFlaw};
use crate::format::{Family, Format, HeaderSupport};
use crate::head::{Head, TimestampType, attributes};
use crate::message_set::encode::{Message, message, seal, wrapper_head};
use crate::new_record::{BatchFields, NewRecord};

/// No entry, and no field of one, may be larger.
const MAX_SIZE: usize = i32::MAX as usize;

/// How one record is written.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Shape {
    /// v2, and v3 with record attributes.
    Full,
    /// v3 without.
    Bare,
    Framed,
    /// An entry that stands alone, or one in a wrapper.
    Message,
}

/// A batch that is being written; its encoder and buffer are handed in, so that it can wait while they do other work.
#[derive(Debug)]
pub(crate) struct Open {
    format: Format,
    fields: BatchFields,
    shape: Shape,
    /// Takes what a log may hold though no writer should: for conversions.
    lenient: bool,
    /// Where it begins in the output.
    pub(super) start: usize,
    /// Room kept for the header.
    room: usize,
    /// Where the records so far end, in the output or in the encoder's scratch. What is behind that is scratch too.
    filled: usize,
    count: u32,
    base_offset: i64,
    base_timestamp: i64,
    last_offset: i64,
    max_timestamp: i64,
}

impl Open {
    pub(crate) fn new(
        format: Format,
        fields: BatchFields,
        lenient: bool,
        encoder: &mut Encoder,
        out: &mut Vec<u8>,
    ) -> Result<Self, EncodeError> {
        check_fields(format, &fields).map_err(EncodeFlaw::of_batch)?;
        let shape = match format {
            Format::V2 => Shape::Full,
            Format::V3 if fields.ignore_message_attributes => Shape::Bare,
            Format::V3 => Shape::Full,
            Format::Kip82b => Shape::Framed,
            Format::V0 | Format::V1 | Format::Kip87 | Format::Kip82a => Shape::Message,
        };
        let start = out.len();
        let room = match format {
            Format::V3 => V3_MAX_HEADER,
            Format::V2 | Format::Kip82b => V2_HEADER,
            Format::V0 | Format::V1 | Format::Kip87 | Format::Kip82a => 0,
        };
        out.resize(start + room, 0);
        let compressed = fields.codec != Codec::None;
        if compressed && matches!(shape, Shape::Framed | Shape::Message) {
            encoder.records.clear();
        }
        let base_offset = fields.base_offset.unwrap_or(0);
        let base_timestamp = fields.base_timestamp.unwrap_or(-1);
        Ok(Self {
            format,
            fields,
            shape,
            lenient,
            start,
            room,
            filled: if compressed { 0 } else { start + room },
            count: 0,
            base_offset,
            base_timestamp,
            last_offset: base_offset,
            max_timestamp: -1,
        })
    }

    #[inline(always)]
    const fn compressed(&self) -> bool {
        !matches!(self.fields.codec, Codec::None)
    }

    pub(crate) const fn count(&self) -> u32 {
        self.count
    }

    /// Whether the batch's offsets can go as far.
    pub(super) fn reaches(&self, offset: i64) -> bool {
        self.count == 0 || i32::try_from(offset.wrapping_sub(self.base_offset)).is_ok()
    }

    /// Bytes so far, before compression.
    pub(crate) const fn size(&self) -> usize {
        if self.compressed() { self.room + self.filled } else { self.filled - self.start }
    }

    #[inline(always)]
    pub(crate) fn push(
        &mut self,
        record: &NewRecord<'_>,
        encoder: &mut Encoder,
        out: &mut Vec<u8>,
    ) -> Result<(), EncodeError> {
        let (base_offset, base_timestamp) = if self.count == 0 {
            let fields = &self.fields;
            (fields.base_offset.unwrap_or(record.offset), fields.base_timestamp.unwrap_or(record.timestamp))
        } else {
            (self.base_offset, self.base_timestamp)
        };
        let at = u64::from(self.count);
        self.admit(record, base_offset).map_err(|flaw| flaw.of(at))?;
        let target = if self.compressed() { &mut encoder.records } else { out };
        let bounded = !self.lenient;
        let delta = record.offset.wrapping_sub(base_offset);
        let deltas =
            Deltas { timestamp: record.timestamp.wrapping_sub(base_timestamp), offset: delta as i32 };
        self.filled = match self.shape {
            Shape::Full => varint_record::<true>(record, deltas, bounded, target, self.filled),
            Shape::Bare => varint_record::<false>(record, deltas, bounded, target, self.filled),
            Shape::Framed => framed_record(record, deltas, bounded, target).map(|()| target.len()),
            Shape::Message => {
                message(self.message(record, delta), record, bounded, target).map(|()| target.len())
            }
        }
        .map_err(|flaw| flaw.of(at))?;
        self.base_offset = base_offset;
        self.base_timestamp = base_timestamp;
        self.last_offset = record.offset;
        self.max_timestamp = self.max_timestamp.max(record.timestamp);
        self.count += 1;
        Ok(())
    }

    /// Whether format and batch can carry the record.
    #[inline(always)]
    fn admit(&self, record: &NewRecord<'_>, base: i64) -> Result<(), EncodeFlaw> {
        let delta = record.offset.wrapping_sub(base);
        if !self.lenient {
            if record.timestamp < -1 {
                return Err(EncodeFlaw::Timestamp(record.timestamp));
            }
            if self.count > 0 && record.offset <= self.last_offset {
                return Err(EncodeFlaw::OffsetOrder { offset: record.offset, previous: self.last_offset });
            }
            if record.offset < base {
                return Err(EncodeFlaw::OffsetRange { offset: record.offset, base });
            }
        }
        let in_range = match self.shape {
            Shape::Full | Shape::Bare => i32::try_from(delta).is_ok(),
            Shape::Framed => (0..=MAX_SIZE as i64).contains(&delta),
            // A wrapper's offset of 0, or below, would not tell its base.
            Shape::Message => self.format == Format::V0 || !self.compressed() || (delta >= 0 && base >= 0),
        };
        if !in_range {
            return Err(EncodeFlaw::OffsetRange { offset: record.offset, base });
        }
        if self.count == MAX_SIZE as u32 {
            return Err(EncodeFlaw::TooLarge("a batch's record count"));
        }
        let traits = self.format.traits();
        if matches!(traits.headers, HeaderSupport::No) && !record.headers.is_empty() {
            return Err(EncodeFlaw::Headers);
        }
        match (record.tombstone, record.value) {
            (None, _) | (Some(true), None) | (Some(false), Some(_)) => Ok(()),
            (Some(false), None) if self.lenient && traits.tombstone_flag => Ok(()),
            (Some(false), None) => Err(EncodeFlaw::LiveNullValue),
            (Some(true), Some(_)) if traits.tombstone_flag => Ok(()),
            (Some(true), Some(_)) => Err(EncodeFlaw::TombstoneValue),
        }
    }

    /// The fields of the message that holds `record`, `delta` above the base offset.
    fn message(&self, record: &NewRecord<'_>, delta: i64) -> Message {
        let append_time = self.fields.timestamp_type == TimestampType::LogAppendTime;
        let tombstone =
            self.format.traits().tombstone_flag && record.tombstone.unwrap_or(record.value.is_none());
        Message {
            format: self.format,
            offset: if self.compressed() && self.format != Format::V0 { delta } else { record.offset },
            // An entry that stands alone has no wrapper to tell the append time.
            timestamp: match self.fields.max_timestamp {
                Some(time) if append_time && !self.compressed() => time,
                _ => record.timestamp,
            },
            attributes: self.timestamp_bit() | if tombstone { attributes::TOMBSTONE } else { 0 },
        }
    }

    const fn timestamp_bit(&self) -> i16 {
        match self.fields.timestamp_type {
            TimestampType::LogAppendTime if self.format.traits().timestamps => attributes::LOG_APPEND_TIME,
            _ => 0,
        }
    }

    /// Ends the batch. On an error `out` is as it was before [`Open::new`].
    pub(crate) fn finish(
        &mut self,
        encoder: &mut Encoder,
        out: &mut Vec<u8>,
    ) -> Result<Written, EncodeError> {
        let done = self.seal(encoder, out);
        if done.is_err() {
            out.truncate(self.start);
        }
        done.map_err(EncodeFlaw::of_batch)?;
        Ok(Written {
            size: out.len() - self.start,
            count: self.count,
            base_offset: self.base_offset,
            last_offset: match self.fields.last_offset_delta {
                Some(delta) if self.room > 0 => self.base_offset.wrapping_add(i64::from(delta)),
                _ => self.last_offset,
            },
            max_timestamp: self.fields.max_timestamp.unwrap_or(self.max_timestamp),
        })
    }

    fn seal(&self, encoder: &mut Encoder, out: &mut Vec<u8>) -> Result<(), EncodeFlaw> {
        let family = self.format.traits().family;
        let compressed = self.compressed() && self.count > 0;
        let span = self.fields.last_offset_delta.map(i64::from).filter(|_| family == Family::Batch);
        if span.is_some_and(|span| self.last_offset.wrapping_sub(self.base_offset) > span && !self.lenient) {
            return Err(EncodeFlaw::OffsetRange { offset: self.last_offset, base: self.base_offset });
        }
        if !self.compressed() {
            out.truncate(self.filled);
        }
        if compressed {
            let lz4 = match self.format {
                Format::V0 => Lz4Checksum::Legacy,
                _ => Lz4Checksum::Standard,
            };
            encoder
                .compressor
                .compress(self.fields.codec, lz4, self.fields.level, &encoder.records[..self.filled], out)
                .map_err(|_| EncodeFlaw::Compress("the codec cannot compress"))?;
        }
        let size = out.len() - self.start;
        if size > MAX_SIZE && (family == Family::Batch || compressed) {
            return Err(EncodeFlaw::TooLarge("a batch"));
        }
        match (family, self.format) {
            (Family::Batch, Format::V3) => self.seal_v3(size - self.room, encoder, out),
            (Family::Batch, _) => {
                let head = self.head(size, compressed);
                let entry = &mut out[self.start..];
                entry[..V2_HEADER].copy_from_slice(&write_fixed(&head));
                batch::encode::seal(entry, CRC);
                Ok(())
            }
            (Family::MessageSet, _) if !self.compressed() => Ok(()),
            (Family::MessageSet, _) => self.seal_wrapper(size, encoder, out),
        }
    }

    fn seal_v3(&self, body: usize, encoder: &mut Encoder, out: &mut Vec<u8>) -> Result<(), EncodeFlaw> {
        let compressed = self.compressed() && self.count > 0;
        encoder.head.clear();
        let crc = write_v3(&self.head(0, compressed), body, &mut encoder.head);
        let at = self.start + self.room - encoder.head.len();
        out[at..at + encoder.head.len()].copy_from_slice(&encoder.head);
        out.copy_within(at.., self.start);
        out.truncate(self.start + encoder.head.len() + body);
        batch::encode::seal(&mut out[self.start..], crc);
        Ok(())
    }

    fn seal_wrapper(&self, value: usize, encoder: &mut Encoder, out: &mut Vec<u8>) -> Result<(), EncodeFlaw> {
        if self.count == 0 {
            return Err(EncodeFlaw::NoRecords);
        }
        let wrapper = Message {
            format: self.format,
            offset: self.last_offset,
            timestamp: self.fields.max_timestamp.unwrap_or(self.max_timestamp),
            attributes: self.timestamp_bit() | i16::from(self.fields.codec.id()),
        };
        encoder.head.clear();
        wrapper_head(wrapper, value, &mut encoder.head)?;
        // What the codec wrote moves on to make room.
        out.extend_from_slice(&encoder.head);
        out[self.start..].rotate_right(encoder.head.len());
        seal(self.start, out);
        Ok(())
    }

    /// The batch's header.
    fn head(&self, size: usize, compressed: bool) -> Head {
        let fields = &self.fields;
        let flag = |on: bool, mask: i16| if on { mask } else { 0 };
        let bare = self.shape == Shape::Bare;
        let delta = fields.last_offset_delta.map(i64::from);
        Head {
            format: self.format,
            size,
            body: 0,
            crc_from: 0,
            crc: 0,
            base_offset: self.base_offset,
            last_offset: delta.map_or(self.last_offset, |delta| self.base_offset.wrapping_add(delta)),
            attributes: i16::from(if compressed { fields.codec.id() } else { 0 })
                | self.timestamp_bit()
                | flag(fields.transactional, attributes::TRANSACTIONAL)
                | flag(fields.control, attributes::CONTROL)
                | flag(fields.delete_horizon, attributes::DELETE_HORIZON)
                | flag(bare, attributes::IGNORE_MESSAGE_ATTRIBUTES),
            timestamp_type: fields.timestamp_type,
            base_timestamp: self.base_timestamp,
            max_timestamp: fields.max_timestamp.unwrap_or(self.max_timestamp),
            leader_epoch: fields.leader_epoch,
            producer_id: fields.producer_id,
            producer_epoch: fields.producer_epoch,
            base_sequence: fields.base_sequence,
            count: Some(self.count as i32),
        }
    }
}

/// Whether the format has what the fields ask for.
fn check_fields(format: Format, fields: &BatchFields) -> Result<(), EncodeFlaw> {
    let traits = format.traits();
    if fields.codec.id() > traits.max_codec {
        return Err(EncodeFlaw::Codec(fields.codec));
    }
    if traits.producer {
        return Ok(());
    }
    match fields {
        BatchFields { transactional: true, .. } => Err(EncodeFlaw::Field("transactions")),
        BatchFields { control: true, .. } => Err(EncodeFlaw::Field("control batches")),
        BatchFields { delete_horizon: true, .. } => Err(EncodeFlaw::Field("delete horizon")),
        BatchFields { producer_id: 0.., .. } => Err(EncodeFlaw::Field("producer id")),
        _ => Ok(()),
    }
}
