//! One entry, looked at in full: its header against its records, and the forms that the ordinary reader passes over.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

use crate::batch::control::{Control, ControlType};
use crate::bytes::field;
use crate::codec::{Buffer, Codec, Decompressor};
use crate::entry::{Entry, Payload};
use crate::error::{Flaw, Kind};
use crate::format::{Family, Format};
use crate::head::{Head, TimestampType};
use crate::limits::Limits;
use crate::message_set;
use crate::message_set::layout::{MAGIC, OFFSET, OVERHEAD, SIZE, read_head};
use crate::record::{Record, Sink};
use crate::verify::finding::Findings;
use crate::verify::forms;

/// What an entry holds, for the order of the log.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// First offset: of a batch, as its header has it.
    pub(super) first: i64,
    /// Last offset: of a batch, as its header has it.
    pub(super) last: i64,
    /// Sound records.
    pub(super) records: u32,
    /// All records can be read.
    pub(super) readable: bool,
    /// It shows that a cleaner rewrote it: offsets are missing inside, no record is left, or a delete horizon.
    pub(super) rewritten: bool,
    /// A record of data without a key, which no compacted topic has.
    pub(super) null_key: bool,
    /// Hashes of the keys of its records of data.
    pub(super) keys: Vec<u64>,
    /// The type of its control record.
    pub(super) control: Option<ControlType>,
}

/// Sees every record of an entry.
struct Records {
    count: u32,
    first: i64,
    last: i64,
    lowest: i64,
    highest: i64,
    max_timestamp: i64,
    falls_at: Option<i64>,
    null_key: bool,
    live_null: bool,
    tombstone: bool,
    control: Option<ControlType>,
    bad_control: Option<i64>,
    is_control: bool,
    keys: Vec<u64>,
    wants_keys: bool,
}

impl<'a> Sink<'a> for Records {
    fn record(&mut self, record: &Record<'a>) -> bool {
        let offset = record.offset;
        if self.count == 0 {
            (self.first, self.lowest, self.highest) = (offset, offset, offset);
        } else if offset <= self.last {
            self.falls_at.get_or_insert(offset);
        }
        self.last = offset;
        self.lowest = self.lowest.min(offset);
        self.highest = self.highest.max(offset);
        self.max_timestamp = self.max_timestamp.max(if record.untimed { -1 } else { record.timestamp });
        self.count += 1;
        self.live_null |= record.tombstone == Some(false) && record.value.is_none();
        self.tombstone |= record.tombstone.unwrap_or(record.value.is_none());
        if self.is_control {
            let control = Control::read(record.key, record.value);
            let marker = |c: &Control| matches!(c.control_type(), ControlType::Abort | ControlType::Commit);
            if control.is_none_or(|c| marker(&c) && c.coordinator_epoch.is_none()) {
                self.bad_control.get_or_insert(offset);
            }
            self.control = self.control.or(control.map(|c| c.control_type()));
        } else if record.key.is_none() {
            self.null_key = true;
        } else if self.wants_keys {
            let mut hasher = DefaultHasher::new();
            record.key.hash(&mut hasher);
            self.keys.push(hasher.finish());
        }
        false
    }

    fn header(&mut self, _key: &'a [u8], _value: Option<&'a [u8]>) {}

    fn discard(&mut self) {
        self.count = self.count.saturating_sub(1);
    }
}

/// Looks at one entry, whose checksum holds.
pub(super) fn look(
    entry: &Entry<'_>,
    decompressor: &mut Decompressor,
    limits: &Limits,
    buffer: &mut Buffer,
    wants_keys: bool,
    findings: &mut Findings,
) -> Seen {
    let (head, at) = (&entry.head, entry.position);
    let mut seen = Seen { first: head.base_offset, last: head.last_offset, ..Seen::default() };
    let mut records = Records {
        count: 0,
        first: head.base_offset,
        last: head.last_offset,
        lowest: 0,
        highest: 0,
        max_timestamp: i64::MIN,
        falls_at: None,
        null_key: false,
        live_null: false,
        tombstone: false,
        control: None,
        bad_control: None,
        is_control: head.is_control(),
        keys: Vec::new(),
        wants_keys,
    };
    let mut told = 0;
    let mut tell = |form: forms::Form, findings: &mut Findings| {
        if told & form.bit() == 0 {
            told |= form.bit();
            findings.push(findings.here(at), form.kind(), form.severity(), form.to_string());
        }
    };
    forms::of_head(head, entry.bytes, &mut |form| tell(form, findings));
    let payload = match entry.open(decompressor, limits, buffer) {
        Ok(payload) => payload,
        Err(error) => {
            findings.flaw(at, error.flaw);
            return seen;
        }
    };
    let decoded = payload.decode(limits, &mut records);
    seen.records = match decoded {
        Ok(count) => count,
        Err(error) => {
            findings.error(at, error.kind(), error.flaw.to_string());
            error.records
        }
    };
    let wrapper = head.count.is_none() && entry.is_compressed();
    if wrapper && records.count > 0 {
        (seen.first, seen.last) = (records.first, records.last);
    }
    seen.readable = decoded.is_ok();
    seen.null_key = records.null_key;
    seen.control = records.control;
    seen.keys = std::mem::take(&mut records.keys);
    if decoded.is_err() {
        return seen;
    }
    if entry.is_compressed() {
        behind(entry, &payload, findings);
    }
    match (head.format.traits().family, wrapper) {
        (Family::Batch, _) => forms::of_records(head, payload.bytes(), &mut |form| tell(form, findings)),
        (_, false) => forms::of_message(head, entry.bytes, &mut |form| tell(form, findings)),
        (_, true) => {
            forms::of_message(head, entry.bytes, &mut |form| tell(form, findings));
            inner(head, entry, payload.bytes(), findings, &mut |form, findings| tell(form, findings));
        }
    }
    seen.rewritten = against_head(head, at, wrapper, &records, findings);
    if head.count == Some(0) && head.size > head.body {
        left_behind(entry, decompressor, limits, findings);
    }
    seen
}

/// A batch that counts no record: what bytes it has no reader shows. (An empty compressed stream is none.)
fn left_behind(entry: &Entry<'_>, decompressor: &mut Decompressor, limits: &Limits, findings: &mut Findings) {
    let input = entry.bytes.get(entry.head.body..).unwrap_or_default();
    let codec = entry.head.codec().unwrap_or(Codec::None);
    let limit = usize::try_from(limits.decompressed).unwrap_or(usize::MAX);
    let mut out = Buffer::new();
    let read = decompressor.decompress(codec, crate::codec::Lz4Checksum::Standard, input, limit, &mut out);
    if read.is_err() || !out.is_empty() {
        findings.flaw(entry.position, Flaw::BytesAfterRecords { count: 0 });
    }
}

/// Bytes behind a compressed stream.
fn behind(entry: &Entry<'_>, payload: &Payload<'_>, findings: &mut Findings) {
    let head = &entry.head;
    let input = match head.format.traits().family {
        Family::Batch => entry.bytes.get(head.body..),
        Family::MessageSet => message_set::decode::wrapped(head, entry.bytes).ok(),
    };
    if let (Some(codec), Some(input)) = (head.codec(), input)
        && codec.has_bytes_behind(input, payload.bytes())
    {
        let message = format!("bytes stand behind the {} stream, or it is in pieces", codec.name());
        findings.note(entry.position, Kind::Canonical, message);
    }
}

/// The header against the records. Whether a cleaner rewrote the entry.
fn against_head(head: &Head, at: u64, wrapper: bool, records: &Records, findings: &mut Findings) -> bool {
    if head.base_offset < 0 {
        findings.error(at, Kind::Disorder, format!("its offset is negative: {}", head.base_offset));
    }
    if head.last_offset < head.base_offset {
        let delta = head.last_offset.wrapping_sub(head.base_offset);
        findings.error(at, Kind::Record, format!("lastOffsetDelta is negative: {delta}"));
    }
    if let Some(offset) = records.falls_at {
        let message = format!("offsets inside it do not rise: {offset} comes after one at or above it");
        findings.error(at, Kind::Disorder, message);
    }
    if let Some(offset) = records.bad_control {
        let message = format!("record {offset} of a control batch is no control record");
        findings.error(at, Kind::Record, message);
    }
    if records.live_null {
        findings.note(at, Kind::Canonical, "a record without the tombstone flag has a null value".into());
    }
    if head.count.is_some() && records.count > 0 {
        let (base, last) = (head.base_offset, head.last_offset);
        if records.lowest < base || records.highest > last {
            let (lowest, highest) = (records.lowest, records.highest);
            let message = format!(
                "records have offsets {lowest} to {highest}, outside of what its header says: {base} to {last}"
            );
            findings.error(at, Kind::Record, message);
        }
    }
    if head.delete_horizon().is_some() && records.count > 0 && !records.is_control && !records.tombstone {
        findings.note(at, Kind::Canonical, "a delete horizon, and no tombstone to delete".into());
    }
    timestamps(head, at, wrapper, records, findings);
    holes(head, at, wrapper, records, findings)
}

/// maxTimestamp is the greatest of the records', unless the broker's clock wrote it.
fn timestamps(head: &Head, at: u64, wrapper: bool, records: &Records, findings: &mut Findings) {
    let summed = head.count.is_some() || (wrapper && head.format != Format::V0);
    let created = head.timestamp_type == TimestampType::CreateTime;
    if !summed || !created || records.count == 0 || head.max_timestamp == records.max_timestamp {
        return;
    }
    let (says, is) = (head.max_timestamp, records.max_timestamp);
    let message = format!("maxTimestamp is {says}, the greatest timestamp of its records is {is}");
    // A record that is missing inside may have been that late.
    if says > is && missing(head, wrapper, records) > 0 {
        findings.note(at, Kind::Canonical, message);
    } else {
        findings.error(at, Kind::Record, message);
    }
}

/// How many offsets are missing inside.
fn missing(head: &Head, wrapper: bool, records: &Records) -> i64 {
    let span = match head.count {
        Some(_) => head.last_offset.wrapping_sub(head.base_offset),
        None if wrapper => records.last.wrapping_sub(records.first),
        None => 0,
    };
    if span < 0 { 0 } else { span.saturating_add(1).saturating_sub(i64::from(records.count)) }
}

/// Tells of offsets that are missing inside. Whether a cleaner was there.
fn holes(head: &Head, at: u64, wrapper: bool, records: &Records, findings: &mut Findings) -> bool {
    let missing = if head.count.is_some() || wrapper { missing(head, wrapper, records) } else { 0 };
    if missing > 0 {
        let message = format!("{missing} offsets inside it have no record, as after compaction");
        findings.note(at, Kind::Gap, message);
    }
    missing > 0 || head.delete_horizon().is_some()
}

/// The messages inside a wrapper.
fn inner(
    outer: &Head,
    entry: &Entry<'_>,
    set: &[u8],
    findings: &mut Findings,
    tell: &mut dyn FnMut(forms::Form, &mut Findings),
) {
    let position = entry.position;
    let (mut at, mut first, mut last) = (0, None, 0);
    let (mut strangers, mut clocks) = (false, false);
    while let Some(rest) = set.get(at..).filter(|rest| !rest.is_empty()) {
        let size = field(rest, SIZE).map(i32::from_be_bytes).and_then(|size| usize::try_from(size).ok());
        let whole = size.and_then(|size| rest.get(..OVERHEAD + size));
        let magic = field(rest, MAGIC).map(i8::from_be_bytes);
        let (Some(bytes), Some(magic)) = (whole, magic) else {
            let message = format!("{} bytes at the end of a wrapper are no whole message", rest.len());
            findings.error(position, Kind::Wrapper, message);
            break;
        };
        let format = match magic {
            0 => Format::V0,
            1 => Format::V1,
            _ => outer.format,
        };
        strangers |= format != outer.format;
        let Some(head) = read_head(bytes, format) else { break };
        if let Err(flaw) = (Entry { position, bytes, head }).check_crc() {
            findings.error(position, Kind::Crc, format!("a message inside a wrapper: {flaw}"));
        }
        let (theirs, ours) = (head.timestamp_type, outer.timestamp_type);
        clocks |= format == outer.format && theirs != ours;
        forms::of_head(&head, bytes, &mut |form| tell(form, findings));
        forms::of_message(&head, bytes, &mut |form| tell(form, findings));
        last = field(bytes, OFFSET).map_or(0, i64::from_be_bytes);
        first = first.or(Some(last));
        at += bytes.len();
    }
    let mut note = |message: &str| findings.note(position, Kind::Canonical, message.into());
    if strangers {
        note("messages of another magic stand inside a wrapper");
    }
    if clocks {
        note("messages inside a wrapper have another timestamp type than it");
    }
    let has_key = match outer.format {
        // A varint length: 1, 3, 5 … are −1, −2, −3 …
        Format::Kip82a => entry.bytes.get(outer.body).is_some_and(|byte| byte & 1 == 0),
        _ => entry.bytes.get(outer.body).is_some_and(|byte| *byte < 0x80),
    };
    if has_key {
        note("a wrapper has a key, which no reader looks at");
    }
    if outer.format == Format::V0 && outer.base_offset != last {
        let message = format!("a wrapper's offset is {}, its last message's is {last}", outer.base_offset);
        findings.error(position, Kind::Wrapper, message);
    } else if outer.format != Format::V0 && first.is_some_and(|first| first != 0) {
        findings.note(position, Kind::Canonical, "offsets inside a wrapper do not begin at 0".into());
    }
}
