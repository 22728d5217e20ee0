//! What became of a partition's transactions, found out when it is first asked for.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use magicbyte::log::Options;
use magicbyte::segment::SegmentFile;
use magicbyte::{SegmentOf, Survey};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::arguments;
use crate::block::Bytestream;
use crate::error::Failure;
use crate::hops::Hops;
use crate::opened::{Opened, is_address};
use crate::part::{From, Limits, Part};
use crate::reader::Finding;

/// Bytes of a `.txnindex` that are read: 34 for each aborted transaction of one segment.
const MAX_INDEX: u64 = 256 << 20;

/// What a survey brought.
#[derive(Debug)]
pub(crate) struct Surveyed {
    pub(crate) transactions: Arc<magicbyte::Transactions>,
    pub(crate) findings: Vec<Finding>,
}

/// The segments of one partition, and what became of its transactions once somebody asked.
#[derive(Debug)]
pub(crate) struct Lazy {
    parts: Vec<Part>,
    options: Options,
    format: String,
    known: Mutex<Option<Arc<Surveyed>>>,
}

impl Lazy {
    pub(crate) fn new(parts: Vec<Part>, options: Options, format: &str) -> Self {
        Self { parts, options, format: format.to_owned(), known: Mutex::default() }
    }

    /// Walks the segments if nobody did before. Called detached from the interpreter only: another thread may be at it.
    pub(crate) fn get(&self) -> Result<Arc<Surveyed>, Failure> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = &*known {
            return Ok(Arc::clone(known));
        }
        let found = Arc::new(self.survey()?);
        *known = Some(Arc::clone(&found));
        Ok(found)
    }

    fn survey(&self) -> Result<Surveyed, Failure> {
        let mut survey = Survey::new();
        let mut findings = Vec::new();
        for (number, part) in self.parts.iter().enumerate() {
            let last = number + 1 == self.parts.len();
            let (source, from, to) = (&part.source, part.first_offset, part.end_offset);
            let mut options = self.options;
            match source {
                From::Bytes(bytes) => {
                    let all = Bytestream::whole(bytes.clone(), None);
                    let failed = |error: io::Error| Failure { error: error.into(), path: None };
                    let of = SegmentOf { last, from, to, ..SegmentOf::default() };
                    survey.segment(all, options, of).map_err(failed)?;
                }
                From::Path(path) => {
                    let failed =
                        |error: io::Error| Failure { error: error.into(), path: Some(path.as_path().into()) };
                    options.preallocated = true;
                    let beside = base_of(source).and_then(|_| index_of(path));
                    let next = self.parts.get(number + 1).map(|part| &part.source);
                    let of = SegmentOf {
                        base_offset: base_of(source),
                        // Segments that overlap are for the survey to find out.
                        end_offset: next
                            .and_then(base_of)
                            .filter(|end| base_of(source).is_some_and(|base| base < *end)),
                        index: beside.as_ref().map(|(_, bytes)| bytes.as_slice()),
                        last,
                        from,
                        to,
                    };
                    let hops = Hops::open(path).map_err(failed)?;
                    let said = survey.segment(hops, options, of).map_err(failed)?;
                    if let (Some(said), Some((beside, _))) = (said, &beside) {
                        let more = if said.count > 1 {
                            format!(", and {} more", said.count - 1)
                        } else {
                            String::new()
                        };
                        let text = format!("{}{more}; the markers were believed", said.error.flaw);
                        let path = Some(beside.display().to_string());
                        findings.push((path, said.error.position, said.error.kind().name(), 0, text));
                    }
                }
            }
        }
        Ok(Surveyed { transactions: Arc::new(survey.finish()), findings })
    }
}

/// The offset that a segment begins at, by its name.
fn base_of(source: &From) -> Option<i64> {
    let From::Path(path) = source else { return None };
    match SegmentFile::parse(path.file_name()?.to_str()?) {
        SegmentFile::Log { base_offset } => Some(base_offset),
        _ => None,
    }
}

/// The `.txnindex` beside a segment: path and bytes.
fn index_of(path: &Path) -> Option<(PathBuf, Vec<u8>)> {
    let beside = path.with_extension("txnindex");
    // A pipe would block for ever.
    if !is_address(path) && !beside.metadata().ok()?.is_file() {
        return None;
    }
    let bytes = Opened::open(&beside).ok()?.read_all(MAX_INDEX).ok()?;
    Some((beside, bytes))
}

/// What became of the transactions of one partition: `parts` are its segments in order, each read from its beginning to
/// its end, headers and markers only, when it is first asked for; what lies outside of its offsets is another's to tell. One object serves all parts of the partition.
#[pyclass(frozen, module = "magicbyte._core")]
#[derive(Clone, Debug)]
pub(crate) struct Transactions(pub(crate) Arc<Lazy>);

impl Transactions {
    pub(crate) fn known(&self, py: Python<'_>) -> PyResult<Arc<Surveyed>> {
        Ok(crate::gate::detached(py, || self.0.get())??)
    }
}

#[pymethods]
impl Transactions {
    #[new]
    #[pyo3(signature = (parts, *, format="kafka", check_crc=true, limits=None))]
    fn new(
        parts: Vec<PyRef<'_, Part>>,
        format: &str,
        check_crc: bool,
        limits: Option<&Limits>,
    ) -> PyResult<Self> {
        let options = arguments::options(format, check_crc, "DROPMALFORMED", limits)?;
        let parts = parts.iter().map(|part| Part { transactions: None, ..Part::clone(part) }).collect();
        Ok(Self(Arc::new(Lazy::new(parts, options, format))))
    }

    /// From the bytes of `to_bytes`.
    #[staticmethod]
    fn from_bytes(data: &[u8]) -> PyResult<Self> {
        let known = magicbyte::Transactions::from_bytes(data).ok_or_else(|| {
            pyo3::exceptions::PyValueError::new_err("not the bytes of Transactions.to_bytes of this version")
        })?;
        let surveyed = Surveyed { transactions: Arc::new(known), findings: Vec::new() };
        let lazy = Lazy::new(Vec::new(), Options::default(), "kafka");
        *lazy.known.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(surveyed));
        Ok(Self(Arc::new(lazy)))
    }

    /// All that is known, as bytes: for workers that are not to find it out again. With `first` and `end`: only what
    /// is needed for these offsets.
    #[pyo3(signature = (first=None, end=None))]
    fn to_bytes<'py>(
        &self,
        py: Python<'py>,
        first: Option<i64>,
        end: Option<i64>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let known = self.known(py)?;
        let part = known.transactions.within(first.unwrap_or(i64::MIN), end.unwrap_or(i64::MAX));
        Ok(PyBytes::new(py, &part.to_bytes()))
    }

    /// `committed`, `aborted` or `unknown`: the transaction of this producer that has a record at `offset`.
    fn state(&self, py: Python<'_>, producer_id: i64, offset: i64) -> PyResult<&'static str> {
        Ok(self.known(py)?.transactions.state_at(producer_id, offset).name())
    }

    /// Offset of the first record of the first transaction whose end is not known; None where all are decided.
    #[getter]
    fn last_stable_offset(&self, py: Python<'_>) -> PyResult<Option<i64>> {
        Ok(self.known(py)?.transactions.unstable().map(|it| it.offset))
    }

    /// Records from the last stable offset on, control records left out.
    #[getter]
    fn left_behind(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(self.known(py)?.transactions.unstable().map_or(0, |it| it.records))
    }

    /// Where a transaction index is at odds with the markers: (path, position, kind, size, message).
    #[getter]
    fn findings(&self, py: Python<'_>) -> PyResult<Vec<Finding>> {
        Ok(self.known(py)?.findings.clone())
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        let (py, lazy) = (slf.py(), &slf.get().0);
        // What is known travels; else the recipe does, which costs nothing until it is asked.
        let known = py.detach(|| lazy.known.lock().unwrap_or_else(PoisonError::into_inner).clone());
        if let Some(known) = known {
            let make = slf.get_type().getattr("from_bytes")?;
            let bytes = PyBytes::new(py, &known.transactions.to_bytes());
            return Ok((make, (bytes,).into_pyobject(py)?.into_any()));
        }
        let parts = lazy.parts.clone();
        let kwargs = PyDict::new(py);
        kwargs.set_item("format", &lazy.format)?;
        kwargs.set_item("check_crc", lazy.options.check_crc)?;
        kwargs.set_item("limits", Limits(lazy.options.limits))?;
        crate::gate::rebuild(slf.as_any(), (parts,).into_pyobject(py)?, &kwargs)
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        let lazy = &self.0;
        let known = py.detach(|| lazy.known.lock().unwrap_or_else(PoisonError::into_inner).clone());
        match known {
            None => format!("Transactions({} segments, not looked at)", lazy.parts.len()),
            Some(known) => {
                let it = &known.transactions;
                let lso = it.unstable().map_or_else(|| "None".into(), |it| it.offset.to_string());
                format!(
                    "Transactions({} producers, {} stretches, last_stable_offset={lso})",
                    it.producers(),
                    it.spans()
                )
            }
        }
    }
}

/// Transactions of parts that came without: all files of one partition together, each piece of bytes by itself.
#[derive(Debug, Default)]
pub(crate) struct Own(Mutex<HashMap<Whose, Arc<Lazy>>>);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Whose {
    Partition(String, i32),
    Bytes(usize),
}

impl Own {
    /// Of a part.
    pub(crate) fn of(&self, parts: &[Part], part: usize, options: Options) -> Arc<Lazy> {
        let it = &parts[part];
        let whose = match &it.source {
            From::Bytes(_) => Whose::Bytes(part),
            From::Path(_) => Whose::Partition(it.topic.clone(), it.partition),
        };
        let mut own = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let make = || {
            let mut sources = Vec::new();
            match &it.source {
                From::Bytes(bytes) => sources.push(From::Bytes(bytes.clone())),
                From::Path(_) => {
                    let mut last: Option<&Path> = None;
                    for one in parts.iter().filter(|one| one.is_of(it)) {
                        if let From::Path(path) = &one.source
                            && last != Some(path)
                        {
                            sources.push(From::Path(path.clone()));
                            last = Some(path);
                        }
                    }
                }
            }
            Arc::new(Lazy::new(sources.into_iter().map(Part::whole).collect(), options, ""))
        };
        if let Whose::Bytes(_) = whose {
            // One use each: nothing to keep.
            return make();
        }
        Arc::clone(own.entry(whose).or_insert_with(make))
    }
}
