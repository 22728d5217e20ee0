//! gzip (RFC 1952), read as Java's `GZIPInputStream` reads it.
//!
//! ```text
//! member = 1F 8B, method 08, flags u8, time u32, extra flags u8, system u8, [extra], [name], [comment],
//!          [header CRC u16], deflate data, CRC-32 u32, size u32
//! ```
//! Little-endian. Members may follow each other; what follows a member and is no header ends the stream and is
//! ignored. One sound member, which is what Kafka's writers make, goes through libdeflate at once; everything
//! else is read as a stream, which keeps what came out before a defect.

use flate2::{Decompress, FlushDecompress, Status};
use libdeflater::{CompressionLvl, crc32};

use super::{Buffer, over_limit};
use crate::error::Flaw;

const MAGIC: [u8; 3] = [0x1F, 0x8B, 0x08];
const FLAG_HEADER_CRC: u8 = 0x02;
const FLAG_EXTRA: u8 = 0x04;
const FLAG_NAME: u8 = 0x08;
const FLAG_COMMENT: u8 = 0x10;
const HEADER_SIZE: usize = 10;
const FLAGS_AT: usize = 3;
const TRAILER_SIZE: usize = 8;
/// Java looks for a further member only behind which more than this follows.
const LEAST_MEMBER: usize = HEADER_SIZE + TRAILER_SIZE;

/// A claimed size over this many times the input is not believed before the bytes have come.
const BELIEVED_EXPANSION: usize = 64;
const USUAL_EXPANSION: usize = 4;
/// The least that the buffer grows by.
const STEP: usize = 4 * 1024;
/// libdeflate's fast loop wants this much room behind the last byte.
const SLACK: usize = 320;

/// Kept decompression contexts; the one for streams is made when first needed.
pub(super) struct Reader {
    whole: libdeflater::Decompressor,
    stream: Option<Decompress>,
}

impl Reader {
    pub(super) fn new() -> Self {
        Self { whole: libdeflater::Decompressor::new(), stream: None }
    }

    /// Appends what the members in `input` hold to the empty `out`.
    pub(super) fn decompress(&mut self, input: &[u8], limit: usize, out: &mut Buffer) -> Result<(), Flaw> {
        if self.one_member(input, limit, out) {
            return Ok(());
        }
        let stream = self.stream.get_or_insert_with(|| Decompress::new(false));
        members(stream, input, limit, out)
    }

    /// Reads one sound member at once. `false`, and `out` still empty, where it is not that.
    fn one_member(&mut self, input: &[u8], limit: usize, out: &mut Buffer) -> bool {
        let (Some(flags), Some(size)) = (input.get(FLAGS_AT), input.last_chunk::<4>()) else {
            return false;
        };
        // libdeflate does not look at header checksums, and stops after the first member.
        if flags & FLAG_HEADER_CRC != 0 || has_magic(input.get(LEAST_MEMBER..).unwrap_or_default()) {
            return false;
        }
        let size = u32::from_le_bytes(*size) as usize;
        let believed = input.len().saturating_mul(BELIEVED_EXPANSION);
        let want = if size <= believed { size + SLACK } else { input.len().saturating_mul(USUAL_EXPANSION) };
        match self.whole.gzip_decompress(input, out.room(want, limit)) {
            Ok(made) => {
                out.advance(made);
                true
            }
            Err(_) => false,
        }
    }
}

/// Whether a member may start anywhere in `bytes`.
pub(super) fn has_magic(bytes: &[u8]) -> bool {
    // Whole pieces without an early way out, so that the compiler makes vector code of it.
    const PIECE: usize = 64;
    let pairs = bytes.get(1..).unwrap_or_default();
    let (firsts, _) = bytes[..pairs.len()].as_chunks::<PIECE>();
    let (seconds, tail) = pairs.as_chunks::<PIECE>();
    let suspect = |(firsts, seconds): (&[u8; PIECE], &[u8; PIECE])| {
        let mut hit = 0;
        for at in 0..PIECE {
            hit |= u8::from(firsts[at] == MAGIC[0]) & u8::from(seconds[at] == MAGIC[1]);
        }
        hit != 0
    };
    let exact = |bytes: &[u8]| bytes.windows(MAGIC.len()).any(|window| window == MAGIC);
    // A suspect piece is looked at with the two bytes behind it, the tail with the one before it.
    firsts.iter().zip(seconds).enumerate().any(|(piece, pair)| {
        let start = piece * PIECE;
        suspect(pair) && exact(&bytes[start..bytes.len().min(start + PIECE + MAGIC.len() - 1)])
    }) || exact(&bytes[bytes.len() - (tail.len() + 1).min(bytes.len())..])
}

fn members(stream: &mut Decompress, input: &[u8], limit: usize, out: &mut Buffer) -> Result<(), Flaw> {
    let mut rest = after_header(input)?;
    loop {
        let start = out.len();
        stream.reset(false);
        rest = inflate(stream, rest, limit, out)?;
        let (trailer, tail) = rest
            .split_first_chunk::<TRAILER_SIZE>()
            .ok_or(Flaw::Decompress("gzip: stream ends within its trailer"))?;
        let [c0, c1, c2, c3, s0, s1, s2, s3] = *trailer;
        let member = &out.as_slice()[start..];
        if u32::from_le_bytes([c0, c1, c2, c3]) != crc32(member)
            || u32::from_le_bytes([s0, s1, s2, s3]) != member.len() as u32
        {
            return Err(Flaw::Decompress("gzip: wrong checksum or size in the trailer"));
        }
        if tail.len() <= LEAST_MEMBER {
            return Ok(());
        }
        match after_header(tail) {
            Ok(body) => rest = body,
            Err(_) => return Ok(()),
        }
    }
}

/// What follows the member header at the start of `input`.
fn after_header(input: &[u8]) -> Result<&[u8], Flaw> {
    const ENDS: Flaw = Flaw::Decompress("gzip: stream ends within its header");
    if !input.starts_with(&MAGIC[..MAGIC.len().min(input.len())]) {
        return Err(Flaw::Decompress("gzip: not in gzip format"));
    }
    let (header, mut rest) = input.split_at_checked(HEADER_SIZE).ok_or(ENDS)?;
    let flags = header[FLAGS_AT];
    if flags & FLAG_EXTRA != 0 {
        let (length, tail) = rest.split_first_chunk().ok_or(ENDS)?;
        rest = tail.get(usize::from(u16::from_le_bytes(*length))..).ok_or(ENDS)?;
    }
    for text in [FLAG_NAME, FLAG_COMMENT] {
        if flags & text != 0 {
            let end = rest.iter().position(|byte| *byte == 0).ok_or(ENDS)?;
            rest = &rest[end + 1..];
        }
    }
    if flags & FLAG_HEADER_CRC != 0 {
        let covered = &input[..input.len() - rest.len()];
        let (stored, tail) = rest.split_first_chunk().ok_or(ENDS)?;
        if u32::from(u16::from_le_bytes(*stored)) != crc32(covered) & 0xFFFF {
            return Err(Flaw::Decompress("gzip: wrong header checksum"));
        }
        rest = tail;
    }
    Ok(rest)
}

/// Appends the deflate data at the start of `input`; what follows it.
fn inflate<'a>(
    stream: &mut Decompress,
    input: &'a [u8],
    limit: usize,
    out: &mut Buffer,
) -> Result<&'a [u8], Flaw> {
    loop {
        let (used, before) = (stream.total_in() as usize, stream.total_out());
        let mut spill = [0; 1];
        let room = out.room(STEP, limit);
        let at_limit = room.is_empty();
        let target = if at_limit { &mut spill[..] } else { room };
        let status = stream.decompress(&input[used..], target, FlushDecompress::None);
        let made = (stream.total_out() - before) as usize;
        if at_limit && made > 0 {
            return Err(over_limit(limit));
        }
        out.advance(made);
        let now = stream.total_in() as usize;
        match status {
            Ok(Status::StreamEnd) => return Ok(&input[now..]),
            Ok(_) if made > 0 || now > used => {}
            Ok(_) => return Err(Flaw::Decompress("gzip: stream ends early")),
            Err(_) => return Err(Flaw::Decompress("gzip: corrupt deflate data")),
        }
    }
}

/// A kept compressor and its level.
pub(super) struct Writer {
    level: i32,
    compressor: libdeflater::Compressor,
}

/// Appends one member with `input` to `out`.
pub(super) fn compress(
    kept: &mut Option<Writer>,
    level: i32,
    input: &[u8],
    scratch: &mut Buffer,
    out: &mut Vec<u8>,
) -> Result<(), Flaw> {
    const FAILS: Flaw = Flaw::Decompress("gzip: cannot compress");
    if kept.as_ref().is_some_and(|writer| writer.level != level) {
        *kept = None;
    }
    let writer = match kept {
        Some(writer) => writer,
        None => {
            let quality = CompressionLvl::new(level).map_err(|_| FAILS)?;
            kept.insert(Writer { level, compressor: libdeflater::Compressor::new(quality) })
        }
    };
    scratch.clear();
    let room = scratch.room(writer.compressor.gzip_compress_bound(input.len()), usize::MAX);
    let length = writer.compressor.gzip_compress(input, room).map_err(|_| FAILS)?;
    out.extend_from_slice(&room[..length]);
    Ok(())
}
