//! What is to be written: a record, and the fields of its batch.

use crate::codec::Codec;
use crate::encode_error::{EncodeFlaw, MAX_HEADER_KEY};
use crate::fill::Fill;
use crate::head::TimestampType;
use crate::header::{Header, HeaderLayout, Headers};
use crate::record::Record;

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
            // So few bytes hold no key that is too long.
            Self::Encoded(headers)
                if headers.layout() == rules.layout
                    && (!rules.bounded || headers.bytes().len() <= MAX_HEADER_KEY) =>
            {
                Ok(headers.bytes().len())
            }
            Self::List(list) if rules.layout == HeaderLayout::Varint => {
                let mut bytes = 0;
                for header in *list {
                    check_key(header.key, rules)?;
                    bytes += header.len(HeaderLayout::Varint);
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
            if rules.layout == HeaderLayout::Framed && header.value.is_none() {
                return Err(EncodeFlaw::NullHeaderValue { header: index });
            }
            bytes += header.len(rules.layout);
        }
        match self {
            // Copied as they are, padded lengths included.
            Self::Encoded(headers) if headers.layout() == rules.layout => Ok(headers.bytes().len()),
            _ => Ok(bytes),
        }
    }

    /// Fills them in, in [`HeaderLayout::Varint`]; [`NewHeaders::measure`] came before.
    #[inline(always)]
    pub(crate) fn fill(&self, fill: &mut Fill<'_>) {
        match self {
            Self::List(list) => {
                for header in *list {
                    fill_header(header, fill);
                }
            }
            Self::Encoded(headers) if headers.layout() == HeaderLayout::Varint => fill.bytes(headers.bytes()),
            Self::Encoded(headers) => {
                for header in *headers {
                    fill_header(&header, fill);
                }
            }
        }
    }

    /// Appends them; [`NewHeaders::measure`] came before.
    #[inline(always)]
    pub(crate) fn write(&self, layout: HeaderLayout, out: &mut Vec<u8>) {
        match self {
            Self::List([]) => {}
            Self::Encoded(headers) if headers.layout() == layout => out.extend_from_slice(headers.bytes()),
            Self::List(list) => {
                for header in *list {
                    header.write(layout, out);
                }
            }
            Self::Encoded(headers) => {
                for header in *headers {
                    header.write(layout, out);
                }
            }
        }
    }
}

#[inline(always)]
fn fill_header(header: &Header<'_>, fill: &mut Fill<'_>) {
    fill.varint(header.key.len() as i32);
    fill.bytes(header.key);
    fill.nullable(header.value);
}

#[inline(always)]
fn check_key(key: &[u8], rules: HeaderRules) -> Result<(), EncodeFlaw> {
    if key.len() > MAX_HEADER_KEY && rules.bounded {
        return Err(EncodeFlaw::HeaderKeyLength(key.len() as u64));
    }
    Ok(())
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
