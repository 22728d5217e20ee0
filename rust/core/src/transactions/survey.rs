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
    /// Where the next span may begin at the earliest; `None`: at the log's start, whatever came before that.
    from: Option<i64>,
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

/// Walks the segments of one partition in order, header by header.
///
/// Markers decide. A transaction index is asked where a marker cannot be: in damaged bytes, or behind the end of the
/// log. Bytes that are damaged where no index is make every transaction unknown that was open before them.
///
/// Memory: what [`Transactions`] takes, 40 bytes for each open transaction, and the index of one segment.
#[derive(Debug, Default)]
pub struct Survey {
    decided: HashMap<i64, Decided>,
    open: HashMap<i64, Open>,
    unknown: Option<(Open, i64, bool)>,
    /// The greatest offset that a sound header named.
    last_offset: Option<i64>,
    records: u64,
    bytes: u64,
    at_least: bool,
    aborts: Vec<Abort>,
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

    /// Walks the next segment. `index`: the bytes of its `.txnindex` and the base offset of their names, if it is
    /// there; `last`: no segment follows. Returns what the index has against it.
    ///
    /// Damage is passed over whatever the mode says: the reader is the one to tell of it.
    ///
    /// # Errors
    /// Those of the source.
    pub fn segment<S: Source>(
        &mut self,
        source: S,
        options: Options,
        index: Option<(&[u8], i64)>,
        last: bool,
    ) -> io::Result<Option<Disagreement>> {
        let view = index.map(|(bytes, base)| TransactionIndex::new(bytes, base));
        let read: Option<Result<Vec<AbortedTxn>, Error>> = view.map(|view| view.iter().collect());
        let (index, mut odd) = match read {
            None => (None, None),
            Some(Ok(entries)) => (Some(entries), None),
            Some(Err(error)) => (None, Some(Disagreement { error, count: 1 })),
        };
        self.aborts.clear();
        let mut entries = Entries::new(source, Options { mode: Mode::DropMalformed, ..options }, 0);
        let mut hole = false;
        loop {
            if let Some(head) = entries.next_head(is_wanted)? {
                self.begin_behind(&head);
                self.behind_hole(&mut hole, Some(&head), index.as_deref());
                self.data(&head);
                continue;
            }
            match entries.next()? {
                Next::Entry(entry) => {
                    let marker = if entry.head.is_control() { self.read(&entry, &options) } else { Ok(None) };
                    // What is damaged inside may have been any marker.
                    let Ok(marker) = marker else {
                        hole = true;
                        continue;
                    };
                    self.begin_behind(&entry.head);
                    self.behind_hole(&mut hole, Some(&entry.head), index.as_deref());
                    match marker {
                        Some(aborted) => self.marker(&entry.head, aborted, index.as_deref()),
                        None if entry.head.is_control() => self.passed(&entry.head),
                        None => self.data(&entry.head),
                    }
                }
                Next::Damage(damage) => hole |= !matches!(damage.flaw, Flaw::ZeroTail { .. }),
                Next::End => break,
            }
        }
        // What the last segment would have gone on with is lost as well.
        hole |= last && index.is_some();
        self.behind_hole(&mut hole, None, index.as_deref());
        if let Some(index) = &index {
            odd = self.compare(index, last);
        }
        Ok(odd)
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

    /// What was lost at the end of a segment ends where the next one begins.
    fn begin_behind(&mut self, head: &Head) {
        if let Some(lost) = self.lost.last_mut().filter(|lost| lost.1 == i64::MAX) {
            lost.1 = head.base_offset;
        }
    }

    fn passed(&mut self, head: &Head) {
        self.last_offset = self.last_offset.max(Some(head.last_offset));
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
        self.passed(head);
    }

    /// A transaction marker.
    fn marker(&mut self, head: &Head, aborted: bool, index: Option<&[AbortedTxn]>) {
        let (id, offset) = (head.producer_id, head.base_offset);
        self.passed(head);
        // Offsets in disorder: what lies behind the marker is none of its business.
        let open = self.open.get(&id).copied().filter(|open| open.first < offset);
        if open.is_some() {
            self.open.remove(&id);
        }
        if aborted {
            self.aborts.push(Abort { producer_id: id, first: open.map(|open| open.first), marker: offset });
        }
        // A marker without data is legal, and decides nothing.
        let Some(open) = open else { return };
        let lost = self.lost.last().filter(|lost| lost.0 >= open.first);
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
        self.decide(id, i64::MIN, offset, aborted);
    }

    /// Decides a producer's offsets up to `to`, from `from` on or from where they are not decided yet.
    fn decide(&mut self, id: i64, from: i64, to: i64, aborted: bool) {
        let of = self.decided.entry(id).or_default();
        let from = of.from.map_or(from, |own| own.max(from));
        if from > to {
            return;
        }
        of.from = Some(to.saturating_add(1));
        match of.spans.last_mut() {
            Some(last) if last.aborted == aborted && last.to.saturating_add(1) == from => last.to = to,
            _ => of.spans.push(Span { from, to, aborted }),
        }
    }

    /// Of these records nothing will be known.
    fn note_unknown(&mut self, open: Open, id: i64, damaged: bool) {
        if self.unknown.is_none_or(|(first, ..)| open.first < first.first) {
            self.unknown = Some((open, id, damaged));
        }
    }

    /// Bytes were lost before `head`, or at the segment's end. Any marker may have been in them.
    fn behind_hole(&mut self, hole: &mut bool, head: Option<&Head>, index: Option<&[AbortedTxn]>) {
        if !std::mem::take(hole) {
            return;
        }
        let first = self.last_offset.map_or(i64::MIN, |last| last.saturating_add(1));
        let end = head.map_or(i64::MAX, |head| head.base_offset);
        let Some(index) = index else {
            for (id, open) in std::mem::take(&mut self.open) {
                self.note_unknown(open, id, true);
                self.decided.entry(id).or_default().from = Some(first);
            }
            return;
        };
        self.lost.push((first, end));
        let begin = index.partition_point(|txn| txn.last_offset < first);
        for txn in index[begin..].iter().take_while(|txn| txn.last_offset < end) {
            let id = txn.producer_id;
            match self.open.remove(&id) {
                Some(open) if open.first < txn.first_offset => self.note_unknown(open, id, true),
                Some(_) => {}
                None => continue,
            }
            self.decide(id, txn.first_offset, txn.last_offset, true);
        }
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

    /// Whether a control batch aborts (`true`) or commits; `None` for other control records and for batches that
    /// compaction left empty.
    fn read(&mut self, entry: &Entry<'_>, options: &Options) -> Result<Option<bool>, Error> {
        let opened = entry.open(&mut self.decompressor, &options.limits, &mut self.buffer)?;
        let mut first = First::default();
        opened.decode(&options.limits, &mut first)?;
        Ok(match first.control.map(|control| control.control_type()) {
            Some(ControlType::Abort) => Some(true),
            Some(ControlType::Commit) => Some(false),
            _ => None,
        })
    }
}

fn is_wanted(head: &Head) -> bool {
    head.count.is_some() && (head.is_control() || head.size <= SMALL)
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
