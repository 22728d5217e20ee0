//! Records to bytes: one batch at a time, in any of the formats, appended to a buffer of the caller's.
//!
//! An [`Encoder`] is kept from batch to batch, so that its codec contexts and scratch are. Uncompressed records are
//! written once, straight to their place; compressed ones into scratch, from where the codec takes them. Uncompressed
//! output is byte for byte what Kafka's own builder writes for v0–v2.
//!
//! ```
//! use magicbyte::{BatchFields, Encoder, Format, NewRecord};
//!
//! let records = [NewRecord { offset: 7, timestamp: 1_700_000_000_000, value: Some(b"v"), ..NewRecord::default() }];
//! let mut out = Vec::new();
//! let written = Encoder::new().encode(Format::V2, &BatchFields::default(), &records, &mut out)?;
//! assert_eq!((written.size, written.count, written.last_offset), (out.len(), 1, 7));
//! # Ok::<(), magicbyte::EncodeError>(())
//! ```

mod batcher;
mod open;

use std::borrow::Borrow;

use crate::codec::Compressor;
use crate::encode_error::EncodeError;
use crate::format::Format;
use crate::new_record::{BatchFields, NewRecord};

pub use batcher::Batcher;
pub(crate) use open::Open;

/// What was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// Bytes appended.
    pub size: usize,
    /// Records.
    pub count: u32,
    /// Offset that the batch's offsets count from.
    pub base_offset: i64,
    /// The last offset of the batch as its header has it; of a message set, the last record's.
    pub last_offset: i64,
    /// The batch's, in milliseconds; −1 for none.
    pub max_timestamp: i64,
}

/// Writes batches and message sets; keeps what one batch can leave to the next.
#[derive(Debug, Default)]
pub struct Encoder {
    compressor: Compressor,
    /// Records that wait for the codec.
    records: Vec<u8>,
    /// A header whose size is known only when all of its fields are.
    head: Vec<u8>,
}

impl Encoder {
    /// An encoder that holds no memory yet.
    #[must_use]
    pub const fn new() -> Self {
        Self { compressor: Compressor::new(), records: Vec::new(), head: Vec::new() }
    }

    /// Appends one batch to `out`; of a message-set format one wrapper, or without a codec one entry a record.
    ///
    /// # Errors
    /// What the format cannot carry, and which record has it. `out` is then as it was.
    pub fn encode<'r, R>(
        &mut self,
        format: Format,
        fields: &BatchFields,
        records: impl IntoIterator<Item = R>,
        out: &mut Vec<u8>,
    ) -> Result<Written, EncodeError>
    where
        R: Borrow<NewRecord<'r>>,
    {
        let mut writer = self.begin(format, fields, out)?;
        for record in records {
            writer.push(record.borrow())?;
        }
        writer.finish()
    }

    /// Begins a batch whose records come one by one.
    ///
    /// # Errors
    /// [`crate::EncodeFlaw::Codec`] and [`crate::EncodeFlaw::Field`] where the format does not have what `fields` asks for.
    pub fn begin<'e>(
        &'e mut self,
        format: Format,
        fields: &BatchFields,
        out: &'e mut Vec<u8>,
    ) -> Result<Writer<'e>, EncodeError> {
        let open = Open::new(format, fields.clone(), false, self, out)?;
        Ok(Writer { encoder: self, out, open })
    }
}

/// A batch whose records are being written. Dropped before [`Writer::finish`], it leaves no trace.
#[derive(Debug)]
pub struct Writer<'e> {
    encoder: &'e mut Encoder,
    out: &'e mut Vec<u8>,
    open: Open,
}

impl Writer<'_> {
    /// Appends a record.
    ///
    /// # Errors
    /// What the format cannot carry. The record is left out, and the batch goes on without it.
    #[inline]
    pub fn push(&mut self, record: &NewRecord<'_>) -> Result<(), EncodeError> {
        self.open.push(record, self.encoder, self.out)
    }

    /// Bytes so far: exact without a codec, before compression with one. For batches that are cut by size.
    #[must_use]
    pub const fn size(&self) -> usize {
        self.open.size()
    }

    /// Records so far.
    #[must_use]
    pub const fn count(&self) -> u32 {
        self.open.count()
    }

    /// Compresses, where the batch has a codec, and writes header and checksum.
    ///
    /// # Errors
    /// [`crate::EncodeFlaw::TooLarge`], and [`crate::EncodeFlaw::NoRecords`] for an empty compressed message set.
    pub fn finish(mut self) -> Result<Written, EncodeError> {
        let written = self.open.finish(self.encoder, self.out)?;
        self.open.start = self.out.len();
        Ok(written)
    }
}

impl Drop for Writer<'_> {
    fn drop(&mut self) {
        self.out.truncate(self.open.start);
    }
}
