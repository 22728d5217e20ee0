//! Where the records of a batch lie: noted as numbers, for whoever keeps the batch's bytes and comes back to them later.

use crate::batch::usual::usual;
use crate::head::Head;
use crate::header::{HeaderLayout, Headers};
use crate::limits::Limits;
use crate::record::{Record, Sink};
use crate::select::Selection;

/// Where a part of a record lies in its block; a negative length is null. A block is below 2 GiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Its first byte.
    pub at: u32,
    /// Its bytes.
    pub len: i32,
}

impl Span {
    /// Of a part that is null.
    pub const NULL: Self = Self { at: 0, len: -1 };

    /// Whether the part is null.
    #[must_use]
    pub const fn is_null(self) -> bool {
        self.len < 0
    }

    /// The part itself, if it is not null.
    #[inline(always)]
    #[must_use]
    pub fn of(self, block: &[u8]) -> Option<&[u8]> {
        let at = self.at as usize;
        let len = usize::try_from(self.len).ok()?;
        Some(block.get(at..at + len).unwrap_or_default())
    }
}

/// Where the parts of one record are, and what it says beside them: see [`Record`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Absolute offset in the partition.
    pub offset: i64,
    /// As it is stored.
    pub timestamp: i64,
    /// The key.
    pub key: Span,
    /// The value.
    pub value: Span,
    /// All headers.
    pub headers: Span,
    /// How many they are.
    pub header_count: u32,
    /// The record's own attributes byte.
    pub attributes: i8,
    /// Whether it has no timestamp of any type.
    pub untimed: bool,
    /// KIP-87's flag, in the formats that have it.
    pub tombstone: Option<bool>,
    /// How each header is laid out.
    pub layout: HeaderLayout,
}

impl Place {
    /// What a consumer sees as the record's timestamp.
    #[inline(always)]
    #[must_use]
    pub const fn effective_timestamp(&self, head: &Head) -> i64 {
        if self.untimed { -1 } else { head.effective_timestamp(self.timestamp) }
    }

    /// Whether the record is wanted, by its offset, timestamp and headers.
    #[must_use]
    pub fn is_wanted(&self, selection: &Selection, head: &Head, block: &[u8]) -> bool {
        if !selection.wants(self.offset, self.effective_timestamp(head)) {
            return false;
        }
        if selection.headers.is_empty() {
            return true;
        }
        // They were read once already, so there is no error to lose here.
        Headers::parse(self.headers.of(block).unwrap_or_default(), self.layout)
            .is_ok_and(|headers| selection.wants_headers(headers))
    }
}

/// Notes where records lie in a block, without a copy of their bytes.
#[derive(Debug)]
pub struct Places<'p> {
    address: usize,
    into: &'p mut Vec<Place>,
}

impl<'p> Places<'p> {
    /// Notes places in `block`, which all records to come must lie in, behind those that `into` has.
    #[must_use]
    pub fn new(block: &[u8], into: &'p mut Vec<Place>) -> Self {
        Self { address: block.as_ptr() as usize, into }
    }

    #[inline(always)]
    fn place(&self, bytes: &[u8]) -> Span {
        // Empty slices may point anywhere.
        if bytes.is_empty() {
            return Span { at: 0, len: 0 };
        }
        Span { at: (bytes.as_ptr() as usize - self.address) as u32, len: bytes.len() as i32 }
    }

    #[inline(always)]
    fn nullable(&self, bytes: Option<&[u8]>) -> Span {
        bytes.map_or(Span::NULL, |bytes| self.place(bytes))
    }
}

impl<'a> Sink<'a> for Places<'_> {
    const RUNS: bool = true;

    #[inline(always)]
    fn record(&mut self, record: &Record<'a>) -> bool {
        let place = Place {
            offset: record.offset,
            timestamp: record.timestamp,
            key: self.nullable(record.key),
            value: self.nullable(record.value),
            headers: self.place(record.headers.bytes()),
            header_count: record.headers.len() as u32,
            attributes: record.attributes,
            untimed: record.untimed,
            tombstone: record.tombstone,
            layout: record.headers.layout(),
        };
        self.into.push(place);
        false
    }

    fn header(&mut self, _key: &'a [u8], _value: Option<&'a [u8]>) {}

    fn discard(&mut self) {
        self.into.pop();
    }

    fn run(&mut self, head: &Head, limits: &Limits, records: &'a [u8], count: u32) -> (u32, usize) {
        let first = (records.as_ptr() as usize).wrapping_sub(self.address) as u32;
        note(self.into, first, (head.base_offset, head.base_timestamp), limits, records, count)
    }
}

/// Notes usual records. A function of its own: in the midst of the decoder its numbers would not live in registers.
#[inline(never)]
fn note(
    into: &mut Vec<Place>,
    first: u32,
    (base_offset, base_timestamp): (i64, i64),
    limits: &Limits,
    records: &[u8],
    count: u32,
) -> (u32, usize) {
    let limits = *limits;
    let (mut done, mut at) = (0, 0);
    while done < count
        && let Some(record) = usual(records, at, &limits)
    {
        let span = |(at, len): (usize, i32)| Span { at: first.wrapping_add(at as u32), len };
        into.push(Place {
            offset: base_offset.wrapping_add(record.offset_delta),
            timestamp: base_timestamp.wrapping_add(record.timestamp_delta),
            key: span(record.key),
            value: span(record.value),
            headers: span((record.headers, (record.end - record.headers) as i32)),
            header_count: record.header_count,
            attributes: record.attributes,
            untimed: false,
            tombstone: None,
            layout: HeaderLayout::Varint,
        });
        at = record.end;
        done += 1;
    }
    (done, at)
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::option;
    use proptest::prelude::*;

    use super::*;
    use crate::batch::decode::decode;
    use crate::varint::{write_varint, write_varlong};
    use crate::{BatchFields, Encoder, Flaw, Format, Log, NewRecord, Options};

    /// The same places by the decoder alone, record by record.
    struct Ordinary<'p>(Places<'p>);

    impl<'a> Sink<'a> for Ordinary<'_> {
        fn record(&mut self, record: &Record<'a>) -> bool {
            self.0.record(record)
        }

        fn header(&mut self, _key: &'a [u8], _value: Option<&'a [u8]>) {}

        fn discard(&mut self) {
            self.0.discard();
        }
    }

    /// What is found, with parts as bytes: those that are empty may lie anywhere.
    type Found<'b> = (Place, [Option<&'b [u8]>; 3]);

    fn found<'b>(
        head: &Head,
        block: &'b [u8],
        limits: &Limits,
        ordinary: bool,
    ) -> (Vec<Found<'b>>, u32, Option<Flaw>) {
        // Not at the block's beginning, as in a log.
        let (records, mut into) = (block.get(3..).unwrap_or_default(), Vec::new());
        let places = Places::new(block, &mut into);
        let (count, flaw) = if ordinary {
            decode(head, records, None, limits, &mut Ordinary(places))
        } else {
            decode(head, records, None, limits, &mut { places })
        };
        let plain = |span: Span| Span { at: 0, len: span.len };
        let found = into.iter().map(|place| {
            let parts = [place.key, place.value, place.headers].map(|span| span.of(block));
            let (key, value, headers) = (plain(place.key), plain(place.value), plain(place.headers));
            (Place { key, value, headers, ..*place }, parts)
        });
        (found.collect(), count, flaw)
    }

    fn head(count: i32) -> Head {
        let mut log = Vec::new();
        let fields = BatchFields::default();
        let record = NewRecord { offset: 7, timestamp: 1_700_000_000_000, ..NewRecord::default() };
        Encoder::new().encode(Format::V2, &fields, [record], &mut log).expect("carried");
        let entry = Log::new(&log, Options::default()).next().expect("one").expect("sound");
        Head { count: Some(count), ..entry.head }
    }

    type Header = (Option<usize>, Option<usize>);

    fn record(times: (i64, i32), key: Option<usize>, value: Option<usize>, headers: &[Header]) -> Vec<u8> {
        let string = |length: Option<usize>, out: &mut Vec<u8>| {
            write_varint(length.map_or(-1, |length| length as i32), out);
            out.extend((0..length.unwrap_or(0)).map(|at| (at * 31) as u8));
        };
        let mut body = vec![0];
        write_varlong(times.0, &mut body);
        write_varint(times.1, &mut body);
        string(key, &mut body);
        string(value, &mut body);
        write_varint(headers.len() as i32, &mut body);
        for (key, value) in headers {
            string(*key, &mut body);
            string(*value, &mut body);
        }
        let mut out = Vec::new();
        write_varint(body.len() as i32, &mut out);
        out.extend(body);
        out
    }

    fn numbers() -> impl Strategy<Value = i64> {
        prop_oneof![
            -70..70i64,
            any::<i16>().prop_map(i64::from),
            any::<i32>().prop_map(i64::from),
            any::<i64>()
        ]
    }

    fn strings() -> impl Strategy<Value = Option<usize>> {
        option::of(prop_oneof![4 => 0..20usize, 1 => 60..70usize, 1 => 8100..8300usize])
    }

    fn records() -> impl Strategy<Value = Vec<u8>> {
        let header = (prop_oneof![20 => (0..9usize).prop_map(Some), 1 => Just(None)], strings());
        let times = (numbers(), numbers().prop_map(|number| number as i32));
        (times, strings(), strings(), vec(header, 0..4))
            .prop_map(|(times, key, value, headers)| record(times, key, value, &headers))
    }

    #[test]
    fn usual_records_are_found_where_they_lie() {
        let one = record((5, 1), None, Some(8), &[]);
        let two = record((-1, 300), Some(3), None, &[(Some(1), None), (Some(0), Some(2))]);
        let block = [&[9, 9, 9], &*one, &two, &one].concat();
        let (limits, head) = (Limits::default(), head(3));
        let mut into = Vec::new();
        let (ran, size) = Places::new(&block, &mut into).run(&head, &limits, &block[3..], 3);
        assert_eq!((ran, size), (3, block.len() - 3), "all of them, the last bytes included");
        assert_eq!((into[0].offset, into[0].timestamp), (8, 1_700_000_000_005));
        assert_eq!((into[1].offset, into[1].header_count), (307, 2));
        assert!(into[1].value.is_null() && into[0].key.is_null());
        assert_eq!(into[1].key.of(&block), Some(&[0, 31, 62][..]));
        assert_eq!(into[2].value.at as usize, block.len() - 9);
    }

    proptest! {
        /// Whatever the bytes are: the same records, the same count and the same flaw as by the decoder alone.
        #[test]
        #[cfg_attr(miri, ignore = "hundreds of batches")]
        fn as_the_decoder_alone_finds_them(
            records in vec(records(), 0..12),
            flips in vec((0.0f64..1.0, any::<u8>()), 0..4),
            cut in option::weighted(0.2, 0.0f64..1.0),
            more in -1..2i32,
            (record, headers) in prop_oneof![4 => Just((1 << 20, 1 << 10)), 1 => (0..100u64, 0..3u64)],
        ) {
            let mut block = [&[1, 2, 3], &*records.concat()].concat();
            for (place, mask) in flips {
                let at = (block.len() as f64 * place) as usize;
                block[at] ^= mask;
            }
            if let Some(cut) = cut {
                block.truncate((block.len() as f64 * cut) as usize);
            }
            let limits = Limits { record, headers, ..Limits::default() };
            let head = head(records.len() as i32 + more);
            prop_assert_eq!(found(&head, &block, &limits, false), found(&head, &block, &limits, true));
        }
    }
}
