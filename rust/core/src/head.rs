//! What an entry says of itself before its records are touched: the fields of a batch header, or of a message.

use crate::codec::Codec;
use crate::format::Format;

/// Whose clock a timestamp is of (KIP-32).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i8)]
pub enum TimestampType {
    /// v0 has no timestamps.
    None = -1,
    /// The producer's.
    CreateTime = 0,
    /// The broker's: every record of the batch takes the batch's.
    LogAppendTime = 1,
}

/// The bits of a batch's or message's attributes.
pub mod attributes {
    /// Bits 0–2: the codec.
    pub const CODEC: i16 = 0x07;
    /// Bit 3: LogAppendTime.
    pub const LOG_APPEND_TIME: i16 = 0x08;
    /// Bit 4 (batches): part of a transaction (KIP-98).
    pub const TRANSACTIONAL: i16 = 0x10;
    /// Bit 5 (batches): control records (KIP-98).
    pub const CONTROL: i16 = 0x20;
    /// Bit 6 (batches): baseTimestamp is the delete horizon (KIP-534).
    pub const DELETE_HORIZON: i16 = 0x40;
    /// Bit 7 (v3): records carry no attributes byte.
    pub const IGNORE_MESSAGE_ATTRIBUTES: i16 = 0x80;
    /// Bit 5 (kip87 messages): a tombstone.
    pub const TOMBSTONE: i16 = 0x20;
    /// Bit 4 (kip82a messages): the two header fields are there.
    pub const HAS_HEADERS: i16 = 0x10;
}

/// The header of one entry: a batch, a wrapper, or a message that stands alone.
///
/// What a format does not have holds its default: −1 for producer state and leader epoch, `None` for the count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The entry's format.
    pub format: Format,
    /// Bytes of the whole entry, offset and size fields included.
    pub size: usize,
    /// Where the records begin in the entry; for a message set, the message's key length.
    pub body: usize,
    /// Where the bytes that the checksum covers begin; they go to the entry's end.
    pub crc_from: usize,
    /// The stored checksum.
    pub crc: u32,
    /// Offset of the batch; of a message set's entry, that entry's own (a wrapper carries its last record's).
    pub base_offset: i64,
    /// The last offset of the batch as its header has it, which compaction keeps.
    pub last_offset: i64,
    /// int16 in batches, int8 in messages.
    pub attributes: i16,
    /// CreateTime or LogAppendTime; none in v0.
    pub timestamp_type: TimestampType,
    /// Milliseconds; with a delete horizon, that horizon. −1 for none.
    pub base_timestamp: i64,
    /// Milliseconds; a message set's: the entry's own. −1 for none.
    pub max_timestamp: i64,
    /// Leader epoch of the partition, −1 where unknown.
    pub leader_epoch: i32,
    /// −1 for none.
    pub producer_id: i64,
    /// −1 for none.
    pub producer_epoch: i16,
    /// −1 for none.
    pub base_sequence: i32,
    /// Records by the batch header; `None` in message sets.
    pub count: Option<i32>,
}

impl Head {
    /// The codec's id as stored.
    #[inline]
    #[must_use]
    pub const fn codec_id(&self) -> u8 {
        (self.attributes & attributes::CODEC) as u8
    }

    /// The codec, if the format has it.
    #[inline]
    #[must_use]
    pub const fn codec(&self) -> Option<Codec> {
        if self.codec_id() > self.format.traits().max_codec {
            return None;
        }
        Codec::from_id(self.codec_id())
    }

    const fn flag(&self, mask: i16) -> bool {
        self.format.traits().producer && self.attributes & mask != 0
    }

    /// Whether it is part of a transaction.
    #[inline]
    #[must_use]
    pub const fn is_transactional(&self) -> bool {
        self.flag(attributes::TRANSACTIONAL)
    }

    /// Whether its records are control records.
    #[inline]
    #[must_use]
    pub const fn is_control(&self) -> bool {
        self.flag(attributes::CONTROL)
    }

    /// The delete horizon in milliseconds, where there is one (KIP-534).
    #[inline]
    #[must_use]
    pub const fn delete_horizon(&self) -> Option<i64> {
        if self.flag(attributes::DELETE_HORIZON) { Some(self.base_timestamp) } else { None }
    }

    /// v3: whether records carry no attributes byte.
    #[inline]
    #[must_use]
    pub const fn ignores_message_attributes(&self) -> bool {
        self.flag(attributes::IGNORE_MESSAGE_ATTRIBUTES) && matches!(self.format, Format::V3)
    }

    /// The append time that all records take, under LogAppendTime.
    #[inline]
    #[must_use]
    pub const fn append_time(&self) -> Option<i64> {
        match self.timestamp_type {
            TimestampType::LogAppendTime => Some(self.max_timestamp),
            _ => None,
        }
    }

    /// What a consumer sees as the timestamp of a record that stores `stored`.
    #[inline]
    #[must_use]
    pub const fn effective_timestamp(&self, stored: i64) -> i64 {
        match self.append_time() {
            Some(time) => time,
            None => stored,
        }
    }

    /// The sequence number of the record at `offset`, wrapping at 2^31 − 1 to 0; −1 where the batch has none.
    #[inline]
    #[must_use]
    pub const fn sequence(&self, offset: i64) -> i32 {
        if self.base_sequence < 0 {
            return -1;
        }
        let delta = offset.wrapping_sub(self.base_offset);
        (self.base_sequence as i64).wrapping_add(delta).rem_euclid(1 << 31) as i32
    }
}
