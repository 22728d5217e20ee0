//! Messages of a message set, written: the other half of `decode`; `layout` has the drawing.

use crate::checksum::Checksum;
use crate::encode_error::EncodeFlaw;
use crate::format::Format;
use crate::head::attributes;
use crate::header::{HeaderLayout, nullable_len, write_nullable};
use crate::message_set::layout::{CRC, MAGIC, OVERHEAD, V0_HEADER, V1_HEADER};
use crate::new_record::{HeaderRules, NewRecord};
use crate::varint::{varint_len, write_varint};

/// What goes before a message's key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Message {
    pub(crate) format: Format,
    /// As stored: relative in a wrapper from v1 on.
    pub(crate) offset: i64,
    /// Milliseconds; v0 has none.
    pub(crate) timestamp: i64,
    pub(crate) attributes: i16,
}

impl Message {
    const fn header(&self) -> usize {
        if self.format.traits().timestamps { V1_HEADER } else { V0_HEADER }
    }

    /// Appends all fields before the key of an entry of `size` bytes. The checksum is left 0.
    fn write_head(&self, size: usize, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.offset.to_be_bytes());
        out.extend_from_slice(&((size - OVERHEAD) as i32).to_be_bytes());
        out.extend_from_slice(&[0; MAGIC - CRC]);
        out.push(self.format.traits().magic as u8);
        out.push(self.attributes as u8);
        if self.format.traits().timestamps {
            out.extend_from_slice(&self.timestamp.to_be_bytes());
        }
    }
}

/// Fills in the checksum of the entry that goes from `start` to the end of `out`.
pub(crate) fn seal(start: usize, out: &mut [u8]) {
    let (head, covered) = out[start..].split_at_mut(MAGIC);
    head[CRC..].copy_from_slice(&Checksum::Crc32.of(covered).to_be_bytes());
}

/// Appends an entry with one record. What is refused leaves `out` as it was.
pub(crate) fn message(
    mut message: Message,
    record: &NewRecord<'_>,
    bounded: bool,
    out: &mut Vec<u8>,
) -> Result<(), EncodeFlaw> {
    let start = out.len();
    if message.format == Format::Kip82a {
        let headers = record.headers.measure(HeaderRules { layout: HeaderLayout::Varint, bounded })?;
        let block = if record.headers.is_empty() {
            0
        } else {
            message.attributes |= attributes::HAS_HEADERS;
            varint_len(headers as i32) + headers
        };
        let size = message.header() + nullable_len(record.key) + block + nullable_len(record.value);
        message.write_head(checked(size)?, out);
        write_nullable(record.key, out);
        if block > 0 {
            write_varint(headers as i32, out);
            record.headers.write(HeaderLayout::Varint, out);
        }
        write_nullable(record.value, out);
    } else {
        let size = message.header() + bytes32_len(record.key) + bytes32_len(record.value);
        message.write_head(checked(size)?, out);
        write_bytes32(record.key, out);
        write_bytes32(record.value, out);
    }
    seal(start, out);
    Ok(())
}

/// Appends what goes before the value of a wrapper, whose value takes `value` bytes and follows. [`seal`] comes last.
pub(crate) fn wrapper_head(message: Message, value: usize, out: &mut Vec<u8>) -> Result<(), EncodeFlaw> {
    if message.format == Format::Kip82a {
        let size = message.header() + varint_len(-1) + varint_len(value as i32) + value;
        message.write_head(checked(size)?, out);
        write_nullable(None, out);
        write_varint(value as i32, out);
    } else {
        message.write_head(checked(message.header() + 4 + 4 + value)?, out);
        write_bytes32(None, out);
        out.extend_from_slice(&(value as i32).to_be_bytes());
    }
    Ok(())
}

/// The size of an entry, if an int32 has room for it.
const fn checked(size: usize) -> Result<usize, EncodeFlaw> {
    if size > i32::MAX as usize { Err(EncodeFlaw::TooLarge("a message")) } else { Ok(size) }
}

fn bytes32_len(bytes: Option<&[u8]>) -> usize {
    4 + bytes.map_or(0, <[u8]>::len)
}

fn write_bytes32(bytes: Option<&[u8]>, out: &mut Vec<u8>) {
    out.extend_from_slice(&bytes.map_or(-1, |bytes| bytes.len() as i32).to_be_bytes());
    out.extend_from_slice(bytes.unwrap_or_default());
}
