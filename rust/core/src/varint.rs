//! Kafka's variable-length integers: 7 bits a byte, least significant group first.
//!
//! ```text
//! varint   zig-zag, int32, at most 5 bytes      (KIP-98's record format, after Protocol Buffers)
//! varlong  zig-zag, int64, at most 10 bytes
//! uvarint  plain, at most 5 bytes               (KIP-482's compact lengths; the v3 proposal's batch length)
//! ```
//! As in Kafka's `ByteUtils`, a reader accepts padded forms and ignores the bits of the last byte that the type
//! has no room for; a writer uses the shortest form.

use crate::bytes::Reader;
use crate::error::Flaw;

/// Most bytes that an int32 may take.
pub const MAX_VARINT: usize = 5;
/// Most bytes that an int64 may take.
pub const MAX_VARLONG: usize = 10;

/// Zig-zag to signed.
#[inline(always)]
const fn unzigzag(raw: u64) -> i64 {
    (raw >> 1) as i64 ^ -((raw & 1) as i64)
}

/// The 7-bit groups as they stand. One, two and three bytes, which nearly all lengths and deltas take, are read
/// without a loop.
#[inline(always)]
fn groups<const MAX: usize>(input: &mut Reader<'_>, field: &'static str) -> Result<u64, Flaw> {
    match *input.rest() {
        [a, ref rest @ ..] if a < 0x80 => {
            input.set_rest(rest);
            Ok(a as u64)
        }
        [a, b, ref rest @ ..] if b < 0x80 => {
            input.set_rest(rest);
            Ok((a & 0x7f) as u64 | (b as u64) << 7)
        }
        [a, b, c, ref rest @ ..] if c < 0x80 => {
            input.set_rest(rest);
            Ok((a & 0x7f) as u64 | ((b & 0x7f) as u64) << 7 | (c as u64) << 14)
        }
        _ => {
            let (value, rest) = long::<MAX>(input.rest(), field)?;
            input.set_rest(rest);
            Ok(value)
        }
    }
}

/// Takes the bytes and not the reader: a reader whose address is known elsewhere cannot live in registers.
#[cold]
#[inline(never)]
fn long<'a, const MAX: usize>(bytes: &'a [u8], field: &'static str) -> Result<(u64, &'a [u8]), Flaw> {
    let mut value = 0u64;
    for (i, &byte) in bytes.iter().take(MAX).enumerate() {
        value |= ((byte & 0x7f) as u64) << (7 * i);
        if byte < 0x80 {
            return Ok((value, &bytes[i + 1..]));
        }
    }
    Err(if bytes.len() < MAX { Flaw::PastEnd(field) } else { Flaw::Varint(field) })
}

/// Reads an int32.
#[inline(always)]
pub fn read_varint(input: &mut Reader<'_>, field: &'static str) -> Result<i32, Flaw> {
    let raw = groups::<MAX_VARINT>(input, field)? as u32;
    Ok((raw >> 1) as i32 ^ -((raw & 1) as i32))
}

/// Reads an int64.
#[inline(always)]
pub fn read_varlong(input: &mut Reader<'_>, field: &'static str) -> Result<i64, Flaw> {
    groups::<MAX_VARLONG>(input, field).map(unzigzag)
}

/// Reads an unsigned int32.
#[inline(always)]
pub fn read_uvarint(input: &mut Reader<'_>, field: &'static str) -> Result<u32, Flaw> {
    groups::<MAX_VARINT>(input, field).map(|raw| raw as u32)
}

/// Writes an int32 in its shortest form.
#[inline]
pub fn write_varint(value: i32, out: &mut Vec<u8>) {
    write_uvarint(((value << 1) ^ (value >> 31)) as u32, out);
}

/// Writes an int64 in its shortest form.
#[inline]
pub fn write_varlong(value: i64, out: &mut Vec<u8>) {
    write_groups(((value << 1) ^ (value >> 63)) as u64, out);
}

/// Writes an unsigned int32 in its shortest form.
#[inline]
pub fn write_uvarint(value: u32, out: &mut Vec<u8>) {
    write_groups(u64::from(value), out);
}

/// One, two and three bytes, which nearly all lengths and deltas take, are written without a loop.
#[inline(always)]
fn write_groups(raw: u64, out: &mut Vec<u8>) {
    const MORE: u8 = 0x80;
    if raw < 1 << 7 {
        out.push(raw as u8);
    } else if raw < 1 << 14 {
        out.extend_from_slice(&[raw as u8 | MORE, (raw >> 7) as u8]);
    } else if raw < 1 << 21 {
        out.extend_from_slice(&[raw as u8 | MORE, (raw >> 7) as u8 | MORE, (raw >> 14) as u8]);
    } else {
        write_long(raw, out);
    }
}

#[inline(never)]
fn write_long(mut raw: u64, out: &mut Vec<u8>) {
    while raw >= 0x80 {
        out.push(raw as u8 | 0x80);
        raw >>= 7;
    }
    out.push(raw as u8);
}

/// Bytes that [`write_varint`] takes.
#[inline]
#[must_use]
pub const fn varint_len(value: i32) -> usize {
    uvarint_len(((value << 1) ^ (value >> 31)) as u32)
}

/// Bytes that [`write_varlong`] takes.
#[inline]
#[must_use]
pub const fn varlong_len(value: i64) -> usize {
    groups_len(((value << 1) ^ (value >> 63)) as u64)
}

/// Bytes that [`write_uvarint`] takes.
#[inline]
#[must_use]
pub const fn uvarint_len(value: u32) -> usize {
    groups_len(value as u64)
}

#[inline(always)]
const fn groups_len(raw: u64) -> usize {
    if raw < 1 << 7 {
        1
    } else if raw < 1 << 14 {
        2
    } else {
        (64 - raw.leading_zeros() as usize).div_ceil(7)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn varint(bytes: &[u8]) -> Result<i32, Flaw> {
        read_varint(&mut Reader::new(bytes), "x")
    }

    #[test]
    fn spare_bits_of_the_last_byte_are_ignored() {
        assert_eq!(varint(&[0xff, 0xff, 0xff, 0xff, 0x7f]), Ok(i32::MIN));
        assert_eq!(varint(&[0xff, 0xff, 0xff, 0xff, 0x0f]), Ok(i32::MIN));
        let mut ten = [0xff; 10];
        ten[9] = 0x7f;
        assert_eq!(read_varlong(&mut Reader::new(&ten), "x"), Ok(i64::MIN));
    }

    #[test]
    fn padded_forms_are_read() {
        assert_eq!(varint(&[0x82, 0x80, 0x80, 0x80, 0x00]), Ok(1));
    }

    #[test]
    fn too_long_and_too_short_are_told_apart() {
        assert_eq!(varint(&[0x80; 6]), Err(Flaw::Varint("x")));
        assert_eq!(varint(&[0x80; 4]), Err(Flaw::PastEnd("x")));
        assert_eq!(varint(&[]), Err(Flaw::PastEnd("x")));
        assert_eq!(read_varlong(&mut Reader::new(&[0x80; 11]), "x"), Err(Flaw::Varint("x")));
    }

    proptest! {
        #[test]
        fn written_is_read(value: i64) {
            let mut out = Vec::new();
            write_varlong(value, &mut out);
            prop_assert_eq!(out.len(), varlong_len(value));
            let mut input = Reader::new(&out);
            prop_assert_eq!(read_varlong(&mut input, "x"), Ok(value));
            prop_assert!(input.is_empty());

            let narrow = value as i32;
            out.clear();
            write_varint(narrow, &mut out);
            prop_assert_eq!(out.len(), varint_len(narrow));
            prop_assert_eq!(varint(&out), Ok(narrow));

            out.clear();
            write_uvarint(narrow as u32, &mut out);
            prop_assert_eq!(out.len(), uvarint_len(narrow as u32));
            prop_assert_eq!(read_uvarint(&mut Reader::new(&out), "x"), Ok(narrow as u32));
        }
    }
}
