//! Snappy, in the two forms that Kafka logs hold.
//!
//! ```text
//! xerial (Java, kafka-python, aiokafka) = header, (length int32, block)*
//! header                                = 82 'SNAPPY' 00, version int32, least compatible version int32
//! raw (librdkafka)                      = one block, no header
//! ```
//! As xerial's `SnappyInputStream` reads it: a header may stand again wherever a length may (streams that were
//! joined), and up to three bytes at the end, too few for a length, are ignored.

use super::{Buffer, over_limit};
use crate::error::Flaw;

/// `82 S N A P P Y 00`.
const MAGIC: [u8; 8] = *b"\x82SNAPPY\0";
/// Magic and two versions.
const HEADER_SIZE: usize = 16;
/// Both version fields, as xerial writes them.
const VERSION: i32 = 1;
/// How much Kafka's writer puts in a block before compressing it.
const BLOCK_SIZE: usize = 32 * 1024;
/// What one step of a block makes at most …
const COPY_LENGTH: usize = 64;
/// … and the bytes that such a step takes at least (a tag and a two-byte offset).
const COPY_SIZE: usize = 3;

/// Appends what `input` holds to `out`.
pub(super) fn decompress(input: &[u8], limit: usize, out: &mut Buffer) -> Result<(), Flaw> {
    if input.is_empty() {
        return Err(Flaw::Decompress("snappy: no bytes"));
    }
    if input.len() < HEADER_SIZE || !input.starts_with(&MAGIC) {
        return block(input, limit, out);
    }
    let mut rest = &input[HEADER_SIZE..];
    while let Some((length, tail)) = rest.split_first_chunk::<4>() {
        if length == &MAGIC[..4] {
            rest = after_joined_header(rest)?;
            continue;
        }
        let length = usize::try_from(i32::from_be_bytes(*length))
            .map_err(|_| Flaw::Decompress("snappy: negative block length"))?;
        let (bytes, tail) =
            tail.split_at_checked(length).ok_or(Flaw::Decompress("snappy: block runs past the end"))?;
        block(bytes, limit, out)?;
        rest = tail;
    }
    Ok(())
}

/// What follows a header in the middle. Java looks at its version, which it does not at the start, but reads
/// on where only half of the magic fits.
fn after_joined_header(input: &[u8]) -> Result<&[u8], Flaw> {
    let (header, rest) = input
        .split_at_checked(HEADER_SIZE)
        .ok_or(Flaw::Decompress("snappy: joined stream ends within its header"))?;
    let version = i32::from_be_bytes([header[8], header[9], header[10], header[11]]);
    if header.starts_with(&MAGIC) && version < VERSION {
        return Err(Flaw::Decompress("snappy: stream version below 1"));
    }
    Ok(rest)
}

fn block(input: &[u8], limit: usize, out: &mut Buffer) -> Result<(), Flaw> {
    const BAD: Flaw = Flaw::Decompress("snappy: corrupt block");
    if input.is_empty() {
        return Err(BAD);
    }
    let length = snap::raw::decompress_len(input).map_err(|_| BAD)?;
    // A block cannot make more than this, so a larger claim is false and gets no memory.
    if length > (input.len() / COPY_SIZE + 1).saturating_mul(COPY_LENGTH) {
        return Err(BAD);
    }
    if length > limit.saturating_sub(out.len()) {
        return Err(over_limit(limit));
    }
    let room = &mut out.room(length, limit)[..length];
    let made = snap::raw::Decoder::new().decompress(input, room).map_err(|_| BAD)?;
    out.advance(made);
    Ok(())
}

/// Appends xerial's framing of `input` to `out`, in the block size of Kafka's writer.
pub(super) fn compress(
    encoder: &mut snap::raw::Encoder,
    input: &[u8],
    scratch: &mut Buffer,
    out: &mut Vec<u8>,
) -> Result<(), Flaw> {
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&VERSION.to_be_bytes());
    out.extend_from_slice(&VERSION.to_be_bytes());
    scratch.clear();
    let room = scratch.room(snap::raw::max_compress_len(BLOCK_SIZE), usize::MAX);
    for block in input.chunks(BLOCK_SIZE) {
        let length =
            encoder.compress(block, room).map_err(|_| Flaw::Decompress("snappy: cannot compress"))?;
        out.extend_from_slice(&(length as u32).to_be_bytes());
        out.extend_from_slice(&room[..length]);
    }
    Ok(())
}
