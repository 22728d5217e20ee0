//! The log cleaner, pass by pass and step by step; Python opens the segments and writes the files.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use magicbyte::clean::{Active, Cleaner as Core, Latest, Policy, Strategy};
use magicbyte::log::Options;
use magicbyte::segment::Producers;
use magicbyte::{ConvertError, Entry};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use pyo3::types::{PyBytes, PyDict};

use crate::arguments;
use crate::gate::detached;
use crate::part::Limits;
use crate::steps::{Closed, PIECE, Reading, Stop, Surveyed, Target, ended, out_of_turn, survey};
use crate::transactions::Transactions;

/// Where the work stands.
enum Stage {
    Survey,
    Latest(Box<Latest>),
    Write(Box<Core>),
    Broken,
}

struct State {
    stage: Stage,
    /// As of the log's end.
    producers: Producers,
    /// As of the entry that is being written.
    followed: Producers,
    reading: Reading,
    target: Option<Target>,
}

/// Cleans one partition: `survey` of each segment; `start`; passes of `open` and `map`, perhaps `mark`, over those below the
/// bound; `write_from_here`; then for each group of segments `target`, `open` and `write`, `close_target`.
#[pyclass(frozen, module = "magicbyte._core")]
pub(crate) struct Cleaner {
    options: Options,
    strategy: Strategy,
    transactions: Arc<magicbyte::Transactions>,
    state: Mutex<State>,
    policy: Mutex<Option<(Policy, i64)>>,
}

impl Cleaner {
    fn lock<'a>(&'a self, py: Python<'_>) -> MutexGuard<'a, State> {
        self.state.lock_py_attached(py).unwrap_or_else(PoisonError::into_inner)
    }

    /// A step over the segment that is open. After an error nothing goes on.
    fn step(
        &self,
        state: &mut State,
        mut show: impl FnMut(&mut Latest, &Entry<'_>) -> Result<(), ConvertError>,
    ) -> Result<(u64, bool), Stop> {
        let Stage::Latest(latest) = &mut state.stage else { return Err(Stop::Write(out_of_turn())) };
        let done = state.reading.each(|entry, _| {
            if Core::counts_for_keys(&self.transactions, &entry.head) {
                show(latest, entry)?;
            }
            Ok(true)
        });
        if done.is_err() {
            state.stage = Stage::Broken;
        }
        done
    }
}

#[pymethods]
impl Cleaner {
    #[new]
    #[pyo3(signature = (transactions, *, strategy="offset", header=None, format="kafka", limits=None))]
    fn new(
        py: Python<'_>,
        transactions: &Transactions,
        strategy: &str,
        header: Option<&str>,
        format: &str,
        limits: Option<&Limits>,
    ) -> PyResult<Self> {
        let strategy = match (strategy, header) {
            ("offset", _) => Strategy::Offset,
            ("timestamp", _) => Strategy::Timestamp,
            ("header", Some(name)) => Strategy::Header(name.as_bytes().to_vec()),
            ("header", None) => return Err(PyValueError::new_err("strategy header: which header?")),
            _ => {
                let text = format!("unknown strategy {strategy:?}; known are offset, timestamp, header");
                return Err(PyValueError::new_err(text));
            }
        };
        let state = State {
            stage: Stage::Survey,
            producers: Producers::new(),
            followed: Producers::new(),
            reading: Reading::default(),
            target: None,
        };
        Ok(Self {
            options: arguments::options(format, true, "FAILFAST", limits)?,
            strategy,
            transactions: Arc::clone(&transactions.known(py)?.transactions),
            state: Mutex::new(state),
            policy: Mutex::new(None),
        })
    }

    /// Follows a segment's headers and markers: (records at most, largest timestamp, first offset, last offset), −1 for none.
    fn survey(&self, py: Python<'_>, path: PathBuf) -> PyResult<Surveyed> {
        let mut state = self.lock(py);
        let State { stage: Stage::Survey, producers, .. } = &mut *state else { return Err(out_of_turn()) };
        Ok(detached(py, || survey(path, self.options, |entry| producers.append(entry).map(|_| ())))??)
    }

    /// All segments have been surveyed. `expected`: records below the bound at most; `memory`: bytes for the table of keys.
    #[pyo3(signature = (*, now, delete_retention, producer_expiration, high_watermark, expected, memory))]
    #[expect(clippy::too_many_arguments, reason = "options by keyword")]
    fn start(
        &self,
        py: Python<'_>,
        now: i64,
        delete_retention: i64,
        producer_expiration: i64,
        high_watermark: i64,
        expected: u64,
        memory: usize,
    ) -> PyResult<()> {
        let mut state = self.lock(py);
        if !matches!(state.stage, Stage::Survey) {
            return Err(out_of_turn());
        }
        let limits = self.options.limits;
        let policy = Policy { now, delete_retention, high_watermark, limits };
        *self.policy.lock_py_attached(py).unwrap_or_else(PoisonError::into_inner) =
            Some((policy, producer_expiration));
        state.stage = Stage::Latest(Box::new(Latest::new(self.strategy.clone(), memory, expected, limits)));
        Ok(())
    }

    /// The segment that the next steps read. `aborted`: the bytes of its `.txnindex`; what of them is broken is left out.
    /// `tail`: it ends the log, perhaps with a part of an entry.
    #[pyo3(signature = (path, aborted=None, tail=false))]
    fn open(&self, py: Python<'_>, path: PathBuf, aborted: Option<&[u8]>, tail: bool) -> PyResult<()> {
        self.lock(py).reading.open(path, aborted, tail, self.options)
    }

    /// A step of the pass that takes keys in: (byte position, whether the segment ended).
    fn map(&self, py: Python<'_>) -> PyResult<(u64, bool)> {
        let mut state = self.lock(py);
        let state = &mut *state;
        Ok(detached(py, || self.step(state, |latest, entry| Ok(latest.map(entry)?)))??)
    }

    /// Ends that pass: whether all keys were taken in. If not, a pass of `mark` comes.
    fn is_mapped(&self, py: Python<'_>) -> PyResult<bool> {
        match &mut self.lock(py).stage {
            Stage::Latest(latest) => Ok(latest.is_done()),
            _ => Err(out_of_turn()),
        }
    }

    /// A step of the pass that marks what is outranked.
    fn mark(&self, py: Python<'_>) -> PyResult<(u64, bool)> {
        let mut state = self.lock(py);
        let state = &mut *state;
        Ok(detached(py, || self.step(state, |latest, entry| Ok(latest.mark(entry)?)))??)
    }

    /// Ends that pass: whether another one of `map` is needed, for the keys that did not fit.
    fn goes_on(&self, py: Python<'_>) -> PyResult<bool> {
        match &mut self.lock(py).stage {
            Stage::Latest(latest) => Ok(latest.go_on()),
            _ => Err(out_of_turn()),
        }
    }

    /// All is known; `write` comes.
    fn write_from_here(&self, py: Python<'_>) -> PyResult<()> {
        let mut state = self.lock(py);
        let policy = *self.policy.lock_py_attached(py).unwrap_or_else(PoisonError::into_inner);
        let stage = std::mem::replace(&mut state.stage, Stage::Broken);
        let (Stage::Latest(latest), Some((policy, expiration))) = (stage, policy) else {
            return Err(out_of_turn());
        };
        let active = Active::of(&state.producers, policy.now, expiration);
        let core = Core::new(policy, *latest, Arc::clone(&self.transactions), active);
        state.stage = Stage::Write(Box::new(core));
        Ok(())
    }

    /// Begins a new segment.
    fn target(&self, py: Python<'_>, base_offset: i64, index_interval: u64) {
        self.lock(py).target = Some(Target::new(base_offset, index_interval, self.options));
    }

    /// A step of the writing: (bytes, byte position, whether the segment ended).
    fn write<'py>(&self, py: Python<'py>, keep_deletes: bool) -> PyResult<(Bound<'py, PyBytes>, u64, bool)> {
        let mut state = self.lock(py);
        let state = &mut *state;
        let State { stage: Stage::Write(core), reading, followed, target: Some(target), .. } = state else {
            return Err(out_of_turn());
        };
        let mut out = Vec::new();
        let step = || {
            reading.each(|entry, known| {
                let aborted = ended(followed, entry, known)?;
                let start = out.len();
                let aborts = core.entry(entry, keep_deletes, &mut out)?;
                target.follow(&out[start..], aborted.as_ref().filter(|_| aborts))?;
                Ok(out.len() < PIECE)
            })
        };
        match detached(py, step)? {
            Ok((position, ended)) => Ok((PyBytes::new(py, &out), position, ended)),
            Err(stop) => {
                state.stage = Stage::Broken;
                Err(stop.into())
            }
        }
    }

    /// Ends the segment: its `.index`, `.timeindex` and `.txnindex` (empty: there should be none), and the largest timestamp.
    fn close_target<'py>(&self, py: Python<'py>) -> PyResult<Closed<'py>> {
        let target = self.lock(py).target.take().ok_or_else(out_of_turn)?;
        target.close(py)
    }

    /// What was done so far, by name.
    fn counts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let state = self.lock(py);
        let Stage::Write(core) = &state.stage else { return Err(out_of_turn()) };
        let it = core.counts();
        let counts = PyDict::new(py);
        for (name, count) in [
            ("records", it.records),
            ("kept", it.kept),
            ("outranked", it.outranked),
            ("tombstones", it.tombstones),
            ("aborted", it.aborted),
            ("without_key", it.without_key),
            ("markers", it.markers),
            ("batches", it.batches),
            ("copied", it.copied),
            ("rebuilt", it.rebuilt),
            ("emptied", it.emptied),
            ("stamped", it.stamped),
            ("rounds", u64::from(core.rounds())),
        ] {
            counts.set_item(name, count)?;
        }
        Ok(counts)
    }
}
