//! One format to another, piece by piece.

use std::collections::HashSet;
use std::ops::{Range, RangeInclusive};
use std::sync::{Arc, Mutex, PoisonError};

use magicbyte::log::Options;
use magicbyte::{Conversion, ConvertError, Converter, Damage, Next, Protocol, Request, request_format};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use pyo3::types::{PyBytes, PyDict};

use crate::arguments;
use crate::encode::{format, refused};
use crate::error::Failure;
use crate::gate::detached;
use crate::iterators::Walk;
use crate::new_batch::codec;
use crate::part::{Limits, Part, bytes_of};
use crate::reader::{Finding, Plan};

/// Bytes at which a piece is handed out.
const PIECE: usize = 1 << 20;

struct State {
    walk: Walk,
    converter: Converter,
    /// Bytes of the source behind us.
    position: u64,
    ended: bool,
}

/// Iterates the bytes that parts of a log become in another format; holds one batch and one piece at a time.
#[pyclass(frozen, module = "magicbyte._core")]
pub(crate) struct ConvertIterator {
    plan: Arc<Plan>,
    state: Mutex<State>,
}

/// Why a conversion stopped.
enum Stop {
    Read(Failure),
    Write(PyErr),
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Self::Read(failure)
    }
}

impl From<Stop> for PyErr {
    fn from(stop: Stop) -> Self {
        match stop {
            Stop::Read(failure) => failure.into(),
            Stop::Write(error) => error,
        }
    }
}

impl State {
    fn fill(&mut self, out: &mut Vec<u8>) -> Result<(), Stop> {
        let Self { walk, converter, position, ended } = self;
        while out.len() < PIECE && !*ended {
            if walk.entries()?.is_none() {
                *ended = true;
                let done = converter.finish(out);
                return done.map_err(|error| stop(walk, error));
            }
            let wanted = walk.plan.selection(walk.part()).offsets;
            let Some(entries) = walk.entries()? else { continue };
            let damage = match entries.next() {
                Ok(Next::Entry(entry)) => {
                    let head = &entry.head;
                    // A wrapper's first offset is not known before it is open.
                    let known = head.count.is_some();
                    if head.last_offset < wanted.start || (known && head.base_offset >= wanted.end) {
                        *position += entry.bytes.len() as u64;
                        continue;
                    }
                    if head.last_offset >= wanted.end || (known && head.base_offset < wanted.start) {
                        let (offsets, position) = (head.base_offset..=head.last_offset, entry.position);
                        return Err(Stop::Write(cut(walk, position, &offsets, &wanted)));
                    }
                    let range = entry.position..entry.position + entry.bytes.len() as u64;
                    *position += range.end - range.start;
                    match converter.entry(&entry, out) {
                        Ok(()) => continue,
                        Err(ConvertError::Read(error)) => (Damage { range, flaw: error.flaw }, error),
                        Err(error) => return Err(stop(walk, error)),
                    }
                }
                Ok(Next::Damage(damage)) => {
                    let error = damage.error();
                    (damage, error)
                }
                Ok(Next::End) => {
                    walk.close_part();
                    continue;
                }
                Err(error) => return Err(stop(walk, error.into())),
            };
            walk.damage(&damage.0, damage.1)?;
        }
        Ok(())
    }
}

/// A batch of which only a part is wanted, where two segments overlap.
fn cut(walk: &Walk, position: u64, offsets: &RangeInclusive<i64>, wanted: &Range<i64>) -> PyErr {
    let file = walk.plan.path(walk.part()).map_or_else(String::new, |path| format!("{}: ", path.display()));
    let (first, last) = (*offsets.start(), *offsets.end());
    let bound = if first < wanted.start { wanted.start } else { wanted.end };
    PyValueError::new_err(format!(
        "{file}entry at byte {position}: offset {bound}, where segments that overlap take turns, lies within its offsets {first} to \
         {last}, and a batch is converted as a whole or not at all"
    ))
}

fn stop(walk: &Walk, error: ConvertError) -> Stop {
    let path = walk.plan.path(walk.part());
    match error {
        ConvertError::Read(error) => Stop::Read(Failure::corrupt(error, path)),
        ConvertError::Io(error) => Stop::Read(Failure { error: error.into(), path }),
        ConvertError::Write { position, error } => {
            let file = path.map_or_else(String::new, |path| format!("{}: ", path.display()));
            Stop::Write(refused(&format!("{file}entry at byte {position}: "), error))
        }
        other => Stop::Write(PyValueError::new_err(other.to_string())),
    }
}

#[pymethods]
impl ConvertIterator {
    #[new]
    #[pyo3(signature = (parts, to, *, format="kafka", codec=None, level=None, first_offset=None, leader_epoch=None,
        from_offset=None, keep_older=false, null_is_tombstone=false, batch_size=1 << 20, check_crc=true,
        mode="FAILFAST", limits=None))]
    #[expect(clippy::too_many_arguments, reason = "options by keyword")]
    fn new(
        parts: Vec<PyRef<'_, Part>>,
        to: &str,
        format: &str,
        codec: Option<&str>,
        level: Option<i32>,
        first_offset: Option<i64>,
        leader_epoch: Option<i32>,
        from_offset: Option<i64>,
        keep_older: bool,
        null_is_tombstone: bool,
        batch_size: usize,
        check_crc: bool,
        mode: &str,
        limits: Option<&Limits>,
    ) -> PyResult<Self> {
        let options: Options = arguments::options(format, check_crc, mode, limits)?;
        let conversion = Conversion {
            codec: codec.map(self::codec).transpose()?,
            level,
            first_offset,
            leader_epoch,
            from_offset,
            keep_older,
            null_is_tombstone,
            batch_bytes: batch_size,
            limits: options.limits,
            ..Conversion::new(self::format(to)?)
        };
        let plan = Arc::new(Plan::of(parts.iter().map(|part| Part::clone(part)).collect(), options));
        let state = State {
            walk: Walk::new(Arc::clone(&plan)),
            converter: Converter::new(conversion),
            position: 0,
            ended: false,
        };
        Ok(Self { plan, state: Mutex::new(state) })
    }

    const fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let mut state = self.state.lock_py_attached(py).unwrap_or_else(PoisonError::into_inner);
        let state = &mut *state;
        let mut out = Vec::new();
        if let Err(stop) = detached(py, || state.fill(&mut out))? {
            state.ended = true;
            return Err(stop.into());
        }
        Ok((!out.is_empty()).then(|| PyBytes::new(py, &out)))
    }

    /// Bytes of the source that are behind us.
    #[getter]
    fn position(&self, py: Python<'_>) -> u64 {
        self.state.lock_py_attached(py).unwrap_or_else(PoisonError::into_inner).position
    }

    /// What was lost so far: counts by name, none of them 0.
    #[getter]
    fn dropped<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let state = self.state.lock_py_attached(py).unwrap_or_else(PoisonError::into_inner);
        let counts = PyDict::new(py);
        for (name, count) in state.converter.dropped().counts() {
            if count > 0 {
                counts.set_item(name, count)?;
            }
        }
        Ok(counts)
    }

    /// What was passed over so far: (path, position, kind, size, message).
    #[getter]
    fn findings(&self) -> Vec<Finding> {
        self.plan.findings()
    }
}

/// Names of the formats that the checksums allow.
#[pyfunction]
pub(crate) fn detect(py: Python<'_>, data: &Bound<'_, PyAny>) -> PyResult<HashSet<&'static str>> {
    let data = bytes_of(data)?;
    let found = detached(py, || magicbyte::detect(&data))?;
    Ok(found.into_iter().map(magicbyte::Format::name).collect())
}

/// Name of the format that a version of a request speaks.
#[pyfunction(name = "request_format")]
#[pyo3(signature = (request, version, *, protocol="kafka"))]
pub(crate) fn of_request(request: &str, version: i16, protocol: &str) -> PyResult<&'static str> {
    let known = Request::from_name(request).ok_or_else(|| {
        PyValueError::new_err(format!("unknown request {request:?}; known are produce, fetch"))
    })?;
    let protocol = match protocol {
        "kafka" => Protocol::Kafka,
        "kip87" => Protocol::Kip87,
        _ => {
            let text = format!("unknown protocol {protocol:?}; known are kafka, kip87");
            return Err(PyValueError::new_err(text));
        }
    };
    let found = request_format(protocol, known, version);
    let found = found.ok_or_else(|| PyValueError::new_err(format!("{request} has no version {version}")))?;
    Ok(found.name())
}
