//! Any format to any other, entry by entry, in memory for one batch.
//!
//! Offsets, timestamps, keys, values and the order of records stay as they are; what the target cannot carry is
//! counted ([`Dropped`]). What is in the target format already is copied. Between v2 and v3 nothing is lost, and
//! uncompressed canonical bytes come back the same. Towards a message set this agrees with Kafka's own down-conversion
//! (`RecordsUtil.downConvert`), and with `first_offset` towards newer formats with its `LogValidator`.

mod carry;
mod converter;
mod dropped;

use std::{fmt, io};

use crate::codec::Codec;
use crate::encode_error::EncodeError;
use crate::error::Error;
use crate::format::Format;
use crate::limits::Limits;
use crate::log::{Damage, Mode, Options};
use crate::source::{Entries, Next, Source};

pub use converter::Converter;
pub use dropped::Dropped;

/// What to convert to, and how.
#[derive(Clone, Copy, Debug)]
pub struct Conversion {
    /// The target format.
    pub to: Format,
    /// The codec to write with; `None`: each batch's own.
    pub codec: Option<Codec>,
    /// The codec's level; `None`: Kafka's default.
    pub level: Option<i32>,
    /// Numbers the records anew from here on, without holes, as a broker does on arrival. Then adjacent uncompressed
    /// messages become one batch where the target has batches; batches without records are left out.
    pub first_offset: Option<i64>,
    /// The leader epoch to write, as a broker does on arrival; `None`: each batch's own.
    pub leader_epoch: Option<i32>,
    /// Towards a message set, records below this offset are left out, as in an answer to a fetch from there. A
    /// compressed batch stays whole.
    pub from_offset: Option<i64>,
    /// Leaves entries of an older format than the target as they are: what a broker does for a consumer that reads up to
    /// a format, not only that one. Counts for v0–v2.
    pub keep_older: bool,
    /// Lets a live record with a null value (KIP-87) turn into a delete.
    pub null_is_tombstone: bool,
    /// Bytes at which a batch made of single messages is closed.
    pub batch_bytes: usize,
    /// Bounds for reading.
    pub limits: Limits,
}

impl Conversion {
    /// To that format, with nothing else changed.
    #[must_use]
    pub fn new(to: Format) -> Self {
        Self {
            to,
            codec: None,
            level: None,
            first_offset: None,
            leader_epoch: None,
            from_offset: None,
            keep_older: false,
            null_is_tombstone: false,
            batch_bytes: 1 << 20,
            limits: Limits::default(),
        }
    }
}

/// Why a conversion stopped.
#[non_exhaustive]
#[derive(Debug)]
pub enum ConvertError {
    /// The source cannot be read.
    Read(Error),
    /// The target format cannot carry a record, or the batch.
    Write {
        /// Where the entry begins in the source.
        position: u64,
        /// What cannot be written. Its record counts within the entry.
        error: EncodeError,
    },
    /// Reading the source or writing the target failed.
    Io(io::Error),
}

impl fmt::Display for ConvertError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read(error) => error.fmt(f),
            Self::Write { position, error } => write!(f, "entry at byte {position}: {error}"),
            Self::Io(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ConvertError {}

impl From<Error> for ConvertError {
    fn from(error: Error) -> Self {
        Self::Read(error)
    }
}

impl From<io::Error> for ConvertError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// A log that was converted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Converted {
    /// The bytes in the target format; empty where they were written elsewhere.
    pub data: Vec<u8>,
    /// What the target could not carry.
    pub dropped: Dropped,
    /// What was no entry, or could not be read, and was left out: an incomplete tail and, unless the mode is
    /// [`Mode::FailFast`], damage.
    pub damage: Vec<Damage>,
}

/// Converts all of `entries`, handing the result on piece by piece.
///
/// # Errors
/// What cannot be written in the target format, at once; damage in [`Mode::FailFast`]; what `write` fails with. What
/// was handed on before stays.
pub fn convert_entries<S: Source>(
    entries: &mut Entries<S>,
    mode: Mode,
    conversion: Conversion,
    mut write: impl FnMut(&[u8]) -> io::Result<()>,
) -> Result<Converted, ConvertError> {
    let mut converter = Converter::new(conversion);
    let (mut out, mut damage) = (Vec::new(), Vec::new());
    loop {
        match entries.next()? {
            Next::End => break,
            Next::Damage(found) if found.is_tail() || mode != Mode::FailFast => damage.push(found),
            Next::Damage(found) => return Err(found.error().into()),
            Next::Entry(entry) => match converter.entry(&entry, &mut out) {
                Ok(()) => {}
                Err(ConvertError::Read(error)) if mode != Mode::FailFast => {
                    let end = entry.position + entry.bytes.len() as u64;
                    damage.push(Damage { range: entry.position..end, flaw: error.flaw });
                }
                Err(error) => return Err(error),
            },
        }
        write(&out)?;
        out.clear();
    }
    converter.finish(&mut out)?;
    write(&out)?;
    Ok(Converted { data: Vec::new(), dropped: *converter.dropped(), damage })
}

/// Converts a log that is in memory.
///
/// # Errors
/// As [`convert_entries`].
pub fn convert(bytes: &[u8], options: Options, conversion: Conversion) -> Result<Converted, ConvertError> {
    let mut data = Vec::with_capacity(bytes.len());
    let mut entries = Entries::new(bytes, options, 0);
    let done = convert_entries(&mut entries, options.mode, conversion, |piece| {
        data.extend_from_slice(piece);
        Ok(())
    })?;
    Ok(Converted { data, ..done })
}
