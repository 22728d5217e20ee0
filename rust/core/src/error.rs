//! The one error of the core: what is wrong and at which byte, nothing formatted until it is shown.
//!
//! A [`Flaw`] says what is wrong and fits in a few machine words, so that the decode loop can return it
//! without touching memory. It becomes an [`Error`] where the position in the log is known, once a batch
//! and off the hot path.

use std::fmt;

/// The families of defects, as `verify` and the Python errors name them (`defect.kind`).
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// The stored checksum is not that of the bytes.
    Crc,
    /// A size that cannot be true.
    Length,
    /// A magic byte that the chosen format does not know.
    Magic,
    /// A codec that the format does not have.
    Codec,
    /// Compressed bytes that do not decompress.
    Decompress,
    /// A record whose fields contradict each other or run past its end.
    Record,
    /// A record count that does not fit the records.
    Count,
    /// A message-set wrapper that breaks the wrapper rules.
    Wrapper,
    /// Readable by every reader, but not as the canonical writer would have written it.
    Canonical,
    /// The last entry is incomplete.
    TornTail,
    /// Only zero bytes from here to the end, as a preallocated segment has.
    ZeroTail,
    /// Bytes that are no entry, with good entries behind them.
    Hole,
    /// Offsets that no batch has.
    Gap,
    /// Offsets that two batches have.
    Overlap,
    /// Offsets that fall.
    Disorder,
    /// Sequence numbers of a producer that do not follow on.
    Sequence,
    /// A leader's or a producer's epoch that goes back.
    Epoch,
    /// A file beside the segment (`.index`, `.timeindex`, checkpoint) that cannot be read.
    Index,
    /// A `.txnindex` that cannot be read.
    TxnIndex,
    /// More than the caller's limit allows.
    Limit,
}

impl Kind {
    /// The name that `defect.kind` shows.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Crc => "crc",
            Self::Length => "length",
            Self::Magic => "magic",
            Self::Codec => "codec",
            Self::Decompress => "decompress",
            Self::Record => "record",
            Self::Count => "count",
            Self::Wrapper => "wrapper",
            Self::Canonical => "canonical",
            Self::TornTail => "torn_tail",
            Self::ZeroTail => "zero_tail",
            Self::Hole => "hole",
            Self::Gap => "gap",
            Self::Overlap => "overlap",
            Self::Disorder => "disorder",
            Self::Sequence => "sequence",
            Self::Epoch => "epoch",
            Self::Index => "index",
            Self::TxnIndex => "txnindex",
            Self::Limit => "limit",
        }
    }
}

/// What exactly is wrong, with the numbers that prove it.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// The stored checksum is not that of the bytes.
    Crc {
        /// The checksum that the entry carries.
        stored: u32,
        /// The checksum of the bytes that it covers.
        computed: u32,
    },
    /// The size field is below what the format needs.
    SizeTooSmall {
        /// The size field's value, sign included.
        size: i64,
        /// The least that the format allows.
        minimum: u32,
    },
    /// The size field is over what any reader can hold (2^31 − 1 with the 12 bytes before it).
    SizeTooLarge {
        /// The size field's value.
        size: i64,
    },
    /// A magic byte that the chosen format does not read.
    Magic(i8),
    /// A codec id that the format does not have.
    Codec(u8),
    /// Compressed data that does not decompress; the text names the codec's own finding.
    Decompress(&'static str),
    /// A field that reads past the end of its record, message or block.
    PastEnd(&'static str),
    /// A varint of more bytes than its type has.
    Varint(&'static str),
    /// A negative number where none may be.
    Negative {
        /// The field.
        field: &'static str,
        /// Its value.
        value: i64,
    },
    /// A record that ends before or after the place that its length names.
    RecordEnd {
        /// Bytes that the length names.
        length: i64,
        /// Bytes that the fields take.
        used: i64,
    },
    /// More headers announced than bytes left.
    HeaderCount(i64),
    /// The batch ends before its count of records was read.
    TooFewRecords {
        /// The count in the batch header.
        count: i32,
        /// Records that were there.
        found: u32,
    },
    /// Bytes left after the last of the counted records.
    BytesAfterRecords {
        /// The count in the batch header.
        count: i32,
    },
    /// A negative record count.
    NegativeCount(i32),
    /// A wrapper rule that is broken; the text says which.
    Wrapper(&'static str),
    /// The last entry runs past the end of the data.
    TornTail {
        /// Bytes that are there.
        have: u64,
        /// Bytes that the entry needs; 0 where not even its size is there.
        need: u64,
    },
    /// Zeros to the end.
    ZeroTail {
        /// How many.
        bytes: u64,
    },
    /// Bytes that are no entry, with good entries behind them.
    Hole {
        /// How many.
        bytes: u64,
    },
    /// A broken `.index`, `.timeindex` or checkpoint; the text says how.
    Index(&'static str),
    /// A broken `.txnindex`; the text says how.
    TxnIndex(&'static str),
    /// Over a limit of the caller's.
    Limit {
        /// Which limit: `record`, `batch`, `decompressed` or `headers`.
        what: &'static str,
        /// The limit.
        limit: u64,
    },
}

impl Flaw {
    /// The family this belongs to.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Crc { .. } => Kind::Crc,
            Self::SizeTooSmall { .. } | Self::SizeTooLarge { .. } => Kind::Length,
            Self::Magic(_) => Kind::Magic,
            Self::Codec(_) => Kind::Codec,
            Self::Decompress(_) => Kind::Decompress,
            Self::PastEnd(_)
            | Self::Varint(_)
            | Self::Negative { .. }
            | Self::RecordEnd { .. }
            | Self::HeaderCount(_) => Kind::Record,
            Self::TooFewRecords { .. } | Self::BytesAfterRecords { .. } | Self::NegativeCount(_) => {
                Kind::Count
            }
            Self::Wrapper(_) => Kind::Wrapper,
            Self::TornTail { .. } => Kind::TornTail,
            Self::ZeroTail { .. } => Kind::ZeroTail,
            Self::Hole { .. } => Kind::Hole,
            Self::Index(_) => Kind::Index,
            Self::TxnIndex(_) => Kind::TxnIndex,
            Self::Limit { .. } => Kind::Limit,
        }
    }

    /// This flaw at a byte position of the log or file.
    #[cold]
    #[must_use]
    pub const fn at(self, position: u64) -> Error {
        Error { flaw: self, position, records: 0 }
    }
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Crc { stored, computed } => {
                write!(f, "wrong checksum: stored {stored:#010x}, computed {computed:#010x}")
            }
            Self::SizeTooSmall { size, minimum } => {
                write!(f, "size {size} is below the least that this format allows, {minimum}")
            }
            Self::SizeTooLarge { size } => {
                write!(f, "size {size} is over the largest that an entry can have")
            }
            Self::Magic(magic) => write!(f, "unknown magic {magic}"),
            Self::Codec(codec) => write!(f, "codec {codec} does not exist in this format"),
            Self::Decompress(what) => write!(f, "cannot decompress: {what}"),
            Self::PastEnd(field) => write!(f, "{field} runs past the end"),
            Self::Varint(field) => write!(f, "{field} is a varint of too many bytes"),
            Self::Negative { field, value } => write!(f, "{field} is negative: {value}"),
            Self::RecordEnd { length, used } => {
                write!(f, "record length says {length} bytes, its fields take {used}")
            }
            Self::HeaderCount(count) => {
                write!(f, "header count {count} does not fit the bytes that are left")
            }
            Self::TooFewRecords { count, found } => {
                write!(f, "count says {count} records, only {found} are there")
            }
            Self::BytesAfterRecords { count } => {
                write!(f, "bytes are left after the counted {count} records")
            }
            Self::NegativeCount(count) => write!(f, "record count is negative: {count}"),
            Self::Wrapper(what) => f.write_str(what),
            Self::TornTail { have, need: 0 } => {
                write!(f, "incomplete entry at the end: {have} bytes, too few for offset, size and magic")
            }
            Self::TornTail { have, need } => {
                write!(f, "incomplete entry at the end: {have} of {need} bytes are there")
            }
            Self::ZeroTail { bytes } => {
                write!(f, "{bytes} zero bytes to the end, as in a preallocated segment")
            }
            Self::Hole { bytes } => {
                write!(f, "{bytes} bytes that are no entry, good entries follow")
            }
            Self::Index(what) | Self::TxnIndex(what) => f.write_str(what),
            Self::Limit { what, limit } => write!(f, "over the limit for {what}: {limit}"),
        }
    }
}

/// A [`Flaw`] and where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Error {
    /// What is wrong.
    pub flaw: Flaw,
    /// Byte position in the log or file of the entry that is at fault.
    pub position: u64,
    /// How many records of that entry were sound before the flaw.
    pub records: u32,
}

impl Error {
    /// The family of the defect.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        self.flaw.kind()
    }

    /// The same error, with the number of records that were read before it.
    #[must_use]
    pub const fn after(mut self, records: u32) -> Self {
        self.records = records;
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at byte {}: {}", self.position, self.flaw)?;
        if self.records > 0 {
            write!(f, " (after {} sound records of this entry)", self.records)?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {}

/// What every fallible function of the core returns once a position is known.
pub type Result<T, E = Error> = std::result::Result<T, E>;
