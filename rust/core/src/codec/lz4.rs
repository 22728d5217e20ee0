//! The LZ4 frame, as far as Kafka takes it: one frame of independent blocks.
//!
//! ```text
//! frame  = magic 04 22 4D 18, FLG u8, BD u8, [content size u64], HC u8, block*, end mark u32 0, [content checksum u32]
//! FLG    = version 2 bits (01), independent blocks, block checksums, content size, content checksum, 2 bits 0
//! BD     = 0, block size class 3 bits (4–7: 64 KiB, 256 KiB, 1 MiB, 4 MiB), 4 bits 0
//! block  = size u32 (bit 31: stored, not compressed), bytes, [xxh32 of the bytes]
//! ```
//! Little-endian. HC is the second byte of the xxh32 of FLG to content size. As Kafka's `Lz4BlockInputStream`:
//! content size and content checksum are passed over, and so is everything behind them.

use lz4::block::{CompressionMode, compress_bound, compress_to_buffer, decompress_to_buffer};
use twox_hash::XxHash32;

use super::{Buffer, Lz4Checksum, over_limit};
use crate::error::Flaw;

/// The level that stands for LZ4's fast mode in Kafka; every other one is high compression at that level.
pub(super) const DEFAULT_LEVEL: i32 = 9;

const MAGIC: [u8; 4] = 0x184D_2204_u32.to_le_bytes();
const FLG_RESERVED: u8 = 0x03;
const FLG_CONTENT_CHECKSUM: u8 = 0x04;
const FLG_CONTENT_SIZE: u8 = 0x08;
const FLG_BLOCK_CHECKSUM: u8 = 0x10;
const FLG_INDEPENDENT: u8 = 0x20;
const FLG_VERSION: u8 = 0xC0;
const FLG_VERSION_1: u8 = 0x40;
const BD_RESERVED: u8 = 0x8F;
const STORED: u32 = 1 << 31;

/// What Kafka writes: independent blocks of 64 KiB, no checksums.
const WRITTEN_FLG: u8 = FLG_VERSION_1 | FLG_INDEPENDENT;
const WRITTEN_BD: u8 = 4 << 4;
const WRITTEN_BLOCK: usize = 64 * 1024;

/// A compressed byte makes at most this many.
const EXPANSION: usize = 255;

const ENDS: Flaw = Flaw::Decompress("lz4: frame ends early");

/// The part of a frame header that matters to its blocks.
struct Frame {
    flg: u8,
    block_size: usize,
}

/// Appends what the frame in `input` holds to `out`.
pub(super) fn decompress(
    checksum: Lz4Checksum,
    input: &[u8],
    limit: usize,
    out: &mut Buffer,
) -> Result<(), Flaw> {
    let (frame, mut rest) = header(checksum, input)?;
    loop {
        let size = u32::from_le_bytes(take(&mut rest)?);
        let (stored, size) = (size & STORED != 0, (size & !STORED) as usize);
        if size == 0 {
            if frame.flg & FLG_CONTENT_CHECKSUM != 0 {
                take::<4>(&mut rest)?;
            }
            return Ok(());
        }
        if size > frame.block_size {
            return Err(Flaw::Decompress("lz4: block larger than the frame allows"));
        }
        let (block, tail) = rest.split_at_checked(size).ok_or(ENDS)?;
        rest = tail;
        if frame.flg & FLG_BLOCK_CHECKSUM != 0
            && u32::from_le_bytes(take(&mut rest)?) != XxHash32::oneshot(0, block)
        {
            return Err(Flaw::Decompress("lz4: wrong block checksum"));
        }
        if stored {
            let (fits, over) = block.split_at(size.min(limit.saturating_sub(out.len())));
            out.extend_from_slice(fits);
            if !over.is_empty() {
                return Err(over_limit(limit));
            }
        } else {
            expand(block, frame.block_size, limit, out)?;
        }
    }
}

/// The header and what follows it.
fn header(checksum: Lz4Checksum, input: &[u8]) -> Result<(Frame, &[u8]), Flaw> {
    let mut rest = input;
    if take::<4>(&mut rest)? != MAGIC {
        return Err(Flaw::Decompress("lz4: no frame magic"));
    }
    let descriptor = rest;
    let [flg, bd] = take(&mut rest)?;
    if flg & FLG_VERSION != FLG_VERSION_1 || flg & FLG_RESERVED != 0 || bd & BD_RESERVED != 0 {
        return Err(Flaw::Decompress("lz4: unknown frame version or reserved bits set"));
    }
    if flg & FLG_INDEPENDENT == 0 {
        return Err(Flaw::Decompress("lz4: blocks that depend on each other, which Kafka does not read"));
    }
    let class = u32::from(bd >> 4);
    if class < 4 {
        return Err(Flaw::Decompress("lz4: unknown block size"));
    }
    if flg & FLG_CONTENT_SIZE != 0 {
        take::<8>(&mut rest)?;
    }
    let covered = &descriptor[..descriptor.len() - rest.len()];
    let [stored] = take(&mut rest)?;
    if checksum == Lz4Checksum::Standard && stored != header_checksum(covered) {
        return Err(Flaw::Decompress("lz4: wrong header checksum"));
    }
    // Class 4 is 2^16 bytes, and each class four times the one before.
    Ok((Frame { flg, block_size: 1 << (2 * class + 8) }, rest))
}

/// Appends one compressed block.
fn expand(block: &[u8], block_size: usize, limit: usize, out: &mut Buffer) -> Result<(), Flaw> {
    const BAD: Flaw = Flaw::Decompress("lz4: corrupt block");
    let most = block_size.min(block.len().saturating_mul(EXPANSION));
    let room = out.room(most, limit);
    let size = room.len().min(most);
    if let Ok(made) = decompress_to_buffer(block, Some(size as i32), room) {
        out.advance(made);
        return Ok(());
    }
    if size == most {
        return Err(BAD);
    }
    // Short of room by the limit: only a block that is sound is one that is over the limit.
    let mut whole = vec![0; most];
    let made = decompress_to_buffer(block, Some(most as i32), &mut whole).map_err(|_| BAD)?;
    out.extend_from_slice(&whole[..made.min(size)]);
    Err(over_limit(limit))
}

fn take<'a, const N: usize>(rest: &mut &'a [u8]) -> Result<[u8; N], Flaw> {
    let (bytes, tail): (&'a [u8; N], &'a [u8]) = rest.split_first_chunk().ok_or(ENDS)?;
    *rest = tail;
    Ok(*bytes)
}

fn header_checksum(bytes: &[u8]) -> u8 {
    (XxHash32::oneshot(0, bytes) >> 8) as u8
}

/// Appends a frame with `input` to `out`.
pub(super) fn compress(
    checksum: Lz4Checksum,
    level: i32,
    input: &[u8],
    scratch: &mut Buffer,
    out: &mut Vec<u8>,
) -> Result<(), Flaw> {
    const FAILS: Flaw = Flaw::Decompress("lz4: cannot compress");
    let mut header = [0; MAGIC.len() + 2];
    header[..MAGIC.len()].copy_from_slice(&MAGIC);
    header[MAGIC.len()..].copy_from_slice(&[WRITTEN_FLG, WRITTEN_BD]);
    let covered = if checksum == Lz4Checksum::Legacy { &header[..] } else { &header[MAGIC.len()..] };
    out.extend_from_slice(&header);
    out.push(header_checksum(covered));
    let mode = match level {
        DEFAULT_LEVEL => CompressionMode::DEFAULT,
        level => CompressionMode::HIGHCOMPRESSION(level),
    };
    scratch.clear();
    let room = scratch.room(compress_bound(WRITTEN_BLOCK).map_err(|_| FAILS)?, usize::MAX);
    for block in input.chunks(WRITTEN_BLOCK) {
        let length = compress_to_buffer(block, Some(mode), false, room).map_err(|_| FAILS)?;
        let (flag, bytes) = if length < block.len() { (0, &room[..length]) } else { (STORED, block) };
        out.extend_from_slice(&(bytes.len() as u32 | flag).to_le_bytes());
        out.extend_from_slice(bytes);
    }
    out.extend_from_slice(&0_u32.to_le_bytes());
    Ok(())
}
