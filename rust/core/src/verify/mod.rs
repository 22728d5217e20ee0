//! The strict pass over a partition's log: a row a batch, and every defect by name.
//!
//! The ordinary reader reads what Kafka's reader reads. This one also says what is not as the canonical writer would have
//! written it, what the order of the log tells (offsets, epochs, sequences), and whether the index files lead to the right
//! places. A defect is an *error* where something is lost, contradicts itself, or is refused or read differently by other
//! readers; it is a *note* where every reader gets the same records.
//!
//! Three ends and holes are told apart: a *torn tail* and a *zero tail* are notes at the end of the last segment and errors
//! at the end of any other; a *hole* is bytes that are no entry with good ones behind them.
//!
//! Memory is bounded: one opened batch, the segment's index files, at most a million hashes of keys (8 bytes each),
//! 131,072 producers, and [`KEPT`] defects of each kind in words.

mod beside;
mod finding;
mod forms;
mod look;
mod order;
mod outline;

pub use beside::Beside;
pub use finding::{Defect, Findings, InFile, KEPT, Severity};
pub use order::{EpochRun, ProducerState};
pub use outline::{Line, Told};

use crate::bytes::field;
use crate::codec::{Buffer, Decompressor};
use crate::entry::Entry;
use crate::error::{Flaw, Kind};
use crate::head::Head;
use crate::limits::Limits;
use crate::log::{Damage, Mode, Options};
use beside::Cursors;
use order::{Order, Surroundings};

/// A row of the ledger: one batch, or one entry of a message set.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Byte position in the log.
    pub position: u64,
    /// Its header. What a wrapper holds is known only when it is open: see `first_offset`.
    pub head: Head,
    /// First offset; of a batch, as its header has it.
    pub first_offset: i64,
    /// Last offset; of a batch, as its header has it.
    pub last_offset: i64,
    /// Sound records.
    pub records: u32,
    /// Whether the checksum holds. Of a row where it does not, nothing is sure.
    pub crc_ok: bool,
    /// Whether all its records can be read.
    pub readable: bool,
}

/// Verifies one partition: its segments in order, each entry by entry.
#[derive(Debug)]
pub struct Verifier {
    limits: Limits,
    decompressor: Decompressor,
    buffer: Buffer,
    findings: Findings,
    order: Order,
    segments: usize,
    segment: Segment,
    batches: u64,
    records: u64,
    /// What is left to be judged with the rest of the partition, where that is not done here.
    outline: Option<Vec<Line>>,
}

/// The segment that is being read.
#[derive(Debug, Default)]
struct Segment {
    base_offset: Option<i64>,
    last: bool,
    /// Damage that was met: what it is depends on what follows.
    pending: Option<Damage>,
    /// Damage stands before the next entry.
    damaged: bool,
    /// The greatest offset.
    greatest: Option<i64>,
    cursors: Cursors,
}

impl Verifier {
    /// Within these limits.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            decompressor: Decompressor::new(),
            buffer: Buffer::new(),
            findings: Findings::default(),
            order: Order::new(),
            segments: 0,
            segment: Segment::default(),
            batches: 0,
            records: 0,
            outline: None,
        }
    }

    /// One that looks at entries and at index files, and leaves the order of the log, and the transaction index, to
    /// another, which is told by [`Self::take_outline`] and [`Self::replay`]: so segments are looked at in any order, at
    /// once, by many.
    #[must_use]
    pub fn for_outline(limits: Limits) -> Self {
        Self { outline: Some(Vec::new()), ..Self::new(limits) }
    }

    /// What came together since the last call.
    pub fn take_outline(&mut self) -> Vec<Line> {
        self.outline.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// What another has looked at, of the segment that was begun.
    pub fn replay(&mut self, lines: impl IntoIterator<Item = Line>) {
        for line in lines {
            match line {
                Line::Entry(told) => self.judge(&told),
                Line::Damage(end) => self.pass(end),
            }
        }
    }

    /// How a log is walked for this: checksums compared, and on past damage.
    #[must_use]
    pub const fn options(options: Options) -> Options {
        Options { check_crc: true, mode: Mode::Permissive, ..options }
    }

    /// Begins a segment. `base_offset` is the number in its name; `last` says that none follows, so that it may be the
    /// active one.
    pub fn begin(&mut self, base_offset: Option<i64>, last: bool, files: &Beside<'_>) {
        self.findings.segment = self.segments;
        self.segments += 1;
        let cursors = match base_offset {
            Some(base) => Cursors::open(files, base, &mut self.findings),
            None => Cursors::default(),
        };
        self.segment = Segment { base_offset, last, cursors, ..Segment::default() };
    }

    /// The next entry, whose checksum holds.
    pub fn entry(&mut self, entry: &Entry<'_>) -> Row {
        self.settle(true);
        let wants_keys = self.order.wants_keys();
        let findings = &mut self.findings;
        let mut seen =
            look::look(entry, &mut self.decompressor, &self.limits, &mut self.buffer, wants_keys, findings);
        self.batches += 1;
        self.records += u64::from(seen.records);
        let (at, head) = (entry.position, &entry.head);
        if self.segment.base_offset.is_some_and(|base| seen.first < base) && seen.first >= 0 {
            let base = self.segment.base_offset.unwrap_or_default();
            let text = format!("offset {} stands in a segment that begins at {base}", seen.first);
            findings.error(at, Kind::Disorder, text);
        }
        let told = Told::of(at, head, &mut seen);
        self.segment.cursors.entry(at, seen.first, seen.last, head.max_timestamp, findings);
        let end = seen.last.max(seen.first);
        self.segment.greatest = Some(self.segment.greatest.map_or(end, |it| it.max(end)));
        match &mut self.outline {
            Some(outline) => {
                self.order.see_keys(told.null_key, &told.keys);
                outline.push(Line::Entry(told));
            }
            None => self.judge(&told),
        }
        let (first_offset, last_offset) = (seen.first, seen.last);
        Row {
            position: at,
            head: *head,
            first_offset,
            last_offset,
            records: seen.records,
            crc_ok: true,
            readable: seen.readable,
        }
    }

    /// What the order of the log says of an entry.
    fn judge(&mut self, told: &Told) {
        let damaged = std::mem::take(&mut self.segment.damaged);
        let named = self.segment.base_offset.is_some();
        let marker = self.order.entry(told, Surroundings { damaged, named }, &mut self.findings);
        if let Some(marker) = marker {
            let order = &self.order;
            let gone = |offset| order.may_have_held(offset);
            self.segment.cursors.marker(&marker, told.position, gone, &mut self.findings);
        }
    }

    /// Damage up to `end` is passed.
    fn pass(&mut self, end: u64) {
        self.segment.damaged = true;
        self.order.lost();
        self.segment.cursors.damage(end);
    }

    /// Damage, or a tail.
    pub fn damage(&mut self, damage: Damage) {
        self.settle(true);
        self.segment.pending = Some(damage);
    }

    /// The end of the segment.
    pub fn end(&mut self) {
        self.settle(false);
        // A batch of hundreds of megabytes is rare: its room is not kept.
        self.buffer.shrink_to(16 << 20);
        let cleaned = self.order.rewritten();
        let last = self.order.last().max(self.segment.greatest);
        self.segment.cursors.finish(last, cleaned, &mut self.findings);
    }

    /// The end of the partition: judges what only the whole can tell.
    pub fn finish(&mut self) {
        self.order.finish(&mut self.findings);
    }

    /// Says what the last damage was, now that it is known whether an entry follows.
    fn settle(&mut self, followed: bool) {
        let Some(Damage { range, flaw }) = self.segment.pending.take() else { return };
        self.pass(range.end);
        if let Some(outline) = &mut self.outline {
            outline.push(Line::Damage(range.end));
        }
        let (from, bytes) = (range.start, range.end - range.start);
        let findings = &mut self.findings;
        let tail = matches!(flaw, Flaw::TornTail { .. } | Flaw::ZeroTail { .. });
        if tail && !followed {
            let severity = if self.segment.last { Severity::Note } else { Severity::Error };
            let place = findings.here(from);
            findings.push(place, flaw.kind(), severity, flaw.to_string());
            return;
        }
        match flaw {
            Flaw::Hole { .. } => {}
            // What was a torn tail until something stood behind it.
            Flaw::SizeTooLarge { size } if followed => {
                findings.error(from, Kind::Length, format!("size {size} runs past good entries or the end"));
            }
            flaw => findings.flaw(from, flaw),
        }
        let known_extent = matches!(flaw, Flaw::Crc { .. } | Flaw::Limit { .. });
        if followed && !known_extent || matches!(flaw, Flaw::Hole { .. }) {
            let end = range.end;
            let text = format!("{bytes} bytes that are no entry; a good one follows at byte {end}");
            findings.error(from, Kind::Hole, text);
        }
    }

    /// The leader epochs that the batches name, in the order of the log.
    #[must_use]
    pub fn epochs(&self) -> &[EpochRun] {
        self.order.epochs()
    }

    /// The greatest offset so far.
    #[must_use]
    pub const fn last(&self) -> Option<i64> {
        self.order.last()
    }

    /// What the log says of its producers so far.
    pub fn producers(&self) -> impl Iterator<Item = ProducerState> {
        self.order.producers()
    }

    /// What was found so far.
    #[must_use]
    pub const fn findings(&self) -> &Findings {
        &self.findings
    }

    /// Entries whose checksum holds.
    #[must_use]
    pub const fn batches(&self) -> u64 {
        self.batches
    }

    /// Sound records in them.
    #[must_use]
    pub const fn records(&self) -> u64 {
        self.records
    }

    /// Whether the log is sound: no error. `None` where no record was checked and nothing was wrong: that is no pass.
    #[must_use]
    pub fn ok(&self) -> Option<bool> {
        match (self.findings.errors(), self.records) {
            (1.., _) => Some(false),
            (0, 0) => None,
            (0, _) => Some(true),
        }
    }
}

/// Verifies a log that is in memory as a whole.
#[must_use]
pub fn verify(bytes: &[u8], options: Options) -> Verifier {
    let options = Verifier::options(options);
    let mut verifier = Verifier::new(options.limits);
    verifier.begin(None, true, &Beside::default());
    for step in crate::log::Log::new(bytes, options) {
        match step {
            Ok(entry) => {
                verifier.entry(&entry);
            }
            Err(damage) => verifier.damage(damage),
        }
    }
    verifier.end();
    verifier.finish();
    verifier
}

/// The header of an entry whose checksum does not hold, from the first bytes of it: for the ledger alone.
#[must_use]
pub fn broken_row(damage: &Damage, front: &[u8], options: &Options) -> Option<Row> {
    let Flaw::Crc { .. } = damage.flaw else { return None };
    let magic = i8::from_be_bytes(field(front, 16)?);
    let format = options.dialect.format(magic)?;
    let head = match format.traits().family {
        crate::format::Family::Batch => crate::batch::layout::read_fixed(front, format)?,
        crate::format::Family::MessageSet => crate::message_set::layout::read_head(front, format)?,
    };
    let (first_offset, last_offset) = (head.base_offset, head.last_offset);
    let position = damage.range.start;
    Some(Row { position, head, first_offset, last_offset, records: 0, crc_ok: false, readable: false })
}
