//! The codecs that Kafka compresses records with: one file a codec, one table here, output always bounded.
//!
//! What is read and what is refused follows Apache Kafka's own reader (`org.apache.kafka.common.compress`).
//! Memory grows with what really comes out, never with what the input claims.

mod behind;
mod buffer;
mod gzip;
mod lz4;
mod snappy;
#[cfg(test)]
mod tests;
mod zstd;

use std::ops::RangeInclusive;

pub use buffer::Buffer;

use crate::error::Flaw;

/// A compression codec, by the id in bits 0–2 of the attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Codec {
    /// Not compressed.
    None = 0,
    /// gzip, RFC 1952.
    Gzip = 1,
    /// Snappy blocks, in xerial's framing or as one raw block.
    Snappy = 2,
    /// An LZ4 frame of independent blocks.
    Lz4 = 3,
    /// Zstandard, from batches of magic 2 on (KIP-110).
    Zstd = 4,
}

impl Codec {
    /// Every codec, by id.
    pub const ALL: [Self; 5] = [Self::None, Self::Gzip, Self::Snappy, Self::Lz4, Self::Zstd];

    /// The codec of an id, `None` for the ids that Kafka has not given out (5, 6, 7 and all above).
    #[must_use]
    pub const fn from_id(id: u8) -> Option<Self> {
        match id {
            0 => Some(Self::None),
            1 => Some(Self::Gzip),
            2 => Some(Self::Snappy),
            3 => Some(Self::Lz4),
            4 => Some(Self::Zstd),
            _ => None,
        }
    }

    /// The id in the attributes.
    #[must_use]
    pub const fn id(self) -> u8 {
        self as u8
    }

    /// Kafka's name, as in `compression.type`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Gzip => "gzip",
            Self::Snappy => "snappy",
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
        }
    }

    /// The codec of a name, in Kafka's spelling.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|codec| codec.name() == name)
    }

    /// The levels that Kafka takes (KIP-780), `None` for a codec without levels.
    #[must_use]
    pub const fn levels(self) -> Option<RangeInclusive<i32>> {
        match self {
            Self::None | Self::Snappy => None,
            Self::Gzip => Some(1..=9),
            Self::Lz4 => Some(1..=17),
            Self::Zstd => Some(-131_072..=22),
        }
    }

    /// The level that Kafka takes by itself, `None` for a codec without levels.
    #[must_use]
    pub const fn default_level(self) -> Option<i32> {
        match self {
            Self::None | Self::Snappy => None,
            Self::Gzip => Some(6),
            Self::Lz4 => Some(lz4::DEFAULT_LEVEL),
            Self::Zstd => Some(3),
        }
    }

    /// `level` drawn into the range that the codec has; Kafka's default where it is `None`.
    fn level(self, level: Option<i32>) -> i32 {
        match (level, self.levels()) {
            (Some(level), Some(range)) => level.clamp(*range.start(), *range.end()),
            _ => self.default_level().unwrap_or_default(),
        }
    }
}

/// How the checksum of an LZ4 frame header is treated.
///
/// Kafka's writer of magic 0 computed it over the frame magic too, which the LZ4 frame format leaves out
/// (KAFKA-3160).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Lz4Checksum {
    /// As the LZ4 frame format says: written so, and checked.
    Standard,
    /// Written as the format says, not looked at when read: Kafka's way of reading magic 0.
    Lenient,
    /// Written over the wrong bytes, as magic 0 needs it; not looked at when read.
    Legacy,
}

/// The decompressors of every codec, their contexts kept from one batch to the next.
#[derive(Default)]
pub struct Decompressor {
    gzip: Option<gzip::Reader>,
    zstd: Option<zstd::Reader>,
}

impl Decompressor {
    /// A decompressor that has no context yet; each is made when its codec is first met.
    #[must_use]
    pub const fn new() -> Self {
        Self { gzip: None, zstd: None }
    }

    /// Replaces `out` with the decompressed bytes of `input`; bytes after the compressed stream are treated
    /// as Kafka treats them (ignored for gzip and lz4, an error for snappy and zstd).
    ///
    /// `lz4` counts for [`Codec::Lz4`] alone.
    ///
    /// # Errors
    /// [`Flaw::Decompress`] where the bytes break the codec's format or end early, [`Flaw::Limit`] where more
    /// than `limit` bytes come out. `out` then holds what came out before the defect: at least what Kafka's
    /// streaming reader would have seen.
    pub fn decompress(
        &mut self,
        codec: Codec,
        lz4: Lz4Checksum,
        input: &[u8],
        limit: usize,
        out: &mut Buffer,
    ) -> Result<(), Flaw> {
        out.clear();
        match codec {
            Codec::None => {
                let (fits, over) = input.split_at(input.len().min(limit));
                out.extend_from_slice(fits);
                if over.is_empty() { Ok(()) } else { Err(over_limit(limit)) }
            }
            Codec::Gzip => self.gzip.get_or_insert_with(gzip::Reader::new).decompress(input, limit, out),
            Codec::Snappy => snappy::decompress(input, limit, out),
            Codec::Lz4 => lz4::decompress(lz4, input, limit, out),
            Codec::Zstd => self.zstd.get_or_insert_with(zstd::Reader::new).decompress(input, limit, out),
        }
    }
}

/// The compressors of every codec, their contexts kept from one batch to the next.
#[derive(Default)]
pub struct Compressor {
    gzip: Option<gzip::Writer>,
    snappy: Option<snap::raw::Encoder>,
    zstd: Option<zstd_safe::CCtx<'static>>,
    /// Where a codec that must see all of its room at once writes to.
    scratch: Buffer,
}

impl Compressor {
    /// A compressor that has no context yet; each is made when its codec is first asked for.
    #[must_use]
    pub const fn new() -> Self {
        Self { gzip: None, snappy: None, zstd: None, scratch: Buffer::new() }
    }

    /// Appends the compressed form of `input` to `out`, framed as Kafka's own writer frames it.
    ///
    /// `level` is drawn into [`Codec::levels`]; `None` is Kafka's default. `lz4` counts for [`Codec::Lz4`]
    /// alone.
    ///
    /// # Errors
    /// [`Flaw::Decompress`] where the codec's library fails, which it does only for want of memory.
    pub fn compress(
        &mut self,
        codec: Codec,
        lz4: Lz4Checksum,
        level: Option<i32>,
        input: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), Flaw> {
        let level = codec.level(level);
        let scratch = &mut self.scratch;
        match codec {
            Codec::None => {
                out.extend_from_slice(input);
                Ok(())
            }
            Codec::Gzip => gzip::compress(&mut self.gzip, level, input, scratch, out),
            Codec::Snappy => {
                snappy::compress(self.snappy.get_or_insert_with(snap::raw::Encoder::new), input, scratch, out)
            }
            Codec::Lz4 => lz4::compress(lz4, level, input, scratch, out),
            Codec::Zstd => zstd::compress(
                self.zstd.get_or_insert_with(zstd_safe::CCtx::create),
                level,
                input,
                scratch,
                out,
            ),
        }
    }
}

impl std::fmt::Debug for Decompressor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Decompressor").finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Compressor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Compressor").finish_non_exhaustive()
    }
}

/// The error of output that grows over the caller's limit.
#[cold]
const fn over_limit(limit: usize) -> Flaw {
    Flaw::Limit { what: "decompressed", limit: limit as u64 }
}
