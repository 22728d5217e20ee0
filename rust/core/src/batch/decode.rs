//! The records of a batch.
//!
//! ```text
//! v2      length varint, attributes int8, timestampDelta varlong, offsetDelta varint,
//!         keyLength varint, key, valueLength varint, value, headerCount varint, header*
//! v3      the same, without attributes where the batch says so
//! kip82b  length uvarint, attributes int8, timestampDelta varlong, offsetDelta uvarint,
//!         [keyLength uvarint, key], [valueLength uvarint, value], header*
//! ```

use crate::bytes::Reader;
use crate::codec::Codec;
use crate::error::Flaw;
use crate::format::Format;
use crate::head::Head;
use crate::header::{Header, HeaderLayout, Headers, nullable};
use crate::limits::Limits;
use crate::prefetch::Follower;
use crate::record::{Record, Sink};
use crate::varint::{read_uvarint, read_varint, read_varlong};

/// kip82b, record attributes bit 0: the key is null, and both of its fields are left out.
pub(crate) const NULL_KEY: i8 = 0x01;
/// kip82b, record attributes bit 1: the value is null, and both of its fields are left out.
pub(crate) const NULL_VALUE: i8 = 0x02;

/// Decodes all records of an uncompressed or decompressed batch into `sink`.
///
/// Returns how many records were sound, and the flaw that ended it. `cut` says that `records` end early because
/// the decompressor failed: then the batch is at fault even if the records happen to look whole.
pub(crate) fn decode<'a, S: Sink<'a>>(
    head: &Head,
    records: &'a [u8],
    cut: Option<Flaw>,
    limits: &Limits,
    sink: &mut S,
) -> (u32, Option<Flaw>) {
    match head.format {
        Format::Kip82b => run::<S, false>(head, records, cut, limits, sink, framed_record),
        Format::V3 if head.ignores_message_attributes() => {
            run::<S, false>(head, records, cut, limits, sink, varint_record::<S, false>)
        }
        _ => run::<S, true>(head, records, cut, limits, sink, varint_record::<S, true>),
    }
}

#[inline(always)]
fn run<'a, S: Sink<'a>, const V2: bool>(
    head: &Head,
    records: &'a [u8],
    cut: Option<Flaw>,
    limits: &Limits,
    sink: &mut S,
    one: impl Fn(&mut Reader<'a>, &Head, &Limits, &mut S) -> Result<(), Flaw>,
) -> (u32, Option<Flaw>) {
    let count = head.count.unwrap_or(0);
    if count <= 0 {
        // Kafka's iterator never looks at the bytes of a batch without records.
        let flaw = if count < 0 { Some(Flaw::NegativeCount(count)) } else { cut };
        return (0, flaw);
    }
    let mut input = Reader::new(records);
    let mut done = 0;
    // A sink that takes records itself has the next batch fetched itself, too.
    let stored = head.codec_id() == Codec::None.id();
    let followed = !S::RUNS && Follower::pays(records, count as u32, stored);
    let follower = Follower::new(records, followed);
    while done < count as u32 {
        if V2 {
            let (ran, size) = sink.run(head, limits, input.rest(), count as u32 - done);
            done += ran;
            input.take(size);
            if done == count as u32 {
                break;
            }
        }
        let before = records.len() - input.remaining();
        if input.is_empty() {
            return (done, cut.or(Some(Flaw::TooFewRecords { count, found: done })));
        }
        if let Err(flaw) = one(&mut input, head, limits, sink) {
            // Where the decompressor gave up, a record cut in two is its doing.
            return (done, if input_is_cut(&flaw) { cut.or(Some(flaw)) } else { Some(flaw) });
        }
        done += 1;
        if !S::RUNS {
            follower.passed(before, records.len() - input.remaining());
        }
    }
    if followed {
        follower.finish(records.len() - input.remaining());
    }
    let count_done = count as u32;
    if !input.is_empty() {
        // Kafka's reader finds this when it hands out the last record, and keeps that one back.
        sink.discard();
        return (count_done - 1, Some(Flaw::BytesAfterRecords { count }));
    }
    (count_done, cut)
}

const fn input_is_cut(flaw: &Flaw) -> bool {
    matches!(flaw, Flaw::PastEnd(_))
}

/// One record of v2 (`ATTRIBUTES`) or of a v3 batch that leaves attributes out.
#[inline(always)]
fn varint_record<'a, S: Sink<'a>, const ATTRIBUTES: bool>(
    input: &mut Reader<'a>,
    head: &Head,
    limits: &Limits,
    sink: &mut S,
) -> Result<(), Flaw> {
    let before = input.remaining();
    let length = read_varint(input, "record length")?;
    let Ok(length) = usize::try_from(length) else {
        return Err(Flaw::Negative { field: "record length", value: i64::from(length) });
    };
    let mut body = Reader::new(input.take(length).ok_or(Flaw::PastEnd("record"))?);
    limits.record(length)?;
    let attributes = if ATTRIBUTES { body.i8().ok_or(Flaw::PastEnd("record attributes"))? } else { 0 };
    let timestamp = head.base_timestamp.wrapping_add(read_varlong(&mut body, "record timestampDelta")?);
    let offset = head.base_offset.wrapping_add(i64::from(read_varint(&mut body, "record offsetDelta")?));
    let key = nullable(&mut body, "record key length", "record key")?;
    let value = nullable(&mut body, "record value length", "record value")?;
    let count = read_varint(&mut body, "record header count")?;
    // A header takes two bytes at the least; Kafka asks for one.
    if count < 0 || count as usize > body.remaining() {
        return Err(Flaw::HeaderCount(i64::from(count)));
    }
    limits.headers(count as usize)?;
    let wants = sink.record(&Record {
        offset,
        timestamp,
        untimed: false,
        attributes,
        key,
        value,
        tombstone: None,
        headers: Headers::new(body.rest(), count as u32, HeaderLayout::Varint),
        size: before - input.remaining(),
    });
    for _ in 0..count {
        match Header::read(&mut body, HeaderLayout::Varint) {
            Ok(header) if wants => sink.header(header.key, header.value),
            Ok(_) => {}
            Err(flaw) => {
                sink.discard();
                return Err(flaw);
            }
        }
    }
    if !body.is_empty() {
        sink.discard();
        let used = (length - body.remaining()) as i64;
        return Err(Flaw::RecordEnd { length: length as i64, used });
    }
    Ok(())
}

/// One record of KIP-82's draft B.
#[inline(always)]
fn framed_record<'a, S: Sink<'a>>(
    input: &mut Reader<'a>,
    head: &Head,
    limits: &Limits,
    sink: &mut S,
) -> Result<(), Flaw> {
    let before = input.remaining();
    let length = read_uvarint(input, "record length")? as usize;
    let mut body = Reader::new(input.take(length).ok_or(Flaw::PastEnd("record"))?);
    limits.record(length)?;
    let attributes = body.i8().ok_or(Flaw::PastEnd("record attributes"))?;
    let timestamp = head.base_timestamp.wrapping_add(read_varlong(&mut body, "record timestampDelta")?);
    let offset = head.base_offset.wrapping_add(i64::from(read_uvarint(&mut body, "record offsetDelta")?));
    let key = present(&mut body, attributes & NULL_KEY == 0, "record key length", "record key")?;
    let value = present(&mut body, attributes & NULL_VALUE == 0, "record value length", "record value")?;
    let headers = Headers::parse(body.rest(), HeaderLayout::Framed)?;
    limits.headers(headers.len())?;
    let wants = sink.record(&Record {
        offset,
        timestamp,
        untimed: false,
        attributes,
        key,
        value,
        tombstone: None,
        headers,
        size: before - input.remaining(),
    });
    if wants {
        for header in headers {
            sink.header(header.key, header.value);
        }
    }
    Ok(())
}

fn present<'a>(
    input: &mut Reader<'a>,
    there: bool,
    length_field: &'static str,
    field: &'static str,
) -> Result<Option<&'a [u8]>, Flaw> {
    if !there {
        return Ok(None);
    }
    let length = read_uvarint(input, length_field)?;
    input.take(length as usize).map(Some).ok_or(Flaw::PastEnd(field))
}
