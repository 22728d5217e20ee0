//! The order of a partition's log: offsets, leader epochs, producers' sequences and transactions, over all segments.
//!
//! **Which gaps are legal.** Only the log cleaner makes gaps, and it cleans a log from its start: so before a gap that it
//! made no key stands twice, and no record of data is without a key. A gap that breaks that is an error, unless the
//! partition shows by itself that it was cleaned (batches with offsets missing inside, without records, or with a delete
//! horizon). In bytes that are no segment by name, gaps are notes: they need not hold all of a log. Sequences of a producer are judged alike: where offsets are missing, so may its batches be.

use std::collections::{HashMap, HashSet, VecDeque};

use crate::error::Kind;
use crate::verify::finding::{Findings, KEPT, Place, Severity};
use crate::verify::outline::Told;

/// Keys that are remembered. Beyond, keys that stand twice are not found, and a gap counts as legal.
const KEYS: usize = 1 << 20;
/// Producers that are remembered; later ones are not followed.
const PRODUCERS: usize = 1 << 17;
/// Leader epochs that are remembered. A healthy log has some hundreds.
const EPOCHS: usize = 1 << 17;
/// Stretches of missing offsets that are remembered, the latest ones.
const HOLES: usize = 1 << 16;

/// A stretch of a log under one leader epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EpochRun {
    /// The epoch.
    pub epoch: i32,
    /// First offset of the first batch that names it.
    pub first: i64,
    /// Last offset of the last one.
    pub last: i64,
}

/// What the log says of a producer up to a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProducerState {
    /// Its id.
    pub producer_id: i64,
    /// Its epoch.
    pub epoch: i16,
    /// Sequence of the last record of its last batch; −1 where no batch of this epoch was seen.
    pub last_sequence: i32,
    /// Last offset of that batch.
    pub last_offset: Option<i64>,
    /// First offset of the transaction that is open.
    pub open_since: Option<i64>,
}

#[derive(Clone, Copy, Debug)]
struct Producer {
    epoch: i16,
    /// −1: its next batch begins at 0.
    sequence: i32,
    /// Whether a batch of its was seen, so that `sequence` says something.
    known: bool,
    /// Gaps of the log when its last batch was seen.
    gaps: u64,
    /// Last offset of its last batch of data.
    last_offset: Option<i64>,
    /// First offset of the transaction that is open.
    open_since: Option<i64>,
}

/// What was seen so far.
#[derive(Debug)]
pub(super) struct Order {
    last: Option<i64>,
    leader_epoch: i32,
    epochs: Vec<EpochRun>,
    producers: HashMap<i64, Producer>,
    keys: HashSet<u64>,
    /// A key stood twice, or a record had none.
    never_cleaned: bool,
    rewritten: bool,
    gaps: u64,
    /// Where the log begins.
    start: Option<i64>,
    /// Offsets that are not there, first and last, rising; those of batches that a cleaner emptied among them.
    holes: VecDeque<(i64, i64)>,
    /// Holes up to this offset have been forgotten.
    forgotten: Option<i64>,
    /// Findings that are notes if the partition shows that it was cleaned: judged at its end.
    open: Vec<(Place, Kind, String)>,
}

/// What is known of the place of an entry.
#[derive(Clone, Copy, Debug)]
pub(super) struct Surroundings {
    /// Damage stands before it.
    pub(super) damaged: bool,
    /// It stands in a segment that is named as one. Other bytes need not hold all of a stretch of a log.
    pub(super) named: bool,
}

/// An abort or commit marker, for the transaction index.
pub(super) struct Marker {
    pub(super) producer_id: i64,
    pub(super) offset: i64,
    pub(super) aborts: bool,
    /// First offset of the transaction, if its beginning was seen.
    pub(super) first_offset: Option<i64>,
}

impl Order {
    pub(super) fn new() -> Self {
        Self {
            last: None,
            leader_epoch: -1,
            epochs: Vec::new(),
            producers: HashMap::new(),
            keys: HashSet::new(),
            never_cleaned: false,
            rewritten: false,
            gaps: 0,
            start: None,
            holes: VecDeque::new(),
            forgotten: None,
            open: Vec::new(),
        }
    }

    /// Whether keys still have to be looked at.
    pub(super) fn wants_keys(&self) -> bool {
        !self.never_cleaned && self.keys.len() < KEYS
    }

    /// Whether the partition shows that a cleaner was there.
    pub(super) const fn rewritten(&self) -> bool {
        self.rewritten
    }

    /// The greatest offset so far.
    pub(super) const fn last(&self) -> Option<i64> {
        self.last
    }

    /// Damage stands before the next entry: what is missing there is missing because of it.
    pub(super) fn lost(&mut self) {
        self.gaps += 1;
    }

    /// Leader epochs, as the batches name them.
    pub(super) fn epochs(&self) -> &[EpochRun] {
        &self.epochs
    }

    /// The producers, in no order.
    pub(super) fn producers(&self) -> impl Iterator<Item = ProducerState> {
        self.producers.iter().map(|(id, it)| ProducerState {
            producer_id: *id,
            epoch: it.epoch,
            last_sequence: it.sequence,
            last_offset: it.last_offset,
            open_since: it.open_since,
        })
    }

    /// Whether nothing contradicts that a record once stood at this offset: it lies before the log's start, or where
    /// offsets are missing. Of what was forgotten nothing is sure.
    pub(super) fn may_have_held(&self, offset: i64) -> bool {
        if self.start.is_none_or(|start| offset < start) || self.forgotten.is_some_and(|end| offset <= end) {
            return true;
        }
        let behind = self.holes.partition_point(|(_, last)| *last < offset);
        self.holes.get(behind).is_some_and(|(first, _)| *first <= offset)
    }

    fn hole(&mut self, first: i64, last: i64) {
        if self.holes.len() == HOLES
            && let Some((_, end)) = self.holes.pop_front()
        {
            self.forgotten = Some(end);
        }
        self.holes.push_back((first, last));
    }

    /// The keys of the next entry alone: whether the cleaner can have been here.
    pub(super) fn see_keys(&mut self, null_key: bool, keys: &[u64]) {
        self.never_cleaned |= null_key;
        for key in keys {
            if self.wants_keys() && !self.keys.insert(*key) {
                self.never_cleaned = true;
            }
        }
        if self.never_cleaned {
            self.keys = HashSet::new();
        }
    }

    /// The next entry.
    pub(super) fn entry(
        &mut self,
        told: &Told,
        surroundings: Surroundings,
        findings: &mut Findings,
    ) -> Option<Marker> {
        let at = told.position;
        self.offsets(told, surroundings, findings);
        self.rewritten |= told.rewritten;
        self.see_keys(told.null_key, &told.keys);
        if told.leader_epoch >= 0 {
            if told.leader_epoch < self.leader_epoch {
                let (now, before) = (told.leader_epoch, self.leader_epoch);
                findings.error(at, Kind::Epoch, format!("the leader epoch goes back from {before} to {now}"));
            }
            self.leader_epoch = told.leader_epoch;
            self.epoch(told);
        }
        if told.producer_id < 0 { None } else { self.producer(told, findings) }
    }

    fn epoch(&mut self, told: &Told) {
        let room = self.epochs.len() < EPOCHS;
        match self.epochs.last_mut() {
            Some(run) if run.epoch == told.leader_epoch => run.last = run.last.max(told.last),
            _ if room => {
                self.epochs.push(EpochRun { epoch: told.leader_epoch, first: told.first, last: told.last });
            }
            _ => {}
        }
    }

    fn offsets(&mut self, told: &Told, surroundings: Surroundings, findings: &mut Findings) {
        let (at, first, end) = (told.position, told.first, told.last.max(told.first));
        let Some(last) = self.last else {
            (self.last, self.start) = (Some(end), Some(first));
            if told.empty {
                self.hole(first, end);
            }
            return;
        };
        let expected = last.saturating_add(1);
        if first > expected {
            self.gaps += 1;
            self.hole(expected, first - 1);
            let missing = if first == expected.saturating_add(1) {
                format!("offset {expected} is missing")
            } else {
                format!("offsets {expected} to {} are missing", first - 1)
            };
            if surroundings.damaged {
                findings.error(at, Kind::Gap, format!("{missing}, where the log is damaged"));
            } else if !surroundings.named {
                findings.note(at, Kind::Gap, missing);
            } else if self.never_cleaned {
                let message = format!(
                    "{missing}, and not by compaction: before them a key stands twice, or a record has none"
                );
                self.postpone(findings.here(at), Kind::Gap, message, findings);
            } else {
                findings.note(at, Kind::Gap, format!("{missing}, as after compaction"));
            }
        } else if end < expected && first < expected && end < last {
            let message = format!("offsets fall: {first} comes after {last}");
            findings.error(at, Kind::Disorder, message);
        } else if first < expected {
            let message = format!("offsets {first} to {} are there twice", end.min(last));
            findings.error(at, Kind::Overlap, message);
        }
        if told.empty && first >= expected {
            self.hole(first, end);
        }
        self.last = Some(last.max(end));
    }

    fn postpone(&mut self, place: Place, kind: Kind, message: String, findings: &mut Findings) {
        if (self.open.len() as u64) < 2 * KEPT {
            self.open.push((place, kind, message));
        } else {
            findings.push(place, kind, self.judged(), message);
        }
    }

    const fn judged(&self) -> Severity {
        if self.rewritten { Severity::Note } else { Severity::Error }
    }

    /// The end of the partition: judges what was left open.
    pub(super) fn finish(&mut self, findings: &mut Findings) {
        let severity = self.judged();
        for (place, kind, message) in std::mem::take(&mut self.open) {
            findings.push(place, kind, severity, message);
        }
    }

    fn producer(&mut self, head: &Told, findings: &mut Findings) -> Option<Marker> {
        let (at, id) = (head.position, head.producer_id);
        if self.producers.len() >= PRODUCERS && !self.producers.contains_key(&id) {
            return None;
        }
        let gaps = self.gaps;
        let fresh = Producer {
            epoch: head.producer_epoch,
            sequence: -1,
            known: false,
            gaps,
            last_offset: None,
            open_since: None,
        };
        let was = *self.producers.entry(id).or_insert(fresh);
        let mut now = Producer { epoch: head.producer_epoch, gaps, ..was };
        if head.producer_epoch < was.epoch {
            let (epoch, before) = (head.producer_epoch, was.epoch);
            let message = format!("the epoch of producer {id} goes back from {before} to {epoch}");
            findings.error(at, Kind::Epoch, message);
            now.epoch = was.epoch;
        } else if head.producer_epoch > was.epoch {
            (now.sequence, now.last_offset) = (-1, None);
        }
        let mut marker = None;
        if head.control {
            if let Some(aborts) = head.ends {
                let first_offset = now.open_since.take();
                marker = Some(Marker { producer_id: id, offset: head.first, aborts, first_offset });
            } else if head.empty {
                now.open_since = None;
            }
        } else {
            if head.transactional && !head.empty {
                now.open_since = now.open_since.or(Some(head.first));
            }
            now.last_offset = Some(head.last);
            if head.base_sequence >= 0 {
                let expected = ((i64::from(now.sequence) + 1) & 0x7fff_ffff) as i32;
                if was.known && head.base_sequence != expected && head.producer_epoch >= was.epoch {
                    let message = format!(
                        "sequences of producer {id} do not follow on: {} where {expected} was due",
                        head.base_sequence
                    );
                    if was.gaps == gaps {
                        self.postpone(findings.here(at), Kind::Sequence, message, findings);
                    } else {
                        findings.note(at, Kind::Sequence, format!("{message}; offsets are missing as well"));
                    }
                }
                now.sequence = head.last_sequence;
                now.known = true;
            }
        }
        self.producers.insert(id, now);
        marker
    }
}
