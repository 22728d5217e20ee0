//! Iterators over the entries and records of a plan.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use magicbyte::places::Place;
use magicbyte::{Damage, Decompressor, Entries, Head, Judge, Mode, Next, Ruling};
use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use pyo3::types::PyString;

use crate::batch::RecordBatch;
use crate::block::Bytestream;
use crate::consumer_record::ConsumerRecord;
use crate::error::Failure;
use crate::gate::{detached, released};
use crate::held::Held;
use crate::keys::Keys;
use crate::quick::{Quick, Steps};
use crate::reader::Plan;
use crate::slots::{Shared, open};

/// Walks the parts of a plan, one after the other.
pub(crate) struct Walk {
    pub(crate) plan: Arc<Plan>,
    next_part: usize,
    entries: Option<Entries<Bytestream>>,
    judge: Option<Judge>,
    /// Whether a sound batch of the part being read was below the last stable offset.
    below: bool,
}

/// Where an entry was found.
struct Found {
    head: Head,
    position: u64,
    at: usize,
}

impl Walk {
    pub(crate) const fn new(plan: Arc<Plan>) -> Self {
        Self { plan, next_part: 0, entries: None, judge: None, below: false }
    }

    /// The part being read.
    pub(crate) fn part(&self) -> usize {
        self.next_part.saturating_sub(1)
    }

    /// The entries of the part being read, or of the next one. `None` behind the last part.
    pub(crate) fn entries(&mut self) -> Result<Option<&mut Entries<Bytestream>>, Failure> {
        if self.entries.is_none() {
            if self.next_part >= self.plan.parts.len() {
                return Ok(None);
            }
            self.next_part += 1;
            self.judge = self.plan.judge(self.next_part - 1)?;
            self.below = false;
            self.entries = Some(self.plan.open(self.next_part - 1)?);
        }
        Ok(self.entries.as_mut())
    }

    /// Goes on with the next part.
    pub(crate) fn close_part(&mut self) {
        self.entries = None;
    }

    /// Who rules on the batches of the part being read.
    pub(crate) const fn judge(&self) -> Option<&Judge> {
        self.judge.as_ref()
    }

    /// What to do with a batch of the part being read.
    fn rule(&mut self, head: &Head, position: u64) -> bool {
        let Some(judge) = &self.judge else { return true };
        match judge.rule(head) {
            Ruling::Take(_) => {
                self.below = true;
                true
            }
            Ruling::LeaveOut => {
                self.below = true;
                false
            }
            Ruling::Stop => {
                self.leave_behind(head, position, self.below);
                false
            }
        }
    }

    /// Ends the partition at a batch of which, and of what follows, nothing may be handed out. Says so, unless nothing
    /// was wanted from there on, or another reader has the part in which it happens.
    pub(crate) fn leave_behind(&mut self, head: &Head, position: u64, below: bool) {
        let (plan, part) = (Arc::clone(&self.plan), self.part());
        let it = &plan.parts[part];
        let wanted = it.end_offset.is_none_or(|end| head.base_offset < end);
        if let (true, Some(judge)) = (wanted, &self.judge) {
            let here = below
                || judge.lso().is_none_or(|lso| {
                    head.base_offset == lso || it.first_offset.is_some_and(|first| first > lso)
                });
            if here {
                plan.left_behind(part, judge, head, position);
            }
        }
        let rest = plan.parts[self.next_part..].iter();
        self.next_part += rest.take_while(|next| next.is_of(it)).count();
        self.close_part();
    }

    /// Stops for good.
    pub(crate) fn stop(&mut self) {
        self.entries = None;
        self.next_part = self.plan.parts.len();
    }

    /// Damage between entries, or of one: noted, and an error in mode FAILFAST unless it is a tail.
    pub(crate) fn damage(&mut self, damage: &Damage, error: magicbyte::Error) -> Result<(), Failure> {
        self.plan.note(self.part(), damage);
        if damage.is_tail() || self.plan.options.mode != Mode::FailFast {
            return Ok(());
        }
        let path = self.plan.path(self.part());
        self.stop();
        Err(Failure::corrupt(error, path))
    }

    /// The next entry of any part that may lie in the part's ranges, with its block.
    fn next_wanted(&mut self) -> Result<Option<(Found, Bytes)>, Failure> {
        loop {
            let next = self.next()?;
            let Some((found, _)) = &next else { return Ok(None) };
            if self.plan.selection(self.part()).overlaps(&found.head) {
                return Ok(next);
            }
        }
    }

    /// The next entry of any part, with its block.
    fn next(&mut self) -> Result<Option<(Found, Bytes)>, Failure> {
        loop {
            let Some(entries) = self.entries()? else { return Ok(None) };
            let found = match entries.next() {
                Ok(Next::Entry(entry)) => {
                    let (head, position) = (entry.head, entry.position);
                    let address = entry.bytes.as_ptr() as usize;
                    let block = entries.source().shared().clone();
                    let at = address - block.as_ptr() as usize;
                    return Ok(Some((Found { head, position, at }, block)));
                }
                Ok(Next::Damage(damage)) => Some(damage),
                Ok(Next::End) => None,
                Err(error) => {
                    let path = self.plan.path(self.part());
                    self.stop();
                    return Err(Failure { error: error.into(), path });
                }
            };
            match found {
                Some(damage) => self.damage(&damage, damage.error())?,
                None => self.close_part(),
            }
        }
    }
}

/// Iterates batches.
#[pyclass(frozen, module = "magicbyte._core")]
pub(crate) struct BatchIterator(Mutex<(Walk, Arc<Keys>)>);

impl BatchIterator {
    pub(crate) fn new(plan: Arc<Plan>) -> Self {
        Self(Mutex::new((Walk::new(plan), Arc::default())))
    }
}

#[pymethods]
impl BatchIterator {
    const fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<RecordBatch>> {
        let mut state = self.0.lock_py_attached(py).unwrap_or_else(PoisonError::into_inner);
        let (walk, keys) = &mut *state;
        let Some((found, block)) = detached(py, || walk.next_wanted())?? else { return Ok(None) };
        Ok(Some(RecordBatch {
            block,
            at: found.at,
            position: found.position,
            head: found.head,
            path: walk.plan.path(walk.part()),
            limits: walk.plan.options.limits,
            keys: Arc::clone(keys),
            made: None,
        }))
    }
}

struct Records {
    walk: Walk,
    decompressor: Decompressor,
    slots: Vec<Place>,
    pending: Option<Failure>,
    topic: Option<(usize, Py<PyString>)>,
    keys: Arc<Keys>,
}

/// What was read detached, before it becomes a [`Shared`].
struct Batch {
    head: Head,
    block: Bytes,
}

impl Records {
    /// Reads on until there are records, or an error, or the end.
    fn refill(&mut self) -> Result<Option<Batch>, Failure> {
        self.slots.clear();
        loop {
            let Some((found, block)) = self.walk.next()? else { return Ok(None) };
            if !self.walk.rule(&found.head, found.position) {
                continue;
            }
            let selection = self.walk.plan.selection(self.walk.part());
            if !selection.may_hold(&found.head) {
                continue;
            }
            let plan = Arc::clone(&self.walk.plan);
            let bytes = block.get(found.at..found.at + found.head.size).unwrap_or_default();
            let entry = magicbyte::Entry { position: found.position, bytes, head: found.head };
            let (block, error) = open(
                &entry,
                &block,
                &mut self.decompressor,
                &plan.options.limits,
                &selection,
                &mut self.slots,
            );
            if let Some(error) = error {
                let range = found.position..found.position + found.head.size as u64;
                let damage = Damage { range, flaw: error.flaw };
                match self.walk.damage(&damage, error) {
                    // The sound records come first, then the error that counts them.
                    Err(failure) => self.pending = Some(failure),
                    Ok(()) => self.slots.clear(),
                }
            }
            if !selection.takes_all() {
                let head = found.head;
                self.slots.retain(|slot| slot.is_wanted(&selection, &head, &block));
            }
            if !self.slots.is_empty() {
                return Ok(Some(Batch { head: found.head, block }));
            }
            if let Some(failure) = self.pending.take() {
                return Err(failure);
            }
        }
    }

    fn share(&mut self, py: Python<'_>, batch: Batch) -> Arc<Shared> {
        let part = self.walk.part();
        let topic = match &self.topic {
            Some((of, topic)) if *of == part => topic.clone_ref(py),
            _ => {
                let made = PyString::new(py, &self.walk.plan.parts[part].topic).unbind();
                self.topic = Some((part, made.clone_ref(py)));
                made
            }
        };
        Arc::new(Shared {
            block: batch.block,
            head: batch.head,
            topic,
            partition: self.walk.plan.parts[part].partition,
            keys: Arc::clone(&self.keys),
            slots: std::mem::take(&mut self.slots),
        })
    }
}

/// The records of the batch that a loop is in.
struct Current {
    shared: Arc<Shared>,
    at: u32,
    kept: [Option<Py<ConsumerRecord>>; 2],
}

/// What taking the next record of a batch gives.
enum Taken {
    /// One that was used again.
    Again(Py<ConsumerRecord>),
    /// One that is still to be made, and whether it is wanted here, to be used again.
    New(Arc<Shared>, u32, bool),
    Nothing,
}

impl Current {
    /// The next record, in an object that is used again.
    #[inline(always)]
    fn again(&mut self, py: Python<'_>) -> Option<Py<ConsumerRecord>> {
        let at = self.at;
        if at as usize >= self.shared.slots.len() {
            return None;
        }
        let record = self.kept[at as usize & 1].as_ref()?;
        if !ConsumerRecord::moved_to(record, py, at) {
            return None;
        }
        self.at = at.wrapping_add(1);
        Some(record.clone_ref(py))
    }

    fn take(&mut self, py: Python<'_>) -> Taken {
        let at = self.at;
        if at as usize >= self.shared.slots.len() {
            return Taken::Nothing;
        }
        if let Some(record) = self.again(py) {
            return Taken::Again(record);
        }
        self.at += 1;
        Taken::New(Arc::clone(&self.shared), at, self.kept[at as usize & 1].is_none())
    }

    fn keep(&mut self, shared: &Arc<Shared>, at: u32, made: Py<ConsumerRecord>) {
        if Arc::ptr_eq(&self.shared, shared) {
            self.kept[at as usize & 1].get_or_insert(made);
        }
    }
}

/// Iterates records. Of the records that it made it keeps two, and a record that nobody else holds any more is made the
/// next one instead of a new object, as `zip` does with its tuples.
///
/// Threads may share it. No object is made and none let go under a lock, for either may run Python code (a collection of
/// garbage, a finalizer), which may come back here.
#[pyclass(frozen, module = "magicbyte._core")]
pub(crate) struct RecordIterator {
    current: Held<Option<Current>>,
    records: Mutex<Records>,
}

impl RecordIterator {
    pub(crate) fn new(plan: Arc<Plan>) -> Self {
        let records = Records {
            walk: Walk::new(plan),
            decompressor: Decompressor::new(),
            slots: Vec::new(),
            pending: None,
            topic: None,
            keys: Arc::default(),
        };
        Self { current: Held::new(None), records: Mutex::new(records) }
    }

    /// Makes the next batch the current one. False: there is none.
    #[cold]
    fn read_on(&self, py: Python<'_>) -> PyResult<bool> {
        let done;
        let read = {
            let mut locked = self.records.lock_py_attached(py).unwrap_or_else(PoisonError::into_inner);
            let records = &mut *locked;
            {
                let mut current = self.current.wait(py);
                // Another thread may have read on meanwhile.
                if current.as_ref().is_some_and(|it| (it.at as usize) < it.shared.slots.len()) {
                    return Ok(true);
                }
                done = current.take();
            }
            match records.pending.take() {
                Some(failure) => Err(failure),
                None => released(py, || records.refill()).map(|read| {
                    read.is_some_and(|batch| {
                        let shared = records.share(py, batch);
                        *self.current.wait(py) = Some(Current { shared, at: 0, kept: [None, None] });
                        true
                    })
                }),
            }
        };
        drop(done);
        // Ctrl-C: who goes on after it loses nothing of what was read.
        py.check_signals()?;
        Ok(read?)
    }
}

#[pymethods]
impl RecordIterator {
    const fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }
}

impl Steps for RecordIterator {
    #[inline(always)]
    fn quick_next(&self, py: Python<'_>) -> Quick<'_> {
        let Some(mut current) = self.current.take(py) else { return Quick::No };
        let again = current.as_mut().and_then(|current| current.again(py));
        again.map_or(Quick::No, |record| Quick::Owned(record.into_any()))
    }

    fn next(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        loop {
            let taken = self.current.wait(py).as_mut().map_or(Taken::Nothing, |current| current.take(py));
            match taken {
                Taken::Again(record) => return Ok(Some(record.into_any())),
                Taken::New(shared, at, wanted) => {
                    let made = Py::new(py, ConsumerRecord::read(&shared, at))?;
                    if wanted && let Some(current) = &mut *self.current.wait(py) {
                        current.keep(&shared, at, made.clone_ref(py));
                    }
                    return Ok(Some(made.into_any()));
                }
                Taken::Nothing if !self.read_on(py)? => return Ok(None),
                Taken::Nothing => {}
            }
        }
    }
}
