//! What stands beside segments and depends on those before them: transactions, producers, leader epochs. For segments that
//! were written apart from each other.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use magicbyte::log::Options;
use magicbyte::segment::{EpochEntry, LeaderEpochCheckpoint, Producers, TransactionIndexBuilder};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use pyo3::types::PyBytes;

use crate::arguments;
use crate::error::Failure;
use crate::gate::detached;
use crate::steps::survey;

/// The segment's `.txnindex`, the `.snapshot` of producers behind it (each empty: there should be none), and the offset of
/// its last record, −1 for none.
type Followed<'py> = (Bound<'py, PyBytes>, Bound<'py, PyBytes>, i64);

#[derive(Default)]
struct State {
    producers: Producers,
    epochs: Vec<EpochEntry>,
}

/// Follows the segments of one partition, in order, by their headers and markers.
#[pyclass(frozen, module = "magicbyte._core")]
pub(crate) struct Follower {
    options: Options,
    state: Mutex<State>,
}

#[pymethods]
impl Follower {
    #[new]
    #[pyo3(signature = (*, format="kafka"))]
    fn new(format: &str) -> PyResult<Self> {
        Ok(Self { options: arguments::options(format, true, "FAILFAST", None)?, state: Mutex::default() })
    }

    /// The next segment, whose files are named after `base_offset`.
    fn segment<'py>(&self, py: Python<'py>, path: PathBuf, base_offset: i64) -> PyResult<Followed<'py>> {
        let mut state = self.state.lock_py_attached(py).unwrap_or_else(PoisonError::into_inner);
        let State { producers, epochs } = &mut *state;
        let mut index = TransactionIndexBuilder::new(base_offset);
        let work = || {
            survey(path, self.options, |entry| {
                let head = &entry.head;
                if head.leader_epoch >= 0 && epochs.last().is_none_or(|last| last.epoch < head.leader_epoch) {
                    epochs.push(EpochEntry { epoch: head.leader_epoch, start_offset: head.base_offset });
                }
                if let Some(aborted) = producers.append(entry)? {
                    index.append(&aborted)?;
                }
                Ok(())
            })
        };
        let (_, _, _, last) = detached(py, work)??;
        let snapshot = producers.snapshot();
        let snapshot = if snapshot.entries.is_empty() {
            Vec::new()
        } else {
            snapshot.encode().map_err(|flaw| Failure::corrupt(flaw.at(0), None))?
        };
        Ok((PyBytes::new(py, index.as_bytes()), PyBytes::new(py, &snapshot), last))
    }

    /// The `leader-epoch-checkpoint` of what was followed; empty where no batch names an epoch.
    fn epochs<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let mut state = self.state.lock_py_attached(py).unwrap_or_else(PoisonError::into_inner);
        if state.epochs.is_empty() {
            return Ok(PyBytes::new(py, b""));
        }
        let epochs = LeaderEpochCheckpoint::from_entries(state.epochs.drain(..))
            .map_err(|flaw| PyValueError::new_err(flaw.to_string()))?;
        Ok(PyBytes::new(py, epochs.encode().as_bytes()))
    }
}
