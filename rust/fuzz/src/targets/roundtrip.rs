//! Batches made up from the input: written, read, written again, and converted between all formats. What a conversion
//! keeps and drops is told beforehand from the conversion table (DESIGN and the formats' own documents).

use arbitrary::{Result, Unstructured};
use magicbyte::format::HeaderSupport;
use magicbyte::{
    BatchFields, Codec, Conversion, ConvertError, Converted, Dialect, Dropped, EncodeFlaw, Encoder, Family,
    Format, Head, Header, Log, NewHeaders, NewRecord, Options, TimestampType, convert,
};

use super::LIMITS;
use super::rows::{Row, rows};

/// See the module.
pub fn run(data: &[u8]) {
    let mut input = Unstructured::new(data);
    let Ok(batch) = Batch::arbitrary(&mut input) else { return };
    let bytes = batch.encode(&batch.rows);
    let before = read(&bytes, Dialect::of(batch.format));
    batch.check(&before);
    let read_back: Vec<Row> = before.iter().map(|seen| seen.row.clone()).collect();
    assert!(batch.encode(&read_back) == bytes, "written again, it is not the same");
    for to in Format::ALL {
        batch.convert(&bytes, &before, to);
        batch.number(&bytes, &before, to, input.arbitrary().unwrap_or(7));
    }
}

/// A batch of a format, with whatever that can carry.
#[derive(Debug)]
struct Batch {
    format: Format,
    fields: BatchFields,
    rows: Vec<Row>,
}

/// A record as a consumer sees it, and the header of its entry.
struct Seen {
    head: Head,
    row: Row,
}

fn read(bytes: &[u8], dialect: Dialect) -> Vec<Seen> {
    let mut all = Vec::new();
    for item in Log::new(bytes, Options { dialect, limits: LIMITS, ..Options::default() }) {
        let entry = item.unwrap_or_else(|damage| panic!("{}", damage.error()));
        let (read, done) = rows(&entry, &LIMITS);
        done.unwrap_or_else(|error| panic!("{error}"));
        all.extend(read.into_iter().map(|row| Seen { head: entry.head, row }));
    }
    all
}

impl Batch {
    fn arbitrary(input: &mut Unstructured<'_>) -> Result<Self> {
        let format = Format::ALL[usize::from(input.arbitrary::<u8>()?) % Format::ALL.len()];
        let traits = format.traits();
        let codec = input.arbitrary::<u8>()? % (traits.max_codec + 1);
        let flags: u8 = input.arbitrary()?;
        let base = input.arbitrary::<i64>()? >> (input.arbitrary::<u8>()? & 63);
        let base = (base & i64::MAX).min(i64::MAX - (1 << 33));
        let mut fields = BatchFields {
            base_offset: (format != Format::V0).then_some(base),
            codec: Codec::from_id(codec).expect("known"),
            timestamp_type: match flags & 1 != 0 && traits.timestamps {
                true => TimestampType::LogAppendTime,
                false => TimestampType::CreateTime,
            },
            ..BatchFields::default()
        };
        let ignores = flags & 2 != 0;
        let mut offset = base;
        let mut rows = Vec::new();
        for _ in 0..input.arbitrary::<u8>()? % 12 {
            offset += 1 + i64::from(input.arbitrary::<u16>()?);
            rows.push(Self::row(input, format, offset, ignores)?);
        }
        if traits.producer {
            fields = BatchFields {
                base_timestamp: Some(input.arbitrary()?),
                max_timestamp: Some(input.arbitrary()?),
                last_offset_delta: Some((offset - base) as i32 + i32::from(input.arbitrary::<u8>()?)),
                leader_epoch: input.arbitrary()?,
                producer_id: input.arbitrary()?,
                producer_epoch: input.arbitrary()?,
                base_sequence: input.arbitrary()?,
                transactional: flags & 4 != 0,
                control: flags & 8 != 0,
                delete_horizon: flags & 16 != 0,
                ignore_message_attributes: format != Format::V3 || ignores,
                ..fields
            };
        } else if rows.is_empty() {
            // A compressed message set needs a record.
            fields.codec = Codec::None;
        }
        Ok(Self { format, fields, rows })
    }

    fn row(input: &mut Unstructured<'_>, format: Format, offset: i64, ignores: bool) -> Result<Row> {
        let traits = format.traits();
        let flags: u8 = input.arbitrary()?;
        let time: i64 = input.arbitrary::<i64>()? >> (flags & 63);
        let has_attributes = format == Format::V2 || (format == Format::V3 && !ignores);
        let mut row = Row {
            offset,
            timestamp: if traits.timestamps { time.max(-1) } else { -1 },
            attributes: if has_attributes { input.arbitrary()? } else { 0 },
            key: Self::field(input)?,
            value: Self::field(input)?,
            ..Row::default()
        };
        row.tombstone = traits.tombstone_flag.then_some(flags & 64 != 0 || row.value.is_none());
        if !matches!(traits.headers, HeaderSupport::No) {
            for _ in 0..input.arbitrary::<u8>()? % 4 {
                let key = Self::field(input)?.unwrap_or_default();
                let value = Self::field(input)?;
                let never_null = traits.headers == HeaderSupport::NonNull;
                row.headers.push((key, if never_null { value.or(Some(Vec::new())) } else { value }));
            }
        }
        Ok(row)
    }

    /// Null, or up to a few hundred bytes.
    fn field(input: &mut Unstructured<'_>) -> Result<Option<Vec<u8>>> {
        let length: u8 = input.arbitrary()?;
        Ok(match length {
            0xff => None,
            0xfe => Some(vec![b'x'; 300]),
            length => Some(input.bytes(usize::from(length & 31).min(input.len()))?.to_vec()),
        })
    }

    fn encode(&self, rows: &[Row]) -> Vec<u8> {
        let headers: Vec<Vec<Header<'_>>> = rows
            .iter()
            .map(|row| {
                row.headers.iter().map(|(key, value)| Header { key, value: value.as_deref() }).collect()
            })
            .collect();
        let has_attributes = matches!(self.format, Format::V2 | Format::V3);
        let records = rows.iter().zip(&headers).map(|(row, headers)| NewRecord {
            offset: row.offset,
            timestamp: row.timestamp,
            attributes: if has_attributes { row.attributes } else { 0 },
            key: row.key.as_deref(),
            value: row.value.as_deref(),
            tombstone: row.tombstone,
            headers: NewHeaders::List(headers),
        });
        let mut out = Vec::new();
        let written = Encoder::new().encode(self.format, &self.fields, records, &mut out);
        let written = written.unwrap_or_else(|error| panic!("{self:?}: {error}"));
        assert_eq!((written.size, written.count as usize), (out.len(), rows.len()));
        out
    }

    /// What was written is what is read.
    fn check(&self, before: &[Seen]) {
        assert_eq!(before.len(), self.rows.len());
        let has_attributes = matches!(self.format, Format::V2 | Format::V3);
        for (seen, row) in before.iter().zip(&self.rows) {
            let mut have = seen.row.clone();
            have.attributes = if has_attributes { have.attributes } else { 0 };
            (have.seen, have.timestamp_type) = (0, 0);
            if seen.head.count.is_none() && seen.head.append_time().is_some() {
                // A message under LogAppendTime stores the append time.
                have.timestamp = row.timestamp;
            }
            assert_eq!(&have, row);
            let (head, fields) = (&seen.head, &self.fields);
            if self.format.traits().producer {
                let have = BatchFields {
                    base_offset: Some(head.base_offset),
                    last_offset_delta: Some(head.last_offset.wrapping_sub(head.base_offset) as i32),
                    leader_epoch: head.leader_epoch,
                    codec: head.codec().expect("known"),
                    level: None,
                    timestamp_type: head.timestamp_type,
                    base_timestamp: Some(head.base_timestamp),
                    max_timestamp: Some(head.max_timestamp),
                    producer_id: head.producer_id,
                    producer_epoch: head.producer_epoch,
                    base_sequence: head.base_sequence,
                    transactional: head.is_transactional(),
                    control: head.is_control(),
                    delete_horizon: head.delete_horizon().is_some(),
                    ignore_message_attributes: self.format != Format::V3 || head.ignores_message_attributes(),
                };
                assert_eq!(&have, fields);
            }
        }
    }

    fn options(&self) -> Options {
        Options { dialect: Dialect::of(self.format), limits: LIMITS, ..Options::default() }
    }

    /// The reason why the table refuses this batch in that format.
    fn refused(&self, to: Format) -> Option<EncodeFlaw> {
        let target = to.traits();
        if self.left_out(to) {
            return None;
        }
        if self.fields.codec.id() > target.max_codec && !self.rows.is_empty() && self.format != to {
            return Some(EncodeFlaw::Codec(self.fields.codec));
        }
        let null = |row: &Row| row.headers.iter().position(|(_, value)| value.is_none());
        (target.headers == HeaderSupport::NonNull)
            .then(|| self.rows.iter().find_map(null))
            .flatten()
            .map(|header| EncodeFlaw::NullHeaderValue { header })
    }

    /// Control batches, and those without records, have no place in a message set.
    fn left_out(&self, to: Format) -> bool {
        to.traits().family == Family::MessageSet && (self.fields.control || self.rows.is_empty())
    }

    fn convert(&self, bytes: &[u8], before: &[Seen], to: Format) {
        let at = format!("{:?} to {to:?}", self.format);
        let done = match convert(bytes, self.options(), Conversion::new(to)) {
            Ok(done) => done,
            Err(ConvertError::Write { position: 0 | 1.., error }) => {
                assert_eq!(Some(error.flaw), self.refused(to), "{at}");
                return;
            }
            Err(error) => panic!("{at}: {error}"),
        };
        assert_eq!(self.refused(to), None, "{at}");
        let after = read(&done.data, Dialect::of(to));
        let kept: &[Seen] = if self.left_out(to) { &[] } else { before };
        assert_eq!(kept.len(), after.len(), "{at}");
        for (before, after) in kept.iter().zip(&after) {
            assert_eq!(after.row, self.expected(before, after, to), "{at}");
            assert_eq!(after.head.codec_id(), before.head.codec_id(), "{at}");
        }
        assert_eq!(done.dropped, self.dropped(kept, to), "{at}");
        if to == self.format {
            assert!(done.data == bytes, "{at}: not copied");
        }
        self.and_back(bytes, &done, to);
    }

    /// The record that the table promises.
    fn expected(&self, before: &Seen, after: &Seen, to: Format) -> Row {
        let (from, target) = (self.format.traits(), to.traits());
        let mut row = before.row.clone();
        let both = |has: fn(Format) -> bool| has(self.format) && has(to);
        // What is stored follows from the batch's fields; a consumer's view must be the same.
        row.timestamp = after.row.timestamp;
        row.attributes = match both(|format| matches!(format, Format::V2 | Format::V3)) || to == self.format {
            true => row.attributes,
            false => after.row.attributes,
        };
        if !target.timestamps {
            (row.seen, row.timestamp_type) = (-1, -1);
        } else if !from.timestamps {
            (row.seen, row.timestamp_type) = (-1, 0);
        }
        if matches!(target.headers, HeaderSupport::No) {
            row.headers.clear();
        }
        if row.tombstone == Some(true) && !target.tombstone_flag {
            row.value = None;
        }
        row.tombstone =
            target.tombstone_flag.then_some(before.row.tombstone.unwrap_or(before.row.value.is_none()));
        row
    }

    /// The losses that the table promises.
    fn dropped(&self, kept: &[Seen], to: Format) -> Dropped {
        let target = to.traits();
        let mut lost = Dropped::default();
        if target.family == Family::MessageSet && self.format.traits().producer {
            if self.fields.control {
                lost.control_batches = 1;
            } else if self.rows.is_empty() {
                lost.empty_batches = 1;
            } else {
                lost.producer_state = u64::from(self.fields.producer_id != -1);
                lost.delete_horizons = u64::from(self.fields.delete_horizon);
                lost.transactional = if self.fields.transactional { kept.len() as u64 } else { 0 };
            }
        }
        for Seen { row, .. } in kept {
            if matches!(target.headers, HeaderSupport::No) {
                lost.headers += row.headers.len() as u64;
            }
            lost.timestamps += u64::from(!target.timestamps && row.seen != -1);
            let flag = row.tombstone == Some(true) && !target.tombstone_flag;
            lost.tombstone_values += u64::from(flag && row.value.is_some());
        }
        lost
    }

    /// v2 to v3 and back, or the other way: nothing is lost, and canonical uncompressed bytes are the same.
    fn and_back(&self, bytes: &[u8], there: &Converted, to: Format) {
        if !matches!((self.format, to), (Format::V2, Format::V3) | (Format::V3, Format::V2)) {
            return;
        }
        assert!(there.dropped.is_empty());
        let options = Options { dialect: Dialect::of(to), ..self.options() };
        let back = convert(&there.data, options, Conversion::new(self.format)).expect("it came from there");
        let needless = self.format == Format::V3
            && !self.fields.ignore_message_attributes
            && self.rows.iter().all(|row| row.attributes == 0);
        if !needless && self.fields.codec == Codec::None {
            assert!(back.data == bytes, "not the same bytes");
        }
        let rows = |bytes: &[u8]| read(bytes, Dialect::of(self.format)).into_iter().map(|seen| seen.row);
        assert!(rows(&back.data).eq(rows(bytes)));
    }

    /// Numbered anew, offsets follow each other; all else is as without.
    fn number(&self, bytes: &[u8], before: &[Seen], to: Format, first: u32) {
        let first = i64::from(first);
        let conversion = Conversion { first_offset: Some(first), ..Conversion::new(to) };
        let Ok(done) = convert(bytes, self.options(), conversion) else {
            assert!(self.refused(to).is_some());
            return;
        };
        let after = read(&done.data, Dialect::of(to));
        let offsets: Vec<i64> = after.iter().map(|seen| seen.row.offset).collect();
        assert_eq!(offsets, (first..first + after.len() as i64).collect::<Vec<_>>());
        let kept: &[Seen] = if self.left_out(to) { &[] } else { before };
        assert_eq!(kept.len(), after.len());
        for (before, after) in kept.iter().zip(&after) {
            let want = self.expected(before, after, to);
            let want = Row {
                offset: after.row.offset,
                // A batch made of single messages has one type, and stores what a consumer saw.
                timestamp_type: after.row.timestamp_type,
                ..want
            };
            assert_eq!(after.row, want);
        }
    }
}
