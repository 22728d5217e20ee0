//! What is to be read, and how much of it at most.

use std::path::PathBuf;

use bytes::Bytes;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

use crate::transactions::Transactions;

/// Bounds that are checked before memory is taken.
///
/// `record`: bytes of one record (default 256 MiB). `batch`: bytes of one stored entry (256 MiB). `decompressed`: bytes
/// that one batch may decompress to (256 MiB); by this the number of its records and headers is bounded, too, where 64
/// bytes count for a record and 16 for a header, and 64 MiB are always allowed. `headers`: headers of one record
/// (1,048,576). Over one of them, the read ends in a `CorruptRecordError` of kind `limit`.
#[pyclass(frozen, eq, module = "magicbyte")]
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limits(pub(crate) magicbyte::Limits);

#[pymethods]
impl Limits {
    #[new]
    #[pyo3(signature = (record=None, batch=None, decompressed=None, headers=None))]
    fn new(
        record: Option<u64>,
        batch: Option<u64>,
        decompressed: Option<u64>,
        headers: Option<u64>,
    ) -> PyResult<Self> {
        let usual = magicbyte::Limits::default();
        let limits = magicbyte::Limits {
            record: record.unwrap_or(usual.record),
            batch: batch.unwrap_or(usual.batch),
            decompressed: decompressed.unwrap_or(usual.decompressed),
            headers: headers.unwrap_or(usual.headers),
        };
        if limits.decompressed > i32::MAX as u64 {
            return Err(PyValueError::new_err("decompressed: at most 2147483647 bytes"));
        }
        Ok(Self(limits))
    }

    /// Bytes of one record.
    #[getter]
    const fn record(&self) -> u64 {
        self.0.record
    }

    /// Bytes of one stored entry.
    #[getter]
    const fn batch(&self) -> u64 {
        self.0.batch
    }

    /// Bytes that one batch may decompress to.
    #[getter]
    const fn decompressed(&self) -> u64 {
        self.0.decompressed
    }

    /// Headers of one record.
    #[getter]
    const fn headers(&self) -> u64 {
        self.0.headers
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> (Bound<'py, PyAny>, (u64, u64, u64, u64)) {
        let it = slf.get().0;
        (slf.get_type().into_any(), (it.record, it.batch, it.decompressed, it.headers))
    }

    fn __hash__(&self) -> u64 {
        let it = self.0;
        it.record ^ it.batch.rotate_left(16) ^ it.decompressed.rotate_left(32) ^ it.headers.rotate_left(48)
    }

    fn __repr__(&self) -> String {
        let it = self.0;
        format!(
            "Limits(record={}, batch={}, decompressed={}, headers={})",
            it.record, it.batch, it.decompressed, it.headers
        )
    }
}

/// Bytes in hand or the path of a file.
#[derive(Clone, Debug)]
pub(crate) enum From {
    Bytes(Bytes),
    Path(PathBuf),
}

/// One stretch of one log: `source` (a path or bytes), the partition it belongs to, the bytes `[start, end)`, where
/// `start` is the beginning of a batch, and the offsets `[first_offset, end_offset)` wanted of it. `transactions` is what
/// is known of its partition's; without, a reader finds it out from its own parts, if it has to know.
#[pyclass(frozen, module = "magicbyte._core")]
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub(crate) source: From,
    pub(crate) topic: String,
    #[pyo3(get)]
    pub(crate) partition: i32,
    #[pyo3(get)]
    pub(crate) start: u64,
    #[pyo3(get)]
    pub(crate) end: Option<u64>,
    #[pyo3(get)]
    pub(crate) first_offset: Option<i64>,
    #[pyo3(get)]
    pub(crate) end_offset: Option<i64>,
    pub(crate) transactions: Option<Transactions>,
}

impl Part {
    /// All of a source, of no known partition.
    pub(crate) const fn whole(source: From) -> Self {
        Self {
            source,
            topic: String::new(),
            partition: -1,
            start: 0,
            end: None,
            first_offset: None,
            end_offset: None,
            transactions: None,
        }
    }

    /// Whether both are of files of the same partition.
    pub(crate) fn is_of(&self, other: &Self) -> bool {
        let files = matches!((&self.source, &other.source), (From::Path(_), From::Path(_)));
        files && self.partition == other.partition && self.topic == other.topic
    }
}

/// Borrows `bytes` as they are; other buffers may change under the reader, so they are copied.
pub(crate) fn bytes_of(data: &Bound<'_, PyAny>) -> PyResult<Bytes> {
    if data.is_instance_of::<PyBytes>() {
        return Ok(data.extract::<Bytes>()?);
    }
    if let Ok(buffer) = pyo3::buffer::PyBuffer::<u8>::get(data) {
        return Ok(buffer.to_vec(data.py())?.into());
    }
    Err(PyTypeError::new_err(format!("a bytes-like object is required, not {}", data.get_type().name()?)))
}

#[pymethods]
impl Part {
    #[new]
    #[pyo3(signature = (source, topic="".to_owned(), partition=-1, start=0, end=None, first_offset=None, end_offset=None, transactions=None))]
    #[expect(clippy::too_many_arguments, reason = "by keyword")]
    fn new(
        source: &Bound<'_, PyAny>,
        topic: String,
        partition: i32,
        start: u64,
        end: Option<u64>,
        first_offset: Option<i64>,
        end_offset: Option<i64>,
        transactions: Option<&Transactions>,
    ) -> PyResult<Self> {
        let is_path = source.is_instance_of::<PyString>() || source.hasattr("__fspath__")?;
        let source = if is_path { From::Path(source.extract()?) } else { From::Bytes(bytes_of(source)?) };
        let transactions = transactions.cloned();
        Ok(Self { source, topic, partition, start, end, first_offset, end_offset, transactions })
    }

    /// The path, or the bytes.
    #[getter]
    fn source<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        match &self.source {
            From::Path(path) => Ok(path.as_os_str().into_pyobject(py)?.into_any()),
            From::Bytes(bytes) => Ok(PyBytes::new(py, bytes).into_any()),
        }
    }

    /// What is known of the partition's transactions.
    #[getter]
    fn transactions(&self) -> Option<Transactions> {
        self.transactions.clone()
    }

    #[getter]
    fn topic(&self) -> &str {
        &self.topic
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        let it = slf.get();
        let args = (
            it.source(slf.py())?,
            it.topic.as_str(),
            it.partition,
            it.start,
            it.end,
            it.first_offset,
            it.end_offset,
            it.transactions.clone(),
        );
        Ok((slf.get_type().into_any(), args.into_pyobject(slf.py())?.into_any()))
    }

    fn __repr__(&self) -> String {
        let source = match &self.source {
            From::Path(path) => format!("{:?}", path.display().to_string()),
            From::Bytes(bytes) => format!("<{} bytes>", bytes.len()),
        };
        let number = |value: Option<String>| value.unwrap_or_else(|| "None".into());
        format!(
            "Part({source}, topic={:?}, partition={}, start={}, end={}, first_offset={}, end_offset={})",
            self.topic,
            self.partition,
            self.start,
            number(self.end.map(|n| n.to_string())),
            number(self.first_offset.map(|n| n.to_string())),
            number(self.end_offset.map(|n| n.to_string())),
        )
    }
}
