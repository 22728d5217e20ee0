//! Where an entry ends and which format it is of, told from its first bytes.
//!
//! Magic is at byte 16 in every format but v3, whose length has no fixed width. Byte 8, the first of the length,
//! decides: 0x00–0x1F is a classic int32 size below 512 MiB (a v3 batch counts at least 32); 0x80 and above would be
//! a negative size, so it is v3 or corrupt; in between it is a huge classic entry, or a tiny v3 batch, which then
//! proves itself by magic and checksum.

use crate::batch::layout as batch;
use crate::bytes::field;
use crate::entry::Entry;
use crate::error::Flaw;
use crate::format::{Dialect, Family, Format};
use crate::head::Head;
use crate::message_set::layout as message_set;

/// Bytes that tell a classic entry's magic.
const UP_TO_MAGIC: u64 = message_set::MAGIC as u64 + 1;
/// What no classic int32 size field may pass, with the 12 bytes before it.
const MAX_ENTRY: i64 = i32::MAX as i64;

/// What the front of some bytes is.
pub(crate) enum Frame<'a> {
    /// A whole entry.
    Entry(Entry<'a>),
    /// Sound so far, but more bytes are needed: in all so many, 0 where that is not known yet.
    Short(u64),
    /// No entry.
    Flaw(Flaw),
}

/// Looks at the front of `bytes`, which stand at `position` in the log.
pub(crate) fn frame(bytes: &[u8], position: u64, dialect: Dialect) -> Frame<'_> {
    let v3 = match (dialect, bytes.get(batch::LENGTH)) {
        (_, None) => return Frame::Short(0),
        (Dialect::Only(Format::V3), _) => true,
        (Dialect::Only(_), _) | (_, Some(0..0x20)) => false,
        (_, Some(0x80..)) => true,
        (_, Some(_)) => is_tiny_v3(bytes),
    };
    let framed = if v3 { v3_frame(bytes, dialect) } else { classic_frame(bytes, dialect) };
    let (format, size) = match framed {
        Ok(Some(found)) => found,
        Ok(None) => return Frame::Short(0),
        Err(flaw) => return Frame::Flaw(flaw),
    };
    let Some(bytes) = usize::try_from(size).ok().and_then(|size| bytes.get(..size)) else {
        return Frame::Short(size);
    };
    let head = match (format, format.traits().family) {
        (Format::V3, _) => batch::read_v3(bytes),
        (_, Family::Batch) => batch::read_fixed(bytes, format).ok_or(Flaw::PastEnd("batch header")),
        (_, Family::MessageSet) => message_set::read_head(bytes, format).ok_or(Flaw::PastEnd("message")),
    };
    match head {
        Ok(head) => Frame::Entry(Entry { position, bytes, head }),
        Err(flaw) => Frame::Flaw(flaw),
    }
}

/// The header at the front of `bytes`, which need not hold the records behind it. `None` where there is none, or not
/// all of it: [`frame`] tells more.
pub(crate) fn peek(bytes: &[u8], dialect: Dialect) -> Option<Head> {
    let v3 = match (dialect, *bytes.get(batch::LENGTH)?) {
        (Dialect::Only(Format::V3), _) | (_, 0x80..) => true,
        (Dialect::Only(_), _) | (_, 0..0x20) => false,
        _ => is_tiny_v3(bytes),
    };
    let framed = if v3 { v3_frame(bytes, dialect) } else { classic_frame(bytes, dialect) };
    let (format, size) = framed.ok()??;
    let there = usize::try_from(size).map_or(bytes, |size| bytes.get(..size).unwrap_or(bytes));
    match (format, format.traits().family) {
        (Format::V3, _) => batch::read_v3(there).ok(),
        (_, Family::Batch) => batch::read_fixed(there, format),
        (_, Family::MessageSet) => message_set::read_head(there, format),
    }
}

/// Format and whole size by an int32 size and the magic at its fixed place.
fn classic_frame(bytes: &[u8], dialect: Dialect) -> Result<Option<(Format, u64)>, Flaw> {
    let Some(size) = field(bytes, message_set::SIZE).map(i32::from_be_bytes) else {
        return Ok(None);
    };
    let size = i64::from(size);
    let minimum = match dialect {
        Dialect::Only(format) => format.traits().min_size,
        _ => Format::V0.traits().min_size,
    };
    if size < i64::from(minimum) {
        return Err(Flaw::SizeTooSmall { size, minimum });
    }
    let whole = size + message_set::OVERHEAD as i64;
    if whole > MAX_ENTRY {
        return Err(Flaw::SizeTooLarge { size });
    }
    let Some(magic) = field(bytes, message_set::MAGIC).map(i8::from_be_bytes) else {
        return Ok(None);
    };
    // v3 has its magic elsewhere: where byte 16 says 3, this is no v3 batch.
    let format = dialect.format(magic).filter(|format| *format != Format::V3);
    let format = format.ok_or(Flaw::Magic(magic))?;
    let minimum = format.traits().min_size;
    if size < i64::from(minimum) {
        return Err(Flaw::SizeTooSmall { size, minimum });
    }
    Ok(Some((format, whole as u64)))
}

fn v3_frame(bytes: &[u8], dialect: Dialect) -> Result<Option<(Format, u64)>, Flaw> {
    // In a mixed log, a length that is none is a negative classic size.
    let negative = |flaw: Flaw| match (dialect, field(bytes, message_set::SIZE)) {
        (Dialect::Only(_), _) | (_, None) => flaw,
        (_, Some(size)) => Flaw::SizeTooSmall {
            size: i64::from(i32::from_be_bytes(size)),
            minimum: Format::V0.traits().min_size,
        },
    };
    let (size, width) = match batch::v3_size(bytes) {
        Ok(found) => found,
        Err(Flaw::PastEnd(_)) => return Ok(None),
        Err(flaw @ Flaw::SizeTooLarge { .. }) if matches!(dialect, Dialect::Only(_)) => {
            return Err(flaw);
        }
        Err(flaw) => return Err(negative(flaw)),
    };
    let length = size - (batch::LENGTH + width) as u64;
    let minimum = Format::V3.traits().min_size;
    if length < u64::from(minimum) {
        return Err(negative(Flaw::SizeTooSmall { size: length as i64, minimum }));
    }
    if size > MAX_ENTRY as u64 {
        return Err(Flaw::SizeTooLarge { size: length as i64 });
    }
    match field(bytes, batch::LENGTH + width + 4).map(i8::from_be_bytes) {
        None => Ok(None),
        Some(3) => Ok(Some((Format::V3, size))),
        Some(magic) => Err(match dialect {
            Dialect::Only(_) => Flaw::Magic(magic),
            _ => negative(Flaw::Magic(magic)),
        }),
    }
}

/// A length of one byte, 0x20–0x7F: v3 only if magic and checksum prove it.
fn is_tiny_v3(bytes: &[u8]) -> bool {
    let length = usize::from(bytes.get(batch::LENGTH).copied().unwrap_or(0));
    let Some(whole) = bytes.get(..batch::LENGTH + 1 + length) else {
        // Cut short: the magic alone must do, or the tail of a log would be called a 512 MiB message.
        return bytes.len() > 13 && bytes.len() < batch::LENGTH + 1 + 127 && bytes[13] == 3;
    };
    let Ok(head) = batch::read_v3(whole) else {
        return false;
    };
    whole.get(13) == Some(&3) && Entry { position: 0, bytes: whole, head }.check_crc().is_ok()
}

/// Fewest bytes to hand to [`frame`] so that it can tell more.
pub(crate) const LOOK: u64 = UP_TO_MAGIC + 120;
