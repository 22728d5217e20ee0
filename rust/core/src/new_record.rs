//! What is to be written: a record, the fields of its batch, and what a format cannot carry.

use std::fmt;

use crate::codec::Codec;
use crate::head::TimestampType;
use crate::header::{Header, HeaderLayout, Headers};
use crate::record::Record;
use crate::varint::{uvarint_len, varint_len};

/// Longest header key that a writer takes, in bytes (the bound of the KIP-82 proposals' int16 lengths).
pub const MAX_HEADER_KEY: usize = i16::MAX as usize;

/// The headers of a record to be written: encoded ones are copied as a whole where the layout is the target's.
#[derive(Clone, Copy, Debug)]
pub enum NewHeaders<'a> {
    /// As a reader handed them out.
    Encoded(Headers<'a>),
    /// One by one.
    List(&'a [Header<'a>]),
}

impl Default for NewHeaders<'_> {
    fn default() -> Self {
        Self::List(&[])
    }
}

impl<'a> From<Headers<'a>> for NewHeaders<'a> {
    fn from(headers: Headers<'a>) -> Self {
        Self::Encoded(headers)
    }
}

impl<'a> From<&'a [Header<'a>]> for NewHeaders<'a> {
    fn from(headers: &'a [Header<'a>]) -> Self {
        Self::List(headers)
    }
}

/// What a format asks of headers before they are written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeaderRules {
    pub(crate) layout: HeaderLayout,
    /// Whether key lengths are bounded; a conversion carries over what a log already holds.
    pub(crate) bounded: bool,
}

impl<'a> NewHeaders<'a> {
    /// How many.
    #[inline(always)]
    #[must_use]
    pub const fn len(&self) -> usize {
        match self {
            Self::Encoded(headers) => headers.len(),
            Self::List(headers) => headers.len(),
        }
    }

    /// Whether there is none.
    #[inline(always)]
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// In order.
    pub fn iter(&self) -> impl Iterator<Item = Header<'a>> {
        let (encoded, list) = match *self {
            Self::Encoded(headers) => (headers, &[][..]),
            Self::List(list) => (Headers::default(), list),
        };
        encoded.iter().chain(list.iter().copied())
    }

    /// Bytes that they take in a layout, after a look at whether it can carry them.
    #[inline(always)]
    pub(crate) fn measure(&self, rules: HeaderRules) -> Result<usize, EncodeFlaw> {
        match self {
            Self::List([]) => Ok(0),
            Self::Encoded(headers) if headers.layout() == rules.layout && !rules.bounded => {
                Ok(headers.bytes().len())
            }
            Self::List(list) if rules.layout == HeaderLayout::Varint => {
                let mut bytes = 0;
                for header in *list {
                    check_key(header.key, rules)?;
                    bytes += header.varint_len();
                }
                Ok(bytes)
            }
            _ => self.measure_each(rules),
        }
    }

    #[inline(never)]
    fn measure_each(&self, rules: HeaderRules) -> Result<usize, EncodeFlaw> {
        let mut bytes = 0;
        for (index, header) in self.iter().enumerate() {
            check_key(header.key, rules)?;
            bytes += match (rules.layout, header.value) {
                (HeaderLayout::Varint, _) => header.varint_len(),
                (HeaderLayout::Framed, Some(value)) => {
                    let length = framed_len(header.key, value);
                    uvarint_len(length as u32) + length
                }
                (HeaderLayout::Framed, None) => return Err(EncodeFlaw::NullHeaderValue { header: index }),
            };
        }
        Ok(bytes)
    }

    /// Appends them; [`NewHeaders::measure`] came before.
    #[inline(always)]
    pub(crate) fn write(&self, layout: HeaderLayout, out: &mut Vec<u8>) {
        match self {
            Self::List([]) => {}
            Self::Encoded(headers) if headers.layout() == layout => out.extend_from_slice(headers.bytes()),
            Self::List(list) if layout == HeaderLayout::Varint => {
                for header in *list {
                    header.write_varint(out);
                }
            }
            _ => self.write_each(layout, out),
        }
    }

    #[inline(never)]
    fn write_each(&self, layout: HeaderLayout, out: &mut Vec<u8>) {
        for header in self.iter() {
            match layout {
                HeaderLayout::Varint => header.write_varint(out),
                HeaderLayout::Framed => header.write_framed(out),
            }
        }
    }
}

fn framed_len(key: &[u8], value: &[u8]) -> usize {
    uvarint_len(key.len() as u32) + key.len() + value.len()
}

#[inline(always)]
fn check_key(key: &[u8], rules: HeaderRules) -> Result<(), EncodeFlaw> {
    if key.len() > MAX_HEADER_KEY && rules.bounded {
        return Err(EncodeFlaw::HeaderKeyLength(key.len() as u64));
    }
    Ok(())
}

/// A length as a varint has it: −1 for null. Sizes that are too large are refused by the record's size.
#[inline(always)]
pub(crate) const fn length_of(bytes: Option<&[u8]>) -> i32 {
    match bytes {
        Some(bytes) => bytes.len() as i32,
        None => -1,
    }
}

/// A record to be written, its parts borrowed.
#[derive(Clone, Copy, Debug, Default)]
pub struct NewRecord<'a> {
    /// Absolute offset in the partition. Offsets rise within a batch.
    pub offset: i64,
    /// The timestamp to be stored, in milliseconds since the epoch; −1 for none, and nothing below. v0 drops it, as
    /// Kafka's builder does.
    pub timestamp: i64,
    /// The record's own attributes byte: v2 and v3 alone have one, and no Kafka has given a bit of it a meaning.
    pub attributes: i8,
    /// `None` is null.
    pub key: Option<&'a [u8]>,
    /// `None` is null.
    pub value: Option<&'a [u8]>,
    /// KIP-87's flag. `None`: a tombstone where the value is null.
    pub tombstone: Option<bool>,
    /// In order.
    pub headers: NewHeaders<'a>,
}

impl<'a> From<&Record<'a>> for NewRecord<'a> {
    /// The same record. The attributes byte of a message set's record means other things, and is for the caller to
    /// clear.
    fn from(record: &Record<'a>) -> Self {
        Self {
            offset: record.offset,
            timestamp: record.timestamp,
            attributes: record.attributes,
            key: record.key,
            value: record.value,
            tombstone: record.tombstone,
            headers: NewHeaders::Encoded(record.headers),
        }
    }
}

/// The fields of a batch to be written. What is `None` is computed as Kafka's own builder computes it.
///
/// A message set has few of them: of an uncompressed one the entries stand alone, and only `timestamp_type` and, under
/// LogAppendTime, `max_timestamp` are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchFields {
    /// Offset that the batch's offsets count from; `None`: the first record's (0 without records).
    pub base_offset: Option<i64>,
    /// Distance of the last offset, which compaction keeps; `None`: the last record's (0 without records).
    pub last_offset_delta: Option<i32>,
    /// Leader epoch of the partition, −1 where unknown.
    pub leader_epoch: i32,
    /// Codec of the records. A batch without records is never compressed.
    pub codec: Codec,
    /// Level of the codec, drawn into its range; `None`: Kafka's default.
    pub level: Option<i32>,
    /// Whose clock the timestamps are of. Has no meaning in v0.
    pub timestamp_type: TimestampType,
    /// Milliseconds; `None`: the first record's timestamp (−1 without records). With `delete_horizon`, that horizon.
    pub base_timestamp: Option<i64>,
    /// Milliseconds; `None`: the largest of the records' (−1 without records). Under LogAppendTime, the append time.
    pub max_timestamp: Option<i64>,
    /// −1 for none.
    pub producer_id: i64,
    /// −1 for none.
    pub producer_epoch: i16,
    /// −1 for none.
    pub base_sequence: i32,
    /// Part of a transaction (KIP-98).
    pub transactional: bool,
    /// Its records are control records (KIP-98).
    pub control: bool,
    /// `base_timestamp` is the time from which on the batch may be deleted (KIP-534).
    pub delete_horizon: bool,
    /// v3: records carry no attributes byte.
    pub ignore_message_attributes: bool,
}

impl Default for BatchFields {
    fn default() -> Self {
        Self {
            base_offset: None,
            last_offset_delta: None,
            leader_epoch: -1,
            codec: Codec::None,
            level: None,
            timestamp_type: TimestampType::CreateTime,
            base_timestamp: None,
            max_timestamp: None,
            producer_id: -1,
            producer_epoch: -1,
            base_sequence: -1,
            transactional: false,
            control: false,
            delete_horizon: false,
            ignore_message_attributes: true,
        }
    }
}

/// Why something cannot be written in a format.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EncodeFlaw {
    /// The format has no headers.
    Headers,
    /// A null header value, which KIP-82's draft B cannot write.
    NullHeaderValue {
        /// Which of the record's headers, from 0.
        header: usize,
    },
    /// A header key of more than [`MAX_HEADER_KEY`] bytes.
    HeaderKeyLength(u64),
    /// A timestamp below −1.
    Timestamp(i64),
    /// An offset that does not rise.
    OffsetOrder {
        /// The record's offset.
        offset: i64,
        /// That of the record before.
        previous: i64,
    },
    /// An offset below the base offset, or more than 2^31 − 1 above it.
    OffsetRange {
        /// The record's offset.
        offset: i64,
        /// The batch's.
        base: i64,
    },
    /// A live record with a null value, which only KIP-87's tombstone flag could tell from a delete, and which KIP-87
    /// refuses to write.
    LiveNullValue,
    /// A tombstone with a value, in a format without KIP-87's flag.
    TombstoneValue,
    /// A record's attributes byte is not 0, in a v3 batch that leaves it out.
    RecordAttributes(i8),
    /// The format does not have the codec.
    Codec(Codec),
    /// The format does not have the field.
    Field(&'static str),
    /// A compressed message set needs a record.
    NoRecords,
    /// More than 2^31 − 1 bytes, or records.
    TooLarge(&'static str),
    /// The codec's library fails.
    Compress(&'static str),
}

impl EncodeFlaw {
    /// This flaw of the record of that index.
    #[cold]
    #[must_use]
    pub const fn of(self, record: u64) -> EncodeError {
        EncodeError { record: Some(record), flaw: self }
    }

    /// This flaw of the batch.
    #[cold]
    #[must_use]
    pub const fn of_batch(self) -> EncodeError {
        EncodeError { record: None, flaw: self }
    }
}

impl fmt::Display for EncodeFlaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Headers => f.write_str("the format has no headers"),
            Self::NullHeaderValue { header } => {
                write!(f, "header {header} has a null value, which the format cannot write")
            }
            Self::HeaderKeyLength(length) => {
                write!(f, "a header key of {length} bytes is over {MAX_HEADER_KEY}")
            }
            Self::Timestamp(timestamp) => write!(f, "timestamp {timestamp} is below -1"),
            Self::OffsetOrder { offset, previous } => {
                write!(f, "offset {offset} does not rise over {previous}")
            }
            Self::OffsetRange { offset, base } => {
                write!(f, "offset {offset} is no offset of a batch that begins at {base}")
            }
            Self::LiveNullValue => {
                f.write_str("a record with a null value that is no tombstone cannot be written")
            }
            Self::TombstoneValue => f.write_str("the format cannot write a tombstone that has a value"),
            Self::RecordAttributes(byte) => {
                write!(f, "record attributes {byte} in a batch that ignores record attributes")
            }
            Self::Codec(codec) => write!(f, "the format does not have the codec {}", codec.name()),
            Self::Field(field) => write!(f, "the format has no {field}"),
            Self::NoRecords => f.write_str("a compressed message set needs a record"),
            Self::TooLarge(what) => write!(f, "{what} over 2^31 - 1"),
            Self::Compress(what) => f.write_str(what),
        }
    }
}

/// An [`EncodeFlaw`] and the record that has it.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EncodeError {
    /// Which of the batch's records, from 0; `None` where it is the batch itself.
    pub record: Option<u64>,
    /// What is wrong.
    pub flaw: EncodeFlaw,
}

impl fmt::Display for EncodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.record {
            Some(record) => write!(f, "record {record}: {}", self.flaw),
            None => write!(f, "{}", self.flaw),
        }
    }
}

impl std::error::Error for EncodeError {}

/// What a record takes at the very least is an int32, so every size is checked against this.
pub(crate) const MAX_SIZE: usize = i32::MAX as usize;

impl Header<'_> {
    /// Bytes that [`Header::write_varint`] takes.
    #[inline(always)]
    pub(crate) fn varint_len(&self) -> usize {
        varint_len(self.key.len() as i32)
            + self.key.len()
            + varint_len(length_of(self.value))
            + self.value.map_or(0, <[u8]>::len)
    }
}
