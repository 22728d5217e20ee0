//! One entry of a log, and how its records are got out.

use crate::batch;
use crate::codec::{Buffer, Codec, Decompressor, Lz4Checksum};
use crate::error::{Flaw, Result};
use crate::format::{Family, Format};
use crate::head::Head;
use crate::limits::Limits;
use crate::message_set;
use crate::message_set::decode::Inner;
use crate::record::{Record, Sink};

/// An entry: a batch, a wrapper, or a message that stands alone. A view; its records are not touched until asked.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// Where it begins in the log.
    pub position: u64,
    /// All of its bytes.
    pub bytes: &'a [u8],
    /// Its header.
    pub head: Head,
}

impl<'a> Entry<'a> {
    /// The checksum of the bytes as they are.
    #[inline]
    #[must_use]
    pub fn computed_crc(&self) -> u32 {
        let covered = self.bytes.get(self.head.crc_from..).unwrap_or_default();
        self.head.format.traits().checksum.of(covered)
    }

    /// Whether the stored checksum is that of the bytes.
    #[inline]
    pub fn check_crc(&self) -> Result<(), Flaw> {
        let computed = self.computed_crc();
        if computed != self.head.crc {
            return Err(Flaw::Crc { stored: self.head.crc, computed });
        }
        Ok(())
    }

    /// As [`Entry::check_crc`], for an entry at the front of `window`, whose bytes behind it are wanted next.
    #[inline]
    pub(crate) fn check_crc_in(&self, window: &[u8]) -> Result<(), Flaw> {
        let covered = window.get(self.head.crc_from..).unwrap_or_default();
        let length = self.head.size.saturating_sub(self.head.crc_from);
        let computed = self.head.format.traits().checksum.of_first(length, covered);
        if computed != self.head.crc {
            return Err(Flaw::Crc { stored: self.head.crc, computed });
        }
        Ok(())
    }

    /// Whether the records must be decompressed before they can be read.
    ///
    /// Kafka looks at no record byte of an empty batch, so neither do we: compaction leaves some.
    #[inline]
    #[must_use]
    pub fn is_compressed(&self) -> bool {
        self.head.codec_id() != Codec::None.id() && self.head.count.is_none_or(|count| count > 0)
    }

    /// Makes the records readable: borrows them where they are, or decompresses them into `buffer`.
    ///
    /// An error names the entry's position. A batch whose decompression breaks in the middle still opens, with what
    /// came out before ([`Payload::cut`]).
    pub fn open<'b>(
        &self,
        decompressor: &mut Decompressor,
        limits: &Limits,
        buffer: &'b mut Buffer,
    ) -> Result<Payload<'b>>
    where
        'a: 'b,
    {
        if !self.is_compressed() {
            return self.payload(&[], None);
        }
        let cut = self.decompress(decompressor, limits, buffer)?;
        self.payload(buffer.as_slice(), cut)
    }

    /// Decompresses the records into `buffer`, for [`Entry::payload`]. A batch that breaks in the middle leaves what
    /// came out before, and returns the flaw.
    pub fn decompress(
        &self,
        decompressor: &mut Decompressor,
        limits: &Limits,
        buffer: &mut Buffer,
    ) -> Result<Option<Flaw>> {
        let at = |flaw: Flaw| flaw.at(self.position);
        let codec = self.head.codec().ok_or_else(|| at(Flaw::Codec(self.head.codec_id())))?;
        let limit = usize::try_from(limits.decompressed).unwrap_or(usize::MAX);
        let (input, lz4) = match (self.head.format.traits().family, self.head.format) {
            (Family::Batch, _) => {
                let records = self.bytes.get(self.head.body..).unwrap_or_default();
                (records, Lz4Checksum::Standard)
            }
            (Family::MessageSet, format) => {
                let value = message_set::decode::wrapped(&self.head, self.bytes).map_err(at)?;
                let lenient = format == Format::V0;
                (value, if lenient { Lz4Checksum::Lenient } else { Lz4Checksum::Standard })
            }
        };
        match decompressor.decompress(codec, lz4, input, limit, buffer) {
            Ok(()) => Ok(None),
            // Kafka reads a wrapper as a whole before it hands out the first record; a batch record by record.
            Err(flaw) if self.head.count.is_none() || matches!(flaw, Flaw::Limit { .. }) => Err(at(flaw)),
            Err(flaw) => Ok(Some(flaw)),
        }
    }

    /// The records: in `decompressed` (see [`Entry::decompress`]) if the entry is compressed, else in its own bytes.
    pub fn payload<'b>(&self, decompressed: &'b [u8], cut: Option<Flaw>) -> Result<Payload<'b>>
    where
        'a: 'b,
    {
        let (head, position) = (self.head, self.position);
        let codec = head.codec().ok_or_else(|| Flaw::Codec(head.codec_id()).at(position))?;
        let (shape, bytes) = match head.format.traits().family {
            Family::Batch if self.is_compressed() => (Shape::Batch, decompressed),
            Family::Batch => (Shape::Batch, self.bytes.get(head.body..).unwrap_or_default()),
            Family::MessageSet if codec == Codec::None => (Shape::Message, self.bytes),
            Family::MessageSet => {
                let inner = Inner::survey(&head, decompressed).map_err(|flaw| flaw.at(position))?;
                (Shape::Wrapper(inner), decompressed)
            }
        };
        Ok(Payload { head, position, shape, bytes, cut })
    }
}

#[derive(Clone, Copy, Debug)]
enum Shape {
    Batch,
    Message,
    Wrapper(Inner),
}

/// An opened entry: its records, readable.
#[derive(Clone, Copy, Debug)]
pub struct Payload<'a> {
    head: Head,
    position: u64,
    shape: Shape,
    bytes: &'a [u8],
    cut: Option<Flaw>,
}

impl<'a> Payload<'a> {
    /// The entry's header.
    #[must_use]
    pub const fn head(&self) -> &Head {
        &self.head
    }

    /// The bytes that records are borrowed from: the entry's own or the decompressed ones.
    #[must_use]
    pub const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Why decompression ended early, if it did.
    #[must_use]
    pub const fn cut(&self) -> Option<Flaw> {
        self.cut
    }

    /// How many records there should be; for memory to be reserved, it is bounded by the bytes that are there.
    #[must_use]
    pub fn count_hint(&self) -> usize {
        match self.shape {
            Shape::Message => 1,
            Shape::Wrapper(inner) => inner.count as usize,
            Shape::Batch => {
                // No record takes fewer than four bytes.
                usize::try_from(self.head.count.unwrap_or(0)).unwrap_or(0).min(self.bytes.len() / 4)
            }
        }
    }

    /// The offset that the batch's offsets count from. A wrapper's is known only when it is open.
    #[must_use]
    pub const fn base_offset(&self) -> i64 {
        match self.shape {
            Shape::Wrapper(inner) => inner.base_offset(self.head.format),
            _ => self.head.base_offset,
        }
    }

    /// Decodes all records into `sink`; returns how many. An error names the entry's position and how many records
    /// were sound before it: those the sink has seen.
    #[inline]
    pub fn decode<S: Sink<'a>>(&self, limits: &Limits, sink: &mut S) -> Result<u32> {
        if limits.must_count(self.bytes.len()) {
            self.count_first(limits)?;
        }
        let (count, flaw) = self.decode_into(limits, sink);
        match flaw {
            None => Ok(count),
            Some(flaw) => Err(flaw.at(self.position).after(count)),
        }
    }

    /// Counts records and headers of a large payload before anybody notes where they lie.
    #[cold]
    #[inline(never)]
    fn count_first(&self, limits: &Limits) -> Result<()> {
        let mut counts = Counts::default();
        // What is wrong with them will be found again.
        let _ = self.decode_into(limits, &mut counts);
        limits.counted(counts.records, counts.headers).map_err(|flaw| flaw.at(self.position))
    }

    #[inline]
    fn decode_into<S: Sink<'a>>(&self, limits: &Limits, sink: &mut S) -> (u32, Option<Flaw>) {
        match self.shape {
            Shape::Batch => batch::decode::decode(&self.head, self.bytes, self.cut, limits, sink),
            Shape::Message => match message_set::decode::decode_one(&self.head, self.bytes, limits, sink) {
                Ok(()) => (1, None),
                Err(flaw) => (0, Some(flaw)),
            },
            Shape::Wrapper(inner) => inner.decode(&self.head, self.bytes, limits, sink),
        }
    }
}

#[derive(Default)]
struct Counts {
    records: u64,
    headers: u64,
}

impl<'a> Sink<'a> for Counts {
    fn record(&mut self, record: &Record<'a>) -> bool {
        self.records += 1;
        self.headers += record.headers.len() as u64;
        false
    }

    fn header(&mut self, _key: &'a [u8], _value: Option<&'a [u8]>) {}
}
