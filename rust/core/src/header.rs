//! A record's headers, borrowed: ordered, keys may repeat, values may be null (KIP-82).

use std::borrow::Cow;

use crate::bytes::Reader;
use crate::error::Flaw;
use crate::varint::{read_uvarint, read_varint, uvarint_len, varint_len, write_uvarint, write_varint};

/// One header. The key is UTF-8 by the specification; a reader takes any bytes and shows U+FFFD for what is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header<'a> {
    /// Never null.
    pub key: &'a [u8],
    /// `None` is null, which is not the same as empty.
    pub value: Option<&'a [u8]>,
}

/// How one header is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum HeaderLayout {
    /// keyLength varint, key, valueLength varint, value: v2, v3 and KIP-82's draft A.
    #[default]
    Varint,
    /// length uvarint, keyLength uvarint, key, value as the rest of length: KIP-82's draft B.
    Framed,
}

impl<'a> Header<'a> {
    /// Reads one header of that layout.
    #[inline(always)]
    pub fn read(input: &mut Reader<'a>, layout: HeaderLayout) -> Result<Self, Flaw> {
        match layout {
            HeaderLayout::Varint => {
                let length = read_varint(input, "header key length")?;
                let Ok(length) = usize::try_from(length) else {
                    return Err(Flaw::Negative { field: "header key length", value: i64::from(length) });
                };
                let key = input.take(length).ok_or(Flaw::PastEnd("header key"))?;
                let value = nullable(input, "header value length", "header value")?;
                Ok(Self { key, value })
            }
            HeaderLayout::Framed => {
                let length = read_uvarint(input, "header length")?;
                let mut frame = Reader::new(input.take(length as usize).ok_or(Flaw::PastEnd("header"))?);
                let length = read_uvarint(&mut frame, "header key length")?;
                let key = frame.take(length as usize).ok_or(Flaw::PastEnd("header key"))?;
                Ok(Self { key, value: Some(frame.rest()) })
            }
        }
    }
}

impl Header<'_> {
    /// Bytes behind the first length of [`HeaderLayout::Framed`].
    #[inline(always)]
    fn framed_len(&self) -> usize {
        uvarint_len(self.key.len() as u32) + self.key.len() + self.value.map_or(0, <[u8]>::len)
    }

    /// Bytes that [`Header::write`] takes.
    #[inline(always)]
    #[must_use]
    pub fn len(&self, layout: HeaderLayout) -> usize {
        match layout {
            HeaderLayout::Varint => {
                varint_len(self.key.len() as i32) + self.key.len() + nullable_len(self.value)
            }
            HeaderLayout::Framed => {
                let length = self.framed_len();
                uvarint_len(length as u32) + length
            }
        }
    }

    /// Appends the header in that layout. [`HeaderLayout::Framed`] has no null value: it turns empty there.
    #[inline(always)]
    pub fn write(&self, layout: HeaderLayout, out: &mut Vec<u8>) {
        match layout {
            HeaderLayout::Varint => {
                write_varint(self.key.len() as i32, out);
                out.extend_from_slice(self.key);
                write_nullable(self.value, out);
            }
            HeaderLayout::Framed => {
                write_uvarint(self.framed_len() as u32, out);
                write_uvarint(self.key.len() as u32, out);
                out.extend_from_slice(self.key);
                out.extend_from_slice(self.value.unwrap_or_default());
            }
        }
    }
}

/// A header key as text. What is not UTF-8 becomes U+FFFD just as Java's decoder has it, so that a key reads the same
/// here as in any Java consumer: a whole encoded surrogate is one U+FFFD, elsewhere each maximal subpart is.
#[must_use]
pub fn key_text(key: &[u8]) -> Cow<'_, str> {
    let Err(mut error) = std::str::from_utf8(key) else {
        return String::from_utf8_lossy(key);
    };
    let (mut text, mut rest) = (String::with_capacity(key.len()), key);
    loop {
        let (sound, broken) = rest.split_at(error.valid_up_to());
        text.push_str(&String::from_utf8_lossy(sound));
        text.push(char::REPLACEMENT_CHARACTER);
        let width = match broken {
            [0xed, 0xa0..=0xbf, 0x80..=0xbf, ..] => 3,
            [0xed, 0xa0..=0xbf, ..] => 2,
            _ => error.error_len().unwrap_or(broken.len()),
        };
        rest = broken.get(width..).unwrap_or_default();
        match std::str::from_utf8(rest) {
            Ok(sound) => {
                text.push_str(sound);
                return Cow::Owned(text);
            }
            Err(next) => error = next,
        }
    }
}

/// varint length and bytes; any negative length is null, as Kafka's reader has it.
#[inline(always)]
pub(crate) fn nullable<'a>(
    input: &mut Reader<'a>,
    length_field: &'static str,
    field: &'static str,
) -> Result<Option<&'a [u8]>, Flaw> {
    match usize::try_from(read_varint(input, length_field)?) {
        Ok(length) => input.take(length).map(Some).ok_or(Flaw::PastEnd(field)),
        Err(_) => Ok(None),
    }
}

/// Bytes that [`write_nullable`] takes.
#[inline(always)]
pub(crate) const fn nullable_len(bytes: Option<&[u8]>) -> usize {
    match bytes {
        Some(bytes) => varint_len(bytes.len() as i32) + bytes.len(),
        None => varint_len(-1),
    }
}

/// Appends varint length and bytes; −1 for null.
#[inline(always)]
pub(crate) fn write_nullable(bytes: Option<&[u8]>, out: &mut Vec<u8>) {
    match bytes {
        Some(bytes) => {
            write_varint(bytes.len() as i32, out);
            out.extend_from_slice(bytes);
        }
        None => write_varint(-1, out),
    }
}

/// The headers of one record, read one by one when iterated. Their bytes were checked when the record was read.
#[derive(Clone, Copy, Debug, Default)]
pub struct Headers<'a> {
    bytes: &'a [u8],
    count: u32,
    layout: HeaderLayout,
}

impl<'a> Headers<'a> {
    /// Bytes that hold exactly `count` headers of that layout.
    #[inline(always)]
    pub(crate) const fn new(bytes: &'a [u8], count: u32, layout: HeaderLayout) -> Self {
        Self { bytes, count, layout }
    }

    /// All headers in bytes that hold nothing else, as the header block of KIP-82's draft A does.
    pub fn parse(bytes: &'a [u8], layout: HeaderLayout) -> Result<Self, Flaw> {
        let mut input = Reader::new(bytes);
        let mut count = 0;
        while !input.is_empty() {
            Header::read(&mut input, layout)?;
            count += 1;
        }
        Ok(Self { bytes, count, layout })
    }

    /// How many.
    #[inline(always)]
    #[must_use]
    pub const fn len(&self) -> usize {
        self.count as usize
    }

    /// Whether there is none.
    #[inline(always)]
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The encoded headers.
    #[inline(always)]
    #[must_use]
    pub const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Their layout.
    #[inline(always)]
    #[must_use]
    pub const fn layout(&self) -> HeaderLayout {
        self.layout
    }

    /// In order.
    #[inline]
    #[must_use]
    pub const fn iter(&self) -> Iter<'a> {
        Iter { input: Reader::new(self.bytes), layout: self.layout }
    }
}

impl<'a> IntoIterator for Headers<'a> {
    type Item = Header<'a>;
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

/// See [`Headers::iter`].
#[derive(Clone, Debug)]
pub struct Iter<'a> {
    input: Reader<'a>,
    layout: HeaderLayout,
}

impl<'a> Iterator for Iter<'a> {
    type Item = Header<'a>;

    #[inline]
    fn next(&mut self) -> Option<Header<'a>> {
        if self.input.is_empty() {
            return None;
        }
        // Checked when the record was read, so there is no error to lose here.
        Header::read(&mut self.input, self.layout).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_and_empty_are_two_things() {
        let bytes = [2, b'a', 1, 2, b'a', 0, 0, 2, b'x'];
        let headers = Headers::parse(&bytes, HeaderLayout::Varint).expect("sound");
        let all: Vec<_> = headers.iter().map(|h| (h.key, h.value)).collect();
        assert_eq!(all, [(&b"a"[..], None), (b"a", Some(&b""[..])), (b"", Some(b"x"))]);
    }

    #[test]
    fn what_is_not_utf8_is_shown_as_java_shows_it() {
        assert_eq!(key_text(b"plain"), "plain");
        assert_eq!(key_text(&[b'a', 0xed, 0xa0, 0x80, b'b']), "a\u{fffd}b");
        assert_eq!(key_text(&[0xed, 0xa0]), "\u{fffd}");
        assert_eq!(key_text(&[0xff, 0xfe, b'x']), "\u{fffd}\u{fffd}x");
        assert_eq!(key_text(&[b'a', 0xe2, 0x82]), "a\u{fffd}");
    }

    #[test]
    fn a_negative_key_length_is_refused() {
        let flaw = Headers::parse(&[1, 0], HeaderLayout::Varint).expect_err("null key");
        assert_eq!(flaw, Flaw::Negative { field: "header key length", value: -1 });
    }
}
