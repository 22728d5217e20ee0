//! The messages of a message-set entry: the one that it is, or those that it wraps.

use crate::bytes::{Reader, field};
use crate::error::Flaw;
use crate::format::Format;
use crate::head::{Head, TimestampType, attributes};
use crate::header::{HeaderLayout, Headers, nullable};
use crate::limits::Limits;
use crate::message_set::layout::{MAGIC, OFFSET, OVERHEAD, SIZE, read_head};
use crate::record::{Record, Sink};

/// Key and value of a message, and its headers in draft A.
struct Body<'a> {
    key: Option<&'a [u8]>,
    value: Option<&'a [u8]>,
    headers: Headers<'a>,
}

/// int32 length and bytes; any negative length is null.
fn bytes32<'a>(
    input: &mut Reader<'a>,
    length_field: &'static str,
    name: &'static str,
) -> Result<Option<&'a [u8]>, Flaw> {
    match usize::try_from(input.i32().ok_or(Flaw::PastEnd(length_field))?) {
        Ok(length) => input.take(length).map(Some).ok_or(Flaw::PastEnd(name)),
        Err(_) => Ok(None),
    }
}

/// Reads what follows a message's fixed fields. Bytes behind the value are ignored, as Kafka's reader does.
fn body<'a>(head: &Head, entry: &'a [u8]) -> Result<Body<'a>, Flaw> {
    let bytes = entry.get(head.body..head.size).ok_or(Flaw::PastEnd("message"))?;
    let mut input = Reader::new(bytes);
    if head.format != Format::Kip82a {
        return Ok(Body {
            key: bytes32(&mut input, "key length", "key")?,
            value: bytes32(&mut input, "value length", "value")?,
            headers: Headers::default(),
        });
    }
    let key = nullable(&mut input, "key length", "key")?;
    let headers = if head.attributes & attributes::HAS_HEADERS != 0 {
        let block = nullable(&mut input, "headers length", "headers")?;
        // The block is there by its bit, so unlike a key or a value it cannot be null.
        let none = Flaw::Negative { field: "headers length", value: -1 };
        Headers::parse(block.ok_or(none)?, HeaderLayout::Varint)?
    } else {
        Headers::default()
    };
    Ok(Body { key, value: nullable(&mut input, "value length", "value")?, headers })
}

/// The compressed bytes of a wrapper. Its key is ignored.
pub(crate) fn wrapped<'a>(head: &Head, entry: &'a [u8]) -> Result<&'a [u8], Flaw> {
    body(head, entry)?.value.ok_or(Flaw::Wrapper("a wrapper with a null value"))
}

/// Decodes a message that stands alone.
pub(crate) fn decode_one<'a, S: Sink<'a>>(
    head: &Head,
    entry: &'a [u8],
    limits: &Limits,
    sink: &mut S,
) -> Result<(), Flaw> {
    let body = body(head, entry)?;
    limits.record(head.size - OVERHEAD)?;
    limits.headers(body.headers.len())?;
    emit(head, head.base_offset, &body, sink);
    Ok(())
}

fn emit<'a, S: Sink<'a>>(head: &Head, offset: i64, body: &Body<'a>, sink: &mut S) {
    let flagged = head.format.traits().tombstone_flag;
    let wants = sink.record(&Record {
        offset,
        timestamp: head.base_timestamp,
        untimed: matches!(head.timestamp_type, TimestampType::None),
        attributes: head.attributes as i8,
        key: body.key,
        value: body.value,
        tombstone: flagged.then_some(head.attributes & attributes::TOMBSTONE != 0),
        headers: body.headers,
        size: head.size - OVERHEAD,
    });
    if wants {
        for header in body.headers {
            sink.header(header.key, header.value);
        }
    }
}

/// A message set, decompressed out of a wrapper: walked once to learn what its offsets count from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Inner {
    /// What is added to inner offsets.
    base: i64,
    /// Bytes that whole messages take; an incomplete one at the end is dropped, as Kafka's reader does.
    used: usize,
    /// Messages.
    pub(crate) count: u32,
    /// The first record's offset, relative to `base`.
    first: i64,
}

impl Inner {
    /// Walks the sizes of the inner messages.
    pub(crate) fn survey(head: &Head, set: &[u8]) -> Result<Self, Flaw> {
        let (mut used, mut count, mut first, mut last) = (0usize, 0u32, 0i64, 0i64);
        while let Some(entry) = next(set, used)? {
            last = offset_of(entry);
            if count == 0 {
                first = last;
            }
            used += entry.len();
            count += 1;
        }
        if count == 0 {
            return Err(Flaw::Wrapper("a wrapper with no message in it"));
        }
        let wrapper = head.base_offset;
        // Inner offsets are relative from v1 on (KIP-31). An outer offset of 0 comes from old librdkafka
        // producers, whose messages never saw a broker's numbering.
        let base = match head.format {
            Format::V0 => 0,
            _ if wrapper == 0 => 0,
            _ if wrapper < last => {
                return Err(Flaw::Wrapper("a wrapper's offset is below its last inner offset"));
            }
            _ => wrapper.wrapping_sub(last),
        };
        Ok(Self { base, used, count, first })
    }

    /// The offset that inner offset 0 stands for; in v0, where inner offsets are absolute, the first record's.
    pub(crate) const fn base_offset(&self, format: Format) -> i64 {
        match format {
            Format::V0 => self.first,
            _ => self.base,
        }
    }

    /// Decodes the inner messages of the wrapper `outer`.
    pub(crate) fn decode<'a, S: Sink<'a>>(
        &self,
        outer: &Head,
        set: &'a [u8],
        limits: &Limits,
        sink: &mut S,
    ) -> (u32, Option<Flaw>) {
        let (mut at, mut done) = (0, 0);
        while at < self.used {
            let step = next(set, at).and_then(|entry| match entry {
                Some(entry) => {
                    self.one(outer, entry, limits, sink)?;
                    Ok(entry.len())
                }
                None => Ok(self.used - at),
            });
            match step {
                Ok(size) => at += size,
                Err(flaw) => return (done, Some(flaw)),
            }
            done += 1;
        }
        (done, None)
    }

    fn one<'a, S: Sink<'a>>(
        &self,
        outer: &Head,
        entry: &'a [u8],
        limits: &Limits,
        sink: &mut S,
    ) -> Result<(), Flaw> {
        let format = inner_format(outer.format, entry)?;
        let head = read_head(entry, format).ok_or(Flaw::PastEnd("inner message"))?;
        if head.codec_id() != 0 {
            return Err(Flaw::Wrapper("a wrapper within a wrapper"));
        }
        let body = body(&head, entry)?;
        limits.record(head.size - OVERHEAD)?;
        limits.headers(body.headers.len())?;
        emit(&head, self.base.wrapping_add(head.base_offset), &body, sink);
        Ok(())
    }
}

/// Old writers mixed v0 and v1 in one wrapper, and Kafka reads that; any other stranger is refused.
fn inner_format(outer: Format, entry: &[u8]) -> Result<Format, Flaw> {
    let magic = i8::from_be_bytes(field(entry, MAGIC).ok_or(Flaw::PastEnd("inner message"))?);
    match magic {
        0 => Ok(Format::V0),
        1 => Ok(Format::V1),
        _ if magic == outer.traits().magic => Ok(outer),
        _ => Err(Flaw::Magic(magic)),
    }
}

fn offset_of(entry: &[u8]) -> i64 {
    field(entry, OFFSET).map_or(0, i64::from_be_bytes)
}

/// The entry at `at`, `None` where what is left is no whole entry.
fn next(set: &[u8], at: usize) -> Result<Option<&[u8]>, Flaw> {
    let rest = set.get(at..).unwrap_or_default();
    let Some(size) = field(rest, SIZE).map(i32::from_be_bytes) else {
        return Ok(None);
    };
    let minimum = Format::V0.traits().min_size;
    if i64::from(size) < i64::from(minimum) {
        return Err(Flaw::SizeTooSmall { size: i64::from(size), minimum });
    }
    Ok(rest.get(..OVERHEAD + size as usize))
}
