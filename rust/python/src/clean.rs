//! The log cleaner, pass by pass and step by step; Python opens the segments and writes the files.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use magicbyte::clean::{Active, Cleaner as Core, Latest, Policy, Strategy};
use magicbyte::log::Options;
use magicbyte::segment::{Producers, SegmentWriter};
use magicbyte::{ConvertError, Entries, Entry, Flaw, Head, Log, Next};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use pyo3::types::{PyBytes, PyDict};

use crate::arguments;
use crate::block::Bytestream;
use crate::encode::refused;
use crate::error::Failure;
use crate::gate::detached;
use crate::hops::Hops;
use crate::part::Limits;
use crate::transactions::Transactions;

/// Bytes of input, or of output, after which a step ends.
const STEP: u64 = 16 << 20;
const PIECE: usize = 4 << 20;
/// Batches up to this size are read whole by the survey.
const SMALL: usize = 128;

/// Where the work stands.
enum Stage {
    Survey,
    Latest(Latest),
    Write(Box<Core>),
    Broken,
}

struct State {
    stage: Stage,
    /// As of the log's end.
    producers: Producers,
    /// As of the entry that is being written.
    followed: Producers,
    entries: Option<(Entries<Bytestream>, PathBuf)>,
    target: Option<SegmentWriter>,
    /// The largest timestamp that was written to it, −1 for none.
    newest: i64,
}

type Closed<'py> = (Bound<'py, PyBytes>, Bound<'py, PyBytes>, Bound<'py, PyBytes>, i64);

/// Why a step ended.
enum Stop {
    Read(Failure),
    Write(PyErr),
}

impl From<Stop> for PyErr {
    fn from(stop: Stop) -> Self {
        match stop {
            Stop::Read(failure) => failure.into(),
            Stop::Write(error) => error,
        }
    }
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

fn out_of_turn() -> PyErr {
    PyRuntimeError::new_err("the passes of a cleaning are out of order, or one of them failed")
}

/// Records at most, the largest timestamp, the first and the last offset; −1 for none.
type Surveyed = (u64, i64, i64, i64);

/// Reads the headers of a segment, or whole entries where those say more.
fn survey(path: PathBuf, options: Options, producers: &mut Producers) -> Result<Surveyed, Failure> {
    let at: Arc<std::path::Path> = path.as_path().into();
    let failed = |error: std::io::Error| Failure { error: error.into(), path: Some(Arc::clone(&at)) };
    let corrupt = |error| Failure::corrupt(error, Some(Arc::clone(&at)));
    let source = Hops::open(&path).map_err(failed)?;
    let mut entries = Entries::new(source, Options { preallocated: true, ..options }, 0);
    let (mut records, mut newest, mut first, mut last) = (0_u64, -1, -1, -1);
    loop {
        let position = entries.position();
        let small = |head: &Head| head.is_control() || head.size <= SMALL;
        let head = match entries.next_head(small).map_err(failed)? {
            Some(head) => {
                producers.append(&Entry { position, bytes: &[], head }).map_err(corrupt)?;
                head
            }
            None => match entries.next().map_err(failed)? {
                Next::Entry(entry) => {
                    producers.append(&entry).map_err(corrupt)?;
                    entry.head
                }
                Next::Damage(damage) if damage.is_tail() => continue,
                Next::Damage(damage) => return Err(corrupt(damage.error())),
                Next::End => return Ok((records, newest, first, last)),
            },
        };
        records = records.saturating_add(match head.count {
            Some(count) => u64::from(count.unsigned_abs()),
            None if head.codec_id() == 0 => 1,
            // A wrapper does not tell; no record of a message set is smaller than this when it is not compressed.
            None => u64::from(u32::MAX),
        });
        newest = newest.max(head.max_timestamp);
        if first < 0 {
            first = head.base_offset;
        }
        last = last.max(head.last_offset);
    }
}

impl Cleaner {
    fn lock<'a>(&'a self, py: Python<'_>) -> MutexGuard<'a, State> {
        self.state.lock_py_attached(py).unwrap_or_else(PoisonError::into_inner)
    }

    /// Shows entries until so much is done; whether the segment ended, and where it stands.
    fn each(
        &self,
        state: &mut State,
        mut show: impl FnMut(&mut Stage, &mut Producers, &Entry<'_>) -> Result<bool, ConvertError>,
    ) -> Result<(u64, bool), Stop> {
        let Some((entries, path)) = &mut state.entries else { return Err(Stop::Write(out_of_turn())) };
        let at: Arc<std::path::Path> = path.as_path().into();
        let begun = entries.position();
        loop {
            let said = match entries.next() {
                Ok(Next::Entry(entry)) => show(&mut state.stage, &mut state.followed, &entry),
                // A segment may have been given its full size before it was written.
                Ok(Next::Damage(damage)) if matches!(damage.flaw, Flaw::ZeroTail { .. }) => Ok(true),
                Ok(Next::Damage(damage)) => Err(damage.error().into()),
                Ok(Next::End) => {
                    let position = entries.position();
                    state.entries = None;
                    return Ok((position, true));
                }
                Err(error) => Err(error.into()),
            };
            let stop = match said {
                Ok(more) if more && entries.position() - begun < STEP => continue,
                Ok(_) => return Ok((entries.position(), false)),
                Err(ConvertError::Read(error)) => Stop::Read(Failure::corrupt(error, Some(at))),
                Err(ConvertError::Io(error)) => Stop::Read(Failure { error: error.into(), path: Some(at) }),
                Err(ConvertError::Write { position, error }) => {
                    Stop::Write(refused(&format!("{}: entry at byte {position}: ", at.display()), error))
                }
                Err(other) => Stop::Write(PyValueError::new_err(other.to_string())),
            };
            state.stage = Stage::Broken;
            state.entries = None;
            return Err(stop);
        }
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
            entries: None,
            target: None,
            newest: -1,
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
        Ok(detached(py, || survey(path, self.options, producers))??)
    }

    /// All segments have been surveyed. `expected`: records below the bound at most; `memory`: bytes for the table of keys.
    #[pyo3(signature = (*, now, delete_retention, producer_expiration, high_watermark, expected, memory))]
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
        state.stage = Stage::Latest(Latest::new(self.strategy.clone(), memory, expected, limits));
        Ok(())
    }

    /// The segment that the next steps read.
    fn open(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        let mut state = self.lock(py);
        let failed =
            |error: std::io::Error| Failure { error: error.into(), path: Some(path.as_path().into()) };
        let source = Bytestream::open(&path, 0, None, false).map_err(failed)?;
        let options = Options { preallocated: true, ..self.options };
        state.entries = Some((Entries::new(source, options, 0), path));
        Ok(())
    }

    /// A step of the pass that takes keys in: (byte position, whether the segment ended).
    fn map(&self, py: Python<'_>) -> PyResult<(u64, bool)> {
        let mut state = self.lock(py);
        let state = &mut *state;
        let step = || {
            self.each(state, |stage, _, entry| {
                let Stage::Latest(latest) = stage else { return Ok(false) };
                if Core::counts_for_keys(&self.transactions, &entry.head) {
                    latest.map(entry)?;
                }
                Ok(true)
            })
        };
        Ok(detached(py, step)??)
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
        let step = || {
            self.each(state, |stage, _, entry| {
                let Stage::Latest(latest) = stage else { return Ok(false) };
                if Core::counts_for_keys(&self.transactions, &entry.head) {
                    latest.mark(entry)?;
                }
                Ok(true)
            })
        };
        Ok(detached(py, step)??)
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
        let core = Core::new(policy, latest, Arc::clone(&self.transactions), active);
        state.stage = Stage::Write(Box::new(core));
        Ok(())
    }

    /// Begins a new segment.
    fn target(&self, py: Python<'_>, base_offset: i64, index_interval: u64) {
        let mut state = self.lock(py);
        state.target = Some(SegmentWriter::with_interval(base_offset, index_interval));
        state.newest = -1;
    }

    /// A step of the writing: (bytes, byte position, whether the segment ended).
    fn write<'py>(
        &self,
        py: Python<'py>,
        keep_deletes: bool,
    ) -> PyResult<(Bound<'py, PyBytes>, u64, bool)> {
        let mut state = self.lock(py);
        let state = &mut *state;
        let mut target = state.target.take().ok_or_else(out_of_turn)?;
        let (mut out, mut newest) = (Vec::new(), state.newest);
        // Our own bytes: their checksums were compared, or written, just now.
        let own = Options { check_crc: false, ..self.options };
        let step = || {
            self.each(state, |stage, followed, entry| {
                let Stage::Write(core) = stage else { return Ok(false) };
                let ended = followed.append(entry)?;
                let start = out.len();
                let aborts = core.entry(entry, keep_deletes, &mut out)?;
                for written in Log::new(&out[start..], own) {
                    let written = written.map_err(|damage| damage.error())?;
                    newest = newest.max(written.head.max_timestamp);
                    target.append(&written, ended.as_ref().filter(|_| aborts))?;
                }
                Ok(out.len() < PIECE)
            })
        };
        let (position, ended) = detached(py, step)??;
        (state.target, state.newest) = (Some(target), newest);
        Ok((PyBytes::new(py, &out), position, ended))
    }

    /// Ends the segment: its `.index`, `.timeindex` and `.txnindex` (empty: there should be none), and the largest timestamp.
    fn close_target<'py>(&self, py: Python<'py>) -> PyResult<Closed<'py>> {
        let mut state = self.lock(py);
        let target = state.target.take().ok_or_else(out_of_turn)?;
        let indexes = target.finish().map_err(|error| Failure::corrupt(error, None))?;
        let bytes = |bytes: &[u8]| PyBytes::new(py, bytes);
        Ok((
            bytes(&indexes.offset_index),
            bytes(&indexes.time_index),
            bytes(&indexes.transaction_index),
            state.newest,
        ))
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
