//! Segments written again with records left out or changed; Python chooses the records and writes the files.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use magicbyte::clean::{Rewriter as Core, Verdict};
use magicbyte::log::Options;
use magicbyte::segment::Producers;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use pyo3::types::{PyBytes, PyDict};

use crate::arguments;
use crate::gate::detached;
use crate::part::Limits;
use crate::steps::{Closed, PIECE, Reading, Target, ended, out_of_turn};

struct State {
    core: Core,
    followed: Producers,
    reading: Reading,
    target: Option<Target>,
    /// Offsets that are chosen, rising: those of the segment that is read.
    offsets: Vec<i64>,
}

/// Writes the segments of one partition again: for each `target`, `open` and `write`, `close_target`. Chosen are records
/// with one of `keys`, and those of the offsets that `open` is given. They go, or where `replace` is set get `value`.
#[pyclass(frozen, module = "magicbyte._core")]
pub(crate) struct Rewriter {
    options: Options,
    keys: HashSet<Vec<u8>>,
    replace: bool,
    value: Option<Bytes>,
    without_headers: bool,
    state: Mutex<State>,
}

#[pymethods]
impl Rewriter {
    #[new]
    #[pyo3(signature = (*, keys=Vec::new(), replace=false, value=None, without_headers=false, format="kafka", limits=None))]
    fn new(
        keys: Vec<Vec<u8>>,
        replace: bool,
        value: Option<Bytes>,
        without_headers: bool,
        format: &str,
        limits: Option<&Limits>,
    ) -> PyResult<Self> {
        let options = arguments::options(format, true, "FAILFAST", limits)?;
        let state = State {
            core: Core::new(options.limits),
            followed: Producers::new(),
            reading: Reading::default(),
            target: None,
            offsets: Vec::new(),
        };
        let keys = keys.into_iter().collect();
        Ok(Self { options, keys, replace, value, without_headers, state: Mutex::new(state) })
    }

    /// The segment that the next steps read, the bytes of its `.txnindex`, and the offsets that are chosen of it: int64 in the
    /// machine's order, rising. `tail`: it ends the log, perhaps with a part of an entry.
    #[pyo3(signature = (path, aborted=None, offsets=None, tail=false))]
    fn open(
        &self,
        py: Python<'_>,
        path: PathBuf,
        aborted: Option<&[u8]>,
        offsets: Option<&[u8]>,
        tail: bool,
    ) -> PyResult<()> {
        let mut state = self.state.lock_py_attached(py).unwrap_or_else(PoisonError::into_inner);
        let (offsets, rest) = offsets.unwrap_or_default().as_chunks::<8>();
        let offsets: Vec<i64> = offsets.iter().map(|bytes| i64::from_ne_bytes(*bytes)).collect();
        if !rest.is_empty() || !offsets.is_sorted() {
            return Err(PyValueError::new_err("offsets: int64, rising"));
        }
        state.offsets = offsets;
        state.reading.open(path, aborted, tail, self.options)
    }

    /// Begins a new segment.
    fn target(&self, py: Python<'_>, base_offset: i64, index_interval: u64) {
        self.state.lock_py_attached(py).unwrap_or_else(PoisonError::into_inner).target =
            Some(Target::new(base_offset, index_interval, self.options));
    }

    /// A step: (bytes, byte position, whether the segment ended). The batch that ends at `end_offset` stays, empty if need be.
    fn write<'py>(&self, py: Python<'py>, end_offset: i64) -> PyResult<(Bound<'py, PyBytes>, u64, bool)> {
        let mut state = self.state.lock_py_attached(py).unwrap_or_else(PoisonError::into_inner);
        let State { core, followed, reading, target: Some(target), offsets } = &mut *state else {
            return Err(out_of_turn());
        };
        let mut out = Vec::new();
        let step = || {
            reading.each(|entry, known| {
                let aborted = ended(followed, entry, known)?;
                let start = out.len();
                let last = entry.head.last_offset.wrapping_add(1) == end_offset;
                let decide = |record: &magicbyte::Record<'_>| {
                    let by_key = record.key.is_some_and(|key| self.keys.contains(key));
                    if !by_key && offsets.binary_search(&record.offset).is_err() {
                        Verdict::Keep
                    } else if self.replace {
                        let value = self.value.as_deref();
                        Verdict::Change { value, without_headers: self.without_headers }
                    } else {
                        Verdict::Drop
                    }
                };
                core.entry(entry, last, decide, &mut out)?;
                target.follow(&out[start..], aborted.as_ref())?;
                Ok(out.len() < PIECE)
            })
        };
        let (position, ended) = detached(py, step)??;
        Ok((PyBytes::new(py, &out), position, ended))
    }

    /// Ends the segment.
    fn close_target<'py>(&self, py: Python<'py>) -> PyResult<Closed<'py>> {
        let mut state = self.state.lock_py_attached(py).unwrap_or_else(PoisonError::into_inner);
        state.target.take().ok_or_else(out_of_turn)?.close(py)
    }

    /// What was done so far, by name.
    fn counts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let state = self.state.lock_py_attached(py).unwrap_or_else(PoisonError::into_inner);
        let it = state.core.done();
        let counts = PyDict::new(py);
        for (name, count) in [
            ("records", it.records),
            ("dropped", it.dropped),
            ("changed", it.changed),
            ("batches", it.batches),
            ("rebuilt", it.rebuilt),
            ("emptied", it.emptied),
        ] {
            counts.set_item(name, count)?;
        }
        Ok(counts)
    }
}
