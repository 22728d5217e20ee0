//! The records of a batch, written: the other half of `decode`, which has their drawing.

use crate::batch::decode::{NULL_KEY, NULL_VALUE};
use crate::checksum::Checksum;
use crate::encode_error::EncodeFlaw;
use crate::fill::{Fill, SLACK};
use crate::header::{HeaderLayout, nullable_len};
use crate::new_record::{HeaderRules, NewRecord};
use crate::varint::{uvarint_len, varint_len, varlong_len, write_uvarint, write_varlong};

/// No length may be over this.
const MAX_SIZE: usize = i32::MAX as usize;

/// Where a record stands in its batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deltas {
    /// Timestamp minus the batch's base timestamp, modulo 2^64.
    pub(crate) timestamp: i64,
    /// Offset minus the batch's base offset.
    pub(crate) offset: i32,
}

/// Writes one record of v2 (`ATTRIBUTES`) or of a v3 batch that leaves attributes out behind the first `filled` bytes
/// of `out`, over what is there, and returns where it ends. `out` grows as it has to; what is behind the end is scratch.
/// What is refused leaves the filled bytes as they were.
#[inline(always)]
pub(crate) fn varint_record<const ATTRIBUTES: bool>(
    record: &NewRecord<'_>,
    deltas: Deltas,
    bounded: bool,
    out: &mut Vec<u8>,
    filled: usize,
) -> Result<usize, EncodeFlaw> {
    if !ATTRIBUTES && record.attributes != 0 {
        return Err(EncodeFlaw::RecordAttributes(record.attributes));
    }
    let headers = record.headers.measure(HeaderRules { layout: HeaderLayout::Varint, bounded })?;
    let count = record.headers.len();
    let length = usize::from(ATTRIBUTES)
        + varlong_len(deltas.timestamp)
        + varint_len(deltas.offset)
        + nullable_len(record.key)
        + nullable_len(record.value)
        + varint_len(count as i32)
        + headers;
    if length > MAX_SIZE {
        return Err(EncodeFlaw::TooLarge("a record"));
    }
    let end = filled + varint_len(length as i32) + length;
    if out.len() < end + SLACK {
        grow(out, end + SLACK);
    }
    let mut fill = Fill::new(out, filled);
    fill.varint(length as i32);
    if ATTRIBUTES {
        fill.byte(record.attributes as u8);
    }
    fill.varlong(deltas.timestamp);
    fill.varint(deltas.offset);
    fill.nullable(record.key);
    fill.nullable(record.value);
    fill.varint(count as i32);
    record.headers.fill(&mut fill);
    debug_assert_eq!(fill.at(), end);
    Ok(end)
}

/// Makes place up to `end`, and some more: zeroing it in large pieces costs little.
#[cold]
fn grow(out: &mut Vec<u8>, end: usize) {
    const PIECE: usize = 4 << 10;
    out.resize(end.next_multiple_of(PIECE), 0);
}

/// Appends one record of KIP-82's draft B. What is refused leaves `out` as it was.
pub(crate) fn framed_record(
    record: &NewRecord<'_>,
    deltas: Deltas,
    bounded: bool,
    out: &mut Vec<u8>,
) -> Result<(), EncodeFlaw> {
    let headers = record.headers.measure(HeaderRules { layout: HeaderLayout::Framed, bounded })?;
    let length = 1
        + varlong_len(deltas.timestamp)
        + uvarint_len(deltas.offset as u32)
        + present_len(record.key)
        + present_len(record.value)
        + headers;
    if length > MAX_SIZE {
        return Err(EncodeFlaw::TooLarge("a record"));
    }
    let null_key = if record.key.is_none() { NULL_KEY } else { 0 };
    let null_value = if record.value.is_none() { NULL_VALUE } else { 0 };
    write_uvarint(length as u32, out);
    out.push((null_key | null_value) as u8);
    write_varlong(deltas.timestamp, out);
    write_uvarint(deltas.offset as u32, out);
    write_present(record.key, out);
    write_present(record.value, out);
    record.headers.write(HeaderLayout::Framed, out);
    Ok(())
}

fn present_len(bytes: Option<&[u8]>) -> usize {
    bytes.map_or(0, |bytes| uvarint_len(bytes.len() as u32) + bytes.len())
}

/// uvarint length and bytes; nothing for null, which the record's attributes tell.
fn write_present(bytes: Option<&[u8]>, out: &mut Vec<u8>) {
    if let Some(bytes) = bytes {
        write_uvarint(bytes.len() as u32, out);
        out.extend_from_slice(bytes);
    }
}

/// Fills in the checksum of a batch, which stands at `crc` and covers everything behind it.
pub(crate) fn seal(batch: &mut [u8], crc: usize) {
    let (head, covered) = batch.split_at_mut(crc + 4);
    head[crc..].copy_from_slice(&Checksum::Crc32C.of(covered).to_be_bytes());
}
