//! The files of a partition, made while its entries are appended.

use std::sync::{Mutex, PoisonError};

use magicbyte::log::{Options, Walker};
use magicbyte::segment::{
    EpochEntry, LeaderEpochCheckpoint, PartitionMetadata, Producers, SegmentWriter, TopicId,
};
use magicbyte::{Buffer, Decompressor, Entry, Error, Step};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use pyo3::types::PyBytes;

use crate::arguments;
use crate::error::Failure;
use crate::gate::detached;
use crate::part::{Limits, bytes_of};

/// What stands beside a `.log` that is closed: `.index`, `.timeindex`, `.txnindex` (empty: there should be none), and the
/// `.snapshot` of producers for the offset behind it (empty: no producers).
type Beside<'py> = (Bound<'py, PyBytes>, Bound<'py, PyBytes>, Bound<'py, PyBytes>, Bound<'py, PyBytes>);

/// Bytes `[start, end)` of what was given belong together; where a base offset stands behind them, to a new segment of
/// that name, before which the one before, if there was one, is closed.
type Stretch<'py> = (usize, usize, Option<i64>, Option<Beside<'py>>);

struct Closed {
    index: Vec<u8>,
    times: Vec<u8>,
    transactions: Vec<u8>,
    snapshot: Vec<u8>,
}

impl Closed {
    fn python<'py>(&self, py: Python<'py>) -> Beside<'py> {
        let bytes = |bytes: &[u8]| PyBytes::new(py, bytes);
        (bytes(&self.index), bytes(&self.times), bytes(&self.transactions), bytes(&self.snapshot))
    }
}

#[derive(Default)]
struct State {
    writer: Option<SegmentWriter>,
    producers: Producers,
    epochs: Vec<EpochEntry>,
    next_offset: Option<i64>,
}

/// Follows the entries that are appended to a partition: where segments end, and what stands beside them.
#[pyclass(frozen, module = "magicbyte._core")]
pub(crate) struct PartitionBuilder {
    options: Options,
    segment_bytes: u64,
    index_interval: u64,
    base_offset: Option<i64>,
    state: Mutex<State>,
}

/// Why an entry is not appended.
enum Refusal {
    Corrupt(Error),
    Disorder { position: usize, offset: i64, next: i64 },
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self::Corrupt(error)
    }
}

impl From<Refusal> for PyErr {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Corrupt(error) => Failure::corrupt(error, None).into(),
            Refusal::Disorder { position, offset, next } => PyValueError::new_err(format!(
                "entry at byte {position}: its offset {offset} is below {next}, the next one of the partition"
            )),
        }
    }
}

#[pymethods]
impl PartitionBuilder {
    #[new]
    #[pyo3(signature = (*, segment_bytes, index_interval, base_offset=None, format="kafka", limits=None))]
    fn new(
        segment_bytes: u64,
        index_interval: u64,
        base_offset: Option<i64>,
        format: &str,
        limits: Option<&Limits>,
    ) -> PyResult<Self> {
        let options = arguments::options(format, true, "FAILFAST", limits)?;
        Ok(Self { options, segment_bytes, index_interval, base_offset, state: Mutex::default() })
    }

    /// Follows whole entries. Nothing of them counts if one is refused.
    fn append<'py>(&self, py: Python<'py>, data: &Bound<'py, PyAny>) -> PyResult<Vec<Stretch<'py>>> {
        let data = bytes_of(data)?;
        let mut state = self.state.lock_py_attached(py).unwrap_or_else(PoisonError::into_inner);
        let state = &mut *state;
        let stretches = detached(py, || self.follow(state, &data))??;
        let python = |(start, end, base, closed): (usize, usize, Option<i64>, Option<Closed>)| {
            (start, end, base, closed.map(|closed| closed.python(py)))
        };
        Ok(stretches.into_iter().map(python).collect())
    }

    /// The offset after the last entry.
    #[getter]
    fn next_offset(&self, py: Python<'_>) -> i64 {
        let state = self.state.lock_py_attached(py).unwrap_or_else(PoisonError::into_inner);
        state.next_offset.or(self.base_offset).unwrap_or(0)
    }

    /// Closes the last segment: what stands beside it, the `leader-epoch-checkpoint`, and the next offset.
    fn finish<'py>(&self, py: Python<'py>) -> PyResult<(Option<Beside<'py>>, Bound<'py, PyBytes>, i64)> {
        let mut state = self.state.lock_py_attached(py).unwrap_or_else(PoisonError::into_inner);
        let state = &mut *state;
        let closed = close(&mut state.writer, &state.producers).map_err(Refusal::from)?;
        let epochs = LeaderEpochCheckpoint::from_entries(state.epochs.drain(..))
            .map_err(|flaw| PyValueError::new_err(flaw.to_string()))?;
        let epochs = PyBytes::new(py, epochs.encode().as_bytes());
        let next = state.next_offset.or(self.base_offset).unwrap_or(0);
        Ok((closed.map(|closed| closed.python(py)), epochs, next))
    }
}

/// Bytes of one segment, from and to; the base offset of the segment that begins there, and what the one before closed with.
type Piece = (usize, usize, Option<i64>, Option<Closed>);

impl PartitionBuilder {
    fn follow(&self, state: &mut State, data: &[u8]) -> Result<Vec<Piece>, Refusal> {
        // All or nothing: first whether all of it is sound.
        let mut next = state.next_offset.or(self.base_offset);
        self.each(data, |at, entry| {
            let base = first_offset(entry)?;
            if let Some(next) = next.filter(|next| base < *next) {
                return Err(Refusal::Disorder { position: at, offset: base, next });
            }
            next = Some(entry.head.last_offset.wrapping_add(1));
            Ok(())
        })?;
        let mut stretches = vec![(0, 0, None, None)];
        self.each(data, |at, entry| {
            let fits = state.writer.as_ref().is_some_and(|writer| writer.fits(entry, self.segment_bytes));
            if !fits {
                // As a broker names a segment: after the log's end, which no offset in it is below.
                let base = match state.next_offset.or(self.base_offset) {
                    Some(next) if i32::try_from(entry.head.last_offset.wrapping_sub(next)).is_ok() => next,
                    _ => first_offset(entry)?,
                };
                let closed = close(&mut state.writer, &state.producers)?;
                state.writer = Some(SegmentWriter::with_interval(base, self.index_interval));
                stretches.push((at, at, Some(base), closed));
            }
            let aborted = state.producers.append(entry)?;
            if let Some(writer) = &mut state.writer {
                writer.append(entry, aborted.as_ref())?;
            }
            let (head, epochs) = (&entry.head, &mut state.epochs);
            if head.leader_epoch >= 0 && epochs.last().is_none_or(|last| last.epoch < head.leader_epoch) {
                epochs.push(EpochEntry { epoch: head.leader_epoch, start_offset: head.base_offset });
            }
            state.next_offset = Some(head.last_offset.wrapping_add(1));
            if let Some(stretch) = stretches.last_mut() {
                stretch.1 = at + entry.bytes.len();
            }
            Ok(())
        })?;
        stretches.retain(|(start, end, _, _)| start < end);
        Ok(stretches)
    }

    /// Shows each entry; anything else among the bytes is an error.
    fn each(
        &self,
        data: &[u8],
        mut show: impl FnMut(usize, &Entry<'_>) -> Result<(), Refusal>,
    ) -> Result<(), Refusal> {
        let mut walker = Walker::new(self.options, 0);
        let mut at = 0;
        loop {
            match walker.step(data.get(at..).unwrap_or_default(), true) {
                Step::Entry(entry) => {
                    show(at, &entry)?;
                    at += entry.bytes.len();
                }
                Step::Damage(damage) => return Err(damage.error().into()),
                Step::End | Step::More(_) => return Ok(()),
            }
        }
    }
}

/// The first offset that an entry stands for.
fn first_offset(entry: &Entry<'_>) -> Result<i64, Error> {
    if entry.head.count.is_some() || !entry.is_compressed() {
        return Ok(entry.head.base_offset);
    }
    let mut buffer = Buffer::new();
    let limits = magicbyte::Limits::default();
    Ok(entry.open(&mut Decompressor::new(), &limits, &mut buffer)?.base_offset())
}

fn close(writer: &mut Option<SegmentWriter>, producers: &Producers) -> Result<Option<Closed>, Error> {
    let Some(writer) = writer.take() else { return Ok(None) };
    let indexes = writer.finish()?;
    let snapshot = producers.snapshot();
    let snapshot =
        if snapshot.entries.is_empty() { Vec::new() } else { snapshot.encode().map_err(|f| f.at(0))? };
    Ok(Some(Closed {
        index: indexes.offset_index,
        times: indexes.time_index,
        transactions: indexes.transaction_index,
        snapshot,
    }))
}

/// The content of `partition.metadata` for a topic's id, 22 characters of URL-safe base64.
#[pyfunction]
pub(crate) fn partition_metadata<'py>(py: Python<'py>, topic_id: &str) -> PyResult<Bound<'py, PyBytes>> {
    let id = TopicId::parse(topic_id).ok_or_else(|| {
        PyValueError::new_err(format!("{topic_id:?} is no topic id: 22 characters of base64"))
    })?;
    Ok(PyBytes::new(py, PartitionMetadata::new(id).encode().as_bytes()))
}
