//! Forms that the ordinary reader passes over: looked for in bytes that it has read without an error.
//!
//! What other readers refuse or read differently is an error (a length below −1, bits that a varint's type has no room
//! for, a wrong checksum inside a wrapper); what all of them read alike is a note (padded varints, reserved bits, bytes
//! behind the last field).

use std::fmt;

use crate::batch::decode::{NULL_KEY, NULL_VALUE};
use crate::batch::layout as batch;
use crate::bytes::Reader;
use crate::error::Kind;
use crate::format::{Family, Format};
use crate::head::{Head, attributes};
use crate::varint::{MAX_VARINT, MAX_VARLONG};
use crate::verify::finding::Severity;

/// One form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// A varint that is longer than it need be.
    Padded(&'static str),
    /// A varint whose last byte has bits that the type has no room for.
    Spare(&'static str),
    /// A length below −1.
    Below(&'static str, i64),
    /// Attribute bits that have no meaning.
    Reserved(&'static str, i16),
    /// A header key that is no UTF-8.
    KeyText,
    /// Bytes behind the last field of a message.
    After(usize),
}

impl Form {
    pub(super) const fn kind(self) -> Kind {
        match self {
            Self::Spare(_) | Self::Below(..) => Kind::Record,
            _ => Kind::Canonical,
        }
    }

    pub(super) const fn severity(self) -> Severity {
        match self {
            Self::Spare(_) | Self::Below(..) => Severity::Error,
            _ => Severity::Note,
        }
    }

    /// Each form is told once an entry: its bit in a set of those told.
    pub(super) const fn bit(self) -> u8 {
        match self {
            Self::Padded(_) => 1,
            Self::Spare(_) => 2,
            Self::Below(..) => 4,
            Self::Reserved(..) => 8,
            Self::KeyText => 16,
            Self::After(_) => 32,
        }
    }
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Padded(field) => write!(f, "{field} is a varint that is longer than it need be"),
            Self::Spare(field) => write!(f, "{field} does not fit its type: bits of its last byte are lost"),
            Self::Below(field, value) => write!(f, "{field} is {value}; only -1 means null"),
            Self::Reserved(what, bits) => write!(f, "{what}: reserved bits are set: {bits:#x}"),
            Self::KeyText => f.write_str("a header key is not UTF-8"),
            Self::After(bytes) => write!(f, "{bytes} bytes behind the message's value"),
        }
    }
}

/// Who is told of a form.
type Tell<'t> = &'t mut dyn FnMut(Form);

/// The bits that an entry's attributes may have.
const fn known_bits(format: Format) -> i16 {
    match format {
        Format::V0 => attributes::CODEC,
        Format::V1 => attributes::CODEC | attributes::LOG_APPEND_TIME,
        Format::Kip87 => attributes::CODEC | attributes::LOG_APPEND_TIME | attributes::TOMBSTONE,
        Format::Kip82a => attributes::CODEC | attributes::LOG_APPEND_TIME | attributes::HAS_HEADERS,
        Format::V2 | Format::Kip82b => 0x7f,
        Format::V3 => 0xff,
    }
}

/// The forms of an entry's own header.
pub(super) fn of_head(head: &Head, bytes: &[u8], tell: Tell<'_>) {
    let mask = if head.count.is_none() { 0xff } else { -1 };
    let reserved = head.attributes & mask & !known_bits(head.format);
    if reserved != 0 {
        tell(Form::Reserved("attributes", reserved));
    }
    if head.format == Format::V3 {
        let mut input = Reader::new(bytes.get(batch::LENGTH..).unwrap_or_default());
        let _ = of_v3_head(&mut input, tell);
    }
}

fn of_v3_head(input: &mut Reader<'_>, tell: Tell<'_>) -> Option<()> {
    number::<MAX_VARINT, 32>(input, "batch length", tell)?;
    // Leader epoch, magic, checksum, attributes.
    input.take(4 + 1 + 4 + 2)?;
    number::<MAX_VARINT, 32>(input, "lastOffsetDelta", tell)?;
    number::<MAX_VARLONG, 64>(input, "baseTimestamp", tell)?;
    number::<MAX_VARLONG, 64>(input, "maxTimestampDelta", tell)?;
    Some(())
}

/// The forms of the records of a batch, whose `bytes` are its records and nothing else.
pub(super) fn of_records(head: &Head, bytes: &[u8], tell: Tell<'_>) {
    let mut input = Reader::new(bytes);
    for _ in 0..head.count.unwrap_or(0) {
        let done = match head.format {
            Format::Kip82b => framed(&mut input, tell),
            _ => plain(&mut input, !head.ignores_message_attributes(), tell),
        };
        if done.is_none() {
            return;
        }
    }
}

/// A record of v2 or v3.
fn plain(input: &mut Reader<'_>, has_attributes: bool, tell: Tell<'_>) -> Option<()> {
    let length = number::<MAX_VARINT, 32>(input, "record length", tell)?;
    let mut body = Reader::new(input.take(usize::try_from(signed(length)).ok()?)?);
    if has_attributes {
        reserved(body.i8()?, 0, tell);
    }
    number::<MAX_VARLONG, 64>(&mut body, "record timestampDelta", tell)?;
    number::<MAX_VARINT, 32>(&mut body, "record offsetDelta", tell)?;
    nullable(&mut body, "record key length", tell)?;
    nullable(&mut body, "record value length", tell)?;
    let count = number::<MAX_VARINT, 32>(&mut body, "record header count", tell)?;
    for _ in 0..signed(count) {
        header(&mut body, tell)?;
    }
    Some(())
}

fn header(input: &mut Reader<'_>, tell: Tell<'_>) -> Option<()> {
    let length = number::<MAX_VARINT, 32>(input, "header key length", tell)?;
    key_text(input.take(usize::try_from(signed(length)).ok()?)?, tell);
    nullable(input, "header value length", tell)
}

/// A record of KIP-82's draft B.
fn framed(input: &mut Reader<'_>, tell: Tell<'_>) -> Option<()> {
    let length = number::<MAX_VARINT, 32>(input, "record length", tell)?;
    let mut body = Reader::new(input.take(length as u32 as usize)?);
    let flags = body.i8()?;
    reserved(flags, NULL_KEY | NULL_VALUE, tell);
    number::<MAX_VARLONG, 64>(&mut body, "record timestampDelta", tell)?;
    number::<MAX_VARINT, 32>(&mut body, "record offsetDelta", tell)?;
    for (null, field) in [(NULL_KEY, "record key length"), (NULL_VALUE, "record value length")] {
        if flags & null == 0 {
            let length = number::<MAX_VARINT, 32>(&mut body, field, tell)?;
            body.take(length as u32 as usize)?;
        }
    }
    while !body.is_empty() {
        let length = number::<MAX_VARINT, 32>(&mut body, "header length", tell)?;
        let mut frame = Reader::new(body.take(length as u32 as usize)?);
        let length = number::<MAX_VARINT, 32>(&mut frame, "header key length", tell)?;
        key_text(frame.take(length as u32 as usize)?, tell);
    }
    Some(())
}

/// The forms of one message: `entry` with its offset and size, `head` its header.
pub(super) fn of_message(head: &Head, entry: &[u8], tell: Tell<'_>) {
    debug_assert!(head.format.traits().family == Family::MessageSet);
    let mut input = Reader::new(entry.get(head.body..head.size).unwrap_or_default());
    if message(head, &mut input, tell).is_some() && !input.is_empty() {
        tell(Form::After(input.remaining()));
    }
}

fn message(head: &Head, input: &mut Reader<'_>, tell: Tell<'_>) -> Option<()> {
    if head.format != Format::Kip82a {
        bytes32(input, "key length", tell)?;
        return bytes32(input, "value length", tell);
    }
    nullable(input, "key length", tell)?;
    if head.attributes & attributes::HAS_HEADERS != 0 {
        let length = number::<MAX_VARINT, 32>(input, "headers length", tell)?;
        let mut block = Reader::new(input.take(usize::try_from(signed(length)).ok()?)?);
        while !block.is_empty() {
            header(&mut block, tell)?;
        }
    }
    nullable(input, "value length", tell)
}

fn reserved(bits: i8, known: i8, tell: Tell<'_>) {
    if bits & !known != 0 {
        tell(Form::Reserved("record attributes", i16::from(bits & !known) & 0xff));
    }
}

fn key_text(key: &[u8], tell: Tell<'_>) {
    if std::str::from_utf8(key).is_err() {
        tell(Form::KeyText);
    }
}

fn bytes32(input: &mut Reader<'_>, field: &'static str, tell: Tell<'_>) -> Option<()> {
    let length = input.i32()?;
    below(i64::from(length), field, tell);
    input.take(usize::try_from(length).unwrap_or(0)).map(drop)
}

fn nullable(input: &mut Reader<'_>, field: &'static str, tell: Tell<'_>) -> Option<()> {
    let length = signed(number::<MAX_VARINT, 32>(input, field, tell)?);
    below(i64::from(length), field, tell);
    input.take(usize::try_from(length).unwrap_or(0)).map(drop)
}

fn below(length: i64, field: &'static str, tell: Tell<'_>) {
    if length < -1 {
        tell(Form::Below(field, length));
    }
}

/// Zig-zag to signed.
const fn signed(raw: u64) -> i32 {
    let raw = raw as u32;
    (raw >> 1) as i32 ^ -((raw & 1) as i32)
}

/// A varint of at most `MAX` bytes for a type of `BITS` bits, as it stands.
fn number<const MAX: usize, const BITS: u32>(
    input: &mut Reader<'_>,
    field: &'static str,
    tell: Tell<'_>,
) -> Option<u64> {
    let bytes = input.rest();
    let end = bytes.iter().take(MAX).position(|byte| *byte < 0x80)?;
    let mut value = 0u64;
    for (i, byte) in bytes[..=end].iter().enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * i);
    }
    if end > 0 && bytes[end] == 0 {
        tell(Form::Padded(field));
    }
    // The last of MAX bytes has room for what the groups before it leave.
    if end + 1 == MAX && u32::from(bytes[end]) >> (BITS - 7 * (MAX as u32 - 1)) != 0 {
        tell(Form::Spare(field));
    }
    input.take(end + 1)?;
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(bytes: &[u8], wide: bool) -> Vec<Form> {
        let mut found = Vec::new();
        let mut tell = |form| found.push(form);
        let mut input = Reader::new(bytes);
        let read = match wide {
            true => number::<MAX_VARLONG, 64>(&mut input, "x", &mut tell),
            false => number::<MAX_VARINT, 32>(&mut input, "x", &mut tell),
        };
        assert!(read.is_some());
        found
    }

    #[test]
    fn a_varint_tells_padding_from_bits_that_are_lost() {
        assert!(told(&[0], false).is_empty());
        assert!(told(&[0x80, 1], false).is_empty());
        assert!(told(&[0xff, 0xff, 0xff, 0xff, 0x0f], false).is_empty());
        assert_eq!(told(&[0x81, 0], false), [Form::Padded("x")]);
        assert_eq!(told(&[0xff, 0xff, 0xff, 0xff, 0x1f], false), [Form::Spare("x")]);
        let mut most = [0xff; 10];
        most[9] = 1;
        assert!(told(&most, true).is_empty());
        most[9] = 3;
        assert_eq!(told(&most, true), [Form::Spare("x")]);
    }
}
