//! What a format cannot carry: why a record or a batch was not written.

use std::fmt;

use crate::codec::Codec;

/// Longest header key that a writer takes, in bytes. KIP-82's own text bounds it by an int16.
pub const MAX_HEADER_KEY: usize = i16::MAX as usize;

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
