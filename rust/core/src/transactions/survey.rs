//! Gathers what became of a partition's transactions, from batch headers and markers.

use std::collections::HashMap;
use std::io;

use super::{Span, Transactions, Unstable};
use crate::batch::control::{Control, ControlType};
use crate::codec::{Buffer, Decompressor};
use crate::entry::Entry;
use crate::error::{Error, Flaw};
use crate::head::Head;
use crate::log::{Mode, Options};
use crate::record::{Record, Sink};
use crate::segment::{AbortedTxn, TransactionIndex};
use crate::source::{Entries, Next, Source};

/// Batches up to this size are read whole, with their checksum: it costs no more than their header, and a marker that
/// passes for data because of one wrong bit is found.
const SMALL: usize = 128;

/// A transaction whose marker did not come yet.
#[derive(Clone, Copy, Debug)]
struct Open {
    first: i64,
    /// Records and bytes of the partition before it.
    before: (u64, u64),
}

/// What is decided of a producer.
#[derive(Clone, Debug, Default)]
struct Decided {
    spans: Vec<Span>,
    /// How many holes there were when the last span was made: none may reach over one.
    holes: u64,
}

/// What a header stands for.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Data,
    Marker {
        aborted: bool,
    },
    /// Other control records, and control batches that compaction left empty.
    Other,
}

/// A header that waits for the next one, which tells whether its offset can be true.
#[derive(Clone, Copy, Debug)]
struct Held {
    head: Head,
    kind: Kind,
    /// Bytes before it were lost.
    behind_hole: bool,
    /// The header before it was not believed, and may have been a marker of any offset.
    behind_liar: bool,
}

/// An abort marker of the log at hand, to be compared with the index.
#[derive(Clone, Copy, Debug)]
struct Abort {
    producer_id: i64,
    /// Its transaction's first record, where there is one left.
    first: Option<i64>,
    marker: i64,
}

/// A `.txnindex` at odds with the markers in its segment, or broken. The markers were believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Disagreement {
    /// What is wrong, and at which byte of the index file.
    pub error: Error,
    /// How many entries or markers of that segment are concerned.
    pub count: u64,
}

/// A segment to be walked.
#[derive(Clone, Copy, Debug, Default)]
pub struct SegmentOf<'a> {
    /// The offset that it begins at, by its name.
    pub base_offset: Option<i64>,
    /// The offset that the next segment begins at, by its name.
    pub end_offset: Option<i64>,
    /// The bytes of its `.txnindex`, if that is there.
    pub index: Option<&'a [u8]>,
    /// No segment follows.
    pub last: bool,
    /// Offsets below this one are given by another segment, and passed over.
    pub from: Option<i64>,
    /// Offsets from this one on are, too.
    pub to: Option<i64>,
}

impl SegmentOf<'_> {
    /// Whether it is this segment that gives an offset.
    fn gives(&self, offset: i64) -> bool {
        self.from.is_none_or(|from| offset >= from) && self.to.is_none_or(|to| offset < to)
    }
}

/// Walks the segments of one partition in order, header by header.
///
/// No checksum covers a batch's base offset, and large batches are passed over without one. So an offset is believed only
/// if it lies between those of its neighbours and within its segment; what does not counts as lost.
///
/// Markers decide. A transaction index is asked where no marker can be: in damaged bytes, where offsets are missing, and
/// behind the end of the log. Bytes that are damaged where no index is make every transaction unknown that was open before them.
///
/// Memory: what [`Transactions`] takes, 40 bytes for each open transaction, and the index of one segment.
#[derive(Debug, Default)]
pub struct Survey {
    decided: HashMap<i64, Decided>,
    open: HashMap<i64, Open>,
    unknown: Option<(Open, i64, bool)>,
    /// The last offset of what was taken in.
    last_offset: Option<i64>,
    records: u64,
    bytes: u64,
    at_least: bool,
    aborts: Vec<Abort>,
    held: Option<Held>,
    hole: bool,
    holes: u64,
    lost: Vec<(i64, i64)>,
    decompressor: Decompressor,
    buffer: Buffer,
}

impl Survey {
    /// Nothing seen yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Walks the next segment. Returns what its index has against it.
    ///
    /// Damage is passed over whatever the mode says: the reader is the one to tell of it.
    ///
    /// # Errors
    /// Those of the source.
    pub fn segment<S: Source>(
        &mut self,
        source: S,
        options: Options,
        of: SegmentOf<'_>,
    ) -> io::Result<Option<Disagreement>> {
        let view = of.index.map(|bytes| TransactionIndex::new(bytes, of.base_offset.unwrap_or(0)));
        let read: Option<Result<Vec<AbortedTxn>, Error>> = view.map(|view| view.iter().collect());
        let mut passed_over = 0;
        let (index, mut odd) = match read {
            None => (None, None),
            Some(Ok(mut entries)) => {
                let below = entries.partition_point(|txn| of.from.is_some_and(|from| txn.last_offset < from));
                passed_over = (below * AbortedTxn::ENCODED_SIZE) as u64;
                entries.retain(|txn| of.gives(txn.last_offset));
                (Some(entries), None)
            }
            Some(Err(error)) => (None, Some(Disagreement { error, count: 1 })),
        };
        let index = index.as_deref();
        self.aborts.clear();
        if let Some(base) = of.base_offset {
            self.begin(of.from.map_or(base, |from| from.max(base)));
        }
        let end = of.to.or(of.end_offset).unwrap_or(i64::MAX);
        let mut entries = Entries::new(source, Options { mode: Mode::DropMalformed, ..options }, 0);
        loop {
            if let Some(head) = entries.next_head(is_wanted)? {
                if !of.gives(head.base_offset) {
                    continue;
                }
                self.hold(head, Kind::Data, end, index);
                continue;
            }
            match entries.next()? {
                Next::Entry(entry) if !of.gives(entry.head.base_offset) => {}
                Next::Entry(entry) => {
                    let kind =
                        if entry.head.is_control() { self.read(&entry, &options) } else { Ok(Kind::Data) };
                    match kind {
                        Ok(kind) => self.hold(entry.head, kind, end, index),
                        // What is damaged inside may have been any marker.
                        Err(_) => self.hole = true,
                    }
                }
                // A zero tail too: a segment with others behind it has none, so it may be one that was cut short.
                Next::Damage(_) => self.hole = true,
                Next::End => break,
            }
        }
        if let Some(held) = self.held.take() {
            self.take(&held, index);
        }
        // What the last segment would have gone on with is lost as well.
        if std::mem::take(&mut self.hole) || (of.last && index.is_some()) {
            self.behind_hole(i64::MAX, index);
        }
        if let Some(index) = index {
            odd = self.compare(index, of.last).map(|mut odd| {
                odd.error.position += passed_over;
                odd
            });
        }
        Ok(odd)
    }

    /// A segment begins, at this offset by its name.
    fn begin(&mut self, base: i64) {
        // What was lost at the end of the one before ends here.
        if let Some(lost) = self.lost.last_mut().filter(|lost| lost.1 == i64::MAX) {
            lost.1 = base;
        }
        // Segments that overlap: nobody knows which one the markers of the other are for.
        self.hole |= self.last_offset.is_some_and(|last| last >= base);
        self.last_offset = Some(base.saturating_sub(1));
    }

    /// Takes a header in when the next one is there.
    fn hold(&mut self, head: Head, kind: Kind, end: i64, index: Option<&[AbortedTxn]>) {
        let behind = self.last_offset.is_none_or(|last| head.base_offset > last);
        if !behind || head.last_offset < head.base_offset || head.last_offset >= end {
            self.hole = true;
            return;
        }
        let behind_hole = std::mem::take(&mut self.hole);
        let mut next = Held { head, kind, behind_hole, behind_liar: false };
        if let Some(held) = self.held.take() {
            if held.head.last_offset < head.base_offset {
                self.take(&held, index);
            } else {
                // One of the two names a false offset, and it is not this one: it follows what came before.
                next.behind_liar = true;
            }
        }
        self.held = Some(next);
    }

    fn take(&mut self, held: &Held, index: Option<&[AbortedTxn]>) {
        let head = &held.head;
        if held.behind_liar {
            // No index can be asked about a range that nobody knows.
            self.behind_hole(head.base_offset, None);
        } else if held.behind_hole || self.is_missed(head, index) {
            self.behind_hole(head.base_offset, index);
        }
        self.last_offset = Some(head.last_offset);
        match held.kind {
            Kind::Data => self.data(head),
            Kind::Marker { aborted } => self.marker(head, aborted, index),
            Kind::Other => {}
        }
    }

    /// All segments have been walked.
    #[must_use]
    pub fn finish(mut self) -> Transactions {
        for (id, open) in std::mem::take(&mut self.open) {
            self.note_unknown(open, id, false);
        }
        let unstable = self.unknown.map(|(open, producer_id, damaged)| Unstable {
            offset: open.first,
            producer_id,
            records: self.records - open.before.0,
            bytes: self.bytes - open.before.1,
            at_least: self.at_least,
            damaged,
        });
        let decided = self.decided.into_iter().map(|(id, of)| (id, of.spans));
        let producers = decided.filter(|(_, spans)| !spans.is_empty()).collect();
        Transactions { producers, unstable }
    }

    /// A batch of data, or an entry of a message set.
    fn data(&mut self, head: &Head) {
        // An empty batch that compaction left has no record to decide on.
        let decided = self.decided.get(&head.producer_id).and_then(|of| of.spans.last());
        if head.is_transactional()
            && head.count != Some(0)
            && decided.is_none_or(|span| span.to < head.base_offset)
        {
            let open = Open { first: head.base_offset, before: (self.records, self.bytes) };
            self.open.entry(head.producer_id).or_insert(open);
        }
        let is_wrapper = head.count.is_none() && head.codec_id() != 0;
        self.at_least |= is_wrapper;
        let count = head.count.map_or(1, |count| u64::try_from(count).unwrap_or(0));
        self.records = self.records.saturating_add(count);
        self.bytes = self.bytes.saturating_add(head.size as u64);
    }

    /// A transaction marker.
    fn marker(&mut self, head: &Head, aborted: bool, index: Option<&[AbortedTxn]>) {
        let (id, offset) = (head.producer_id, head.base_offset);
        let open = self.open.remove(&id);
        let lost = open.and_then(|open| self.lost.last().filter(|lost| lost.0 >= open.first)).copied();
        if aborted {
            // Where a marker may have been lost in between, nothing tells which record was the first.
            let first = open.filter(|_| lost.is_none()).map(|open| open.first);
            self.aborts.push(Abort { producer_id: id, first, marker: offset });
        }
        // A marker without data is legal, and decides nothing.
        let Some(open) = open else { return };
        if let (true, Some(lost)) = (aborted, lost) {
            // Between data and marker, bytes were lost that may have held a commit. The index knows where the
            // aborted transaction began.
            let entry = index.and_then(|index| index.iter().find(|txn| is_of(txn, id, offset)));
            let first = entry.map_or(lost.1, |txn| txn.first_offset);
            if first > open.first {
                self.note_unknown(open, id, true);
                self.decide(id, first, offset, true);
                return;
            }
        }
        self.decide(id, open.first, offset, aborted);
    }

    /// Decides a producer's records from `from` to `to`.
    fn decide(&mut self, id: i64, from: i64, to: i64, aborted: bool) {
        let of = self.decided.entry(id).or_default();
        let same_stretch = std::mem::replace(&mut of.holes, self.holes) == self.holes;
        let last = of.spans.last_mut();
        let from = last.as_ref().map_or(from, |last| from.max(last.to.saturating_add(1)));
        if from > to {
            return;
        }
        match last {
            // Between the two, the producer has no record.
            Some(last) if last.aborted == aborted && same_stretch => last.to = to,
            _ => of.spans.push(Span { from, to, aborted }),
        }
    }

    /// Of these records nothing will be known.
    fn note_unknown(&mut self, open: Open, id: i64, damaged: bool) {
        if self.unknown.is_none_or(|(first, ..)| open.first < first.first) {
            self.unknown = Some((open, id, damaged));
        }
    }

    /// Whether the index names a marker between the last offset and a header's, where no batch is at all. Compaction
    /// takes marker and entry together, so it was lost, and a false length led over the place.
    fn is_missed(&self, head: &Head, index: Option<&[AbortedTxn]>) -> bool {
        let (Some(index), Some(last)) = (index, self.last_offset) else { return false };
        let behind = index.partition_point(|txn| txn.last_offset <= last);
        index.get(behind).is_some_and(|txn| txn.last_offset < head.base_offset)
    }

    /// Bytes were lost before the offset `end`. Any marker may have been in them.
    fn behind_hole(&mut self, end: i64, index: Option<&[AbortedTxn]>) {
        self.holes += 1;
        let first = self.last_offset.map_or(i64::MIN, |last| last.saturating_add(1));
        let Some(index) = index else {
            for (id, open) in std::mem::take(&mut self.open) {
                self.note_unknown(open, id, true);
            }
            return;
        };
        self.lost.push((first, end));
        let begin = index.partition_point(|txn| txn.last_offset < first);
        for txn in index[begin..].iter().take_while(|txn| txn.last_offset < end) {
            let id = txn.producer_id;
            let Some(open) = self.open.remove(&id) else { continue };
            if open.first < txn.first_offset {
                self.note_unknown(open, id, true);
            }
            self.decide(id, open.first.max(txn.first_offset), txn.last_offset, true);
        }
        // Nor may a span that ends in the hole go on behind it.
        self.holes += 1;
    }

    /// Compares the segment's index with its abort markers.
    fn compare(&self, index: &[AbortedTxn], last: bool) -> Option<Disagreement> {
        let mut odd: Option<Disagreement> = None;
        let mut note = |at: usize, flaw: &'static str| {
            let error = Flaw::TxnIndex(flaw).at((at * AbortedTxn::ENCODED_SIZE) as u64);
            odd.get_or_insert(Disagreement { error, count: 0 }).count += 1;
        };
        let seen: HashMap<i64, &Abort> = self.aborts.iter().map(|abort| (abort.marker, abort)).collect();
        for (at, txn) in index.iter().enumerate() {
            match seen.get(&txn.last_offset) {
                Some(abort) if abort.producer_id != txn.producer_id => {
                    note(
                        at,
                        "transaction index: an entry names another producer than the abort marker at its end",
                    );
                }
                Some(abort) if abort.first.is_some_and(|first| first < txn.first_offset) => {
                    note(at, "transaction index: an aborted transaction begins before the entry says");
                }
                None if !self.is_lost(txn.last_offset) => {
                    note(at, "transaction index: no abort marker stands where an entry says");
                }
                _ => {}
            }
        }
        // A broker writes the marker first, so the end of the last index may lag behind.
        let reach = if last { index.last().map_or(i64::MIN, |txn| txn.last_offset) } else { i64::MAX };
        // Compaction keeps markers for a while whose data and entries are gone.
        let with_data = self.aborts.iter().filter(|abort| abort.first.is_some() && abort.marker <= reach);
        for abort in with_data {
            let at = index.partition_point(|txn| txn.last_offset < abort.marker);
            if index.get(at).is_none_or(|txn| txn.last_offset != abort.marker) {
                note(at, "transaction index: an abort marker has no entry");
            }
        }
        odd
    }

    /// Whether an offset lay in lost bytes.
    fn is_lost(&self, offset: i64) -> bool {
        let behind = self.lost.partition_point(|lost| lost.0 <= offset);
        behind.checked_sub(1).and_then(|at| self.lost.get(at)).is_some_and(|lost| offset < lost.1)
    }

    /// What a control batch stands for.
    fn read(&mut self, entry: &Entry<'_>, options: &Options) -> Result<Kind, Error> {
        let opened = entry.open(&mut self.decompressor, &options.limits, &mut self.buffer)?;
        let mut first = First::default();
        opened.decode(&options.limits, &mut first)?;
        match first.control.map(|control| control.control_type()) {
            Some(ControlType::Abort) => Ok(Kind::Marker { aborted: true }),
            Some(ControlType::Commit) => Ok(Kind::Marker { aborted: false }),
            // Kafka's consumer stops at such a key; what it was to say, nobody knows.
            None if first.seen => Err(Flaw::PastEnd("key of a control record").at(entry.position)),
            _ => Ok(Kind::Other),
        }
    }
}

fn is_wanted(head: &Head) -> bool {
    head.is_control() || head.size <= SMALL
}

fn is_of(txn: &AbortedTxn, producer_id: i64, marker: i64) -> bool {
    txn.producer_id == producer_id && txn.last_offset == marker
}

/// The first record of a control batch, the only one that counts for Kafka's consumer too.
#[derive(Default)]
struct First {
    seen: bool,
    control: Option<Control>,
}

impl<'a> Sink<'a> for First {
    fn record(&mut self, record: &Record<'a>) -> bool {
        if !std::mem::replace(&mut self.seen, true) {
            self.control = Control::read(record.key, record.value);
        }
        false
    }

    fn header(&mut self, _key: &'a [u8], _value: Option<&'a [u8]>) {}
}
