//! A batch of records as Python sees it, and what its records share.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use magicbyte::{Decompressor, Entry, Family, Head, Limits, Selection};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString};

use crate::error::Failure;
use crate::headers::Headers;
use crate::keys::Keys;
use crate::made::Made;
use crate::new_batch;
use crate::slots::{Shared, open};

/// A record as it is stored in its batch: `timestamp` is the stored one, in milliseconds, −1 for none;
/// `effective_timestamp` what a consumer sees.
#[pyclass(frozen, module = "magicbyte")]
pub(crate) struct Record {
    #[pyo3(get)]
    pub(crate) offset: i64,
    #[pyo3(get)]
    pub(crate) timestamp: i64,
    #[pyo3(get)]
    effective_timestamp: i64,
    #[pyo3(get)]
    sequence: i32,
    #[pyo3(get)]
    pub(crate) attributes: i8,
    #[pyo3(get)]
    pub(crate) key: Option<Py<PyBytes>>,
    #[pyo3(get)]
    pub(crate) value: Option<Py<PyBytes>>,
    #[pyo3(get)]
    pub(crate) headers: Py<Headers>,
    #[pyo3(get)]
    pub(crate) tombstone: Option<bool>,
}

#[pymethods]
impl Record {
    #[new]
    #[pyo3(signature = (offset=0, timestamp=-1, key=None, value=None, headers=None, *, attributes=0, tombstone=None, effective_timestamp=None, sequence=-1))]
    #[expect(clippy::too_many_arguments, reason = "one a field, by keyword")]
    fn new(
        py: Python<'_>,
        offset: i64,
        timestamp: i64,
        key: Option<Py<PyBytes>>,
        value: Option<Py<PyBytes>>,
        headers: Option<&Bound<'_, PyAny>>,
        attributes: i8,
        tombstone: Option<bool>,
        effective_timestamp: Option<i64>,
        sequence: i32,
    ) -> PyResult<Self> {
        Ok(Self {
            offset,
            timestamp,
            effective_timestamp: effective_timestamp.unwrap_or(timestamp),
            sequence,
            attributes,
            key,
            value,
            headers: Py::new(py, Headers::given(headers)?)?,
            tombstone,
        })
    }

    fn __eq__(&self, py: Python<'_>, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let Ok(other) = other.cast::<Self>() else { return Ok(py.NotImplemented()) };
        let other = other.get();
        let bytes = |value: &Option<Py<PyBytes>>| value.as_ref().map(|v| v.bind(py).as_bytes().to_vec());
        let same = self.offset == other.offset
            && self.timestamp == other.timestamp
            && self.attributes == other.attributes
            && self.tombstone == other.tombstone
            && bytes(&self.key) == bytes(&other.key)
            && bytes(&self.value) == bytes(&other.value)
            && self.headers.get().same(other.headers.get(), py)?;
        Ok(same.into_pyobject(py)?.to_owned().into_any().unbind())
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let headers = self.headers.bind(py).repr()?.to_string();
        let part = |value: &Option<Py<PyBytes>>| match value {
            None => Ok("None".to_owned()),
            Some(value) => value.bind(py).repr().map(|text| text.to_string()),
        };
        Ok(format!(
            "Record(offset={}, timestamp={}, key={}, value={}, headers={headers})",
            self.offset,
            self.timestamp,
            part(&self.key)?,
            part(&self.value)?,
        ))
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        let (py, it) = (slf.py(), slf.get());
        let kwargs = pyo3::types::PyDict::new(py);
        kwargs.set_item("attributes", it.attributes)?;
        kwargs.set_item("tombstone", it.tombstone)?;
        kwargs.set_item("effective_timestamp", it.effective_timestamp)?;
        kwargs.set_item("sequence", it.sequence)?;
        let args = (it.offset, it.timestamp, &it.key, &it.value, &it.headers);
        crate::gate::rebuild(slf.as_any(), args.into_pyobject(py)?, &kwargs)
    }
}

/// One entry of a log: a batch, a message-set wrapper, or a message that stands alone. Its header is there at once; its
/// records are read when `records` is asked for.
///
/// `RecordBatch(**fields, records=[Record(…)])` makes one to be written by `encode_batch`: the fields have the names of
/// the attributes here, and what is not given is computed from the records as Kafka's own builder computes it. Such a
/// batch has no bytes yet, so no `raw`, `crc` and `crc_ok`.
#[pyclass(frozen, module = "magicbyte")]
pub(crate) struct RecordBatch {
    pub(crate) block: Bytes,
    pub(crate) at: usize,
    pub(crate) position: u64,
    pub(crate) head: Head,
    pub(crate) path: Option<Arc<Path>>,
    pub(crate) limits: Limits,
    pub(crate) keys: Arc<Keys>,
    /// What it is made of, if it was not read.
    pub(crate) made: Option<Box<Made>>,
}

impl RecordBatch {
    pub(crate) fn entry(&self) -> Entry<'_> {
        let bytes = self.block.get(self.at..self.at + self.head.size).unwrap_or_default();
        Entry { position: self.position, bytes, head: self.head }
    }

    pub(crate) fn is_batch(&self) -> bool {
        self.head.format.traits().family == Family::Batch
    }

    fn is_wrapper(&self) -> bool {
        self.made.is_none() && !self.is_batch() && self.head.codec_id() != 0
    }
}

#[pymethods]
impl RecordBatch {
    #[new]
    #[pyo3(signature = (*, records=None, **fields))]
    fn new(
        py: Python<'_>,
        records: Option<&Bound<'_, PyAny>>,
        fields: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let fields = new_batch::fields(fields)?;
        let mut made = Made { fields, records: Vec::new() };
        if let Some(records) = records.filter(|records| !records.is_none()) {
            for record in records.try_iter()? {
                made.records.push(record?.cast_into::<Record>()?.unbind());
            }
        }
        Ok(Self {
            block: Bytes::new(),
            at: 0,
            position: 0,
            head: made.head(py),
            path: None,
            limits: Limits::default(),
            keys: Arc::default(),
            made: Some(Box::new(made)),
        })
    }

    /// The file, or None for bytes.
    #[getter]
    fn path(&self) -> Option<String> {
        self.path.as_ref().map(|path| path.display().to_string())
    }

    /// Byte position of the entry.
    #[getter]
    const fn position(&self) -> u64 {
        self.position
    }

    /// Bytes of the whole entry.
    #[getter]
    const fn size(&self) -> usize {
        self.head.size
    }

    /// Name of the format.
    #[getter]
    const fn format(&self) -> &'static str {
        self.head.format.name()
    }

    /// The magic byte.
    #[getter]
    const fn magic(&self) -> i8 {
        self.head.format.traits().magic
    }

    /// The stored checksum.
    #[getter]
    fn crc(&self) -> PyResult<u32> {
        Ok(self.stored()?.head.crc)
    }

    /// Whether the checksum is that of the bytes.
    #[getter]
    fn crc_ok(&self) -> PyResult<bool> {
        Ok(self.stored()?.check_crc().is_ok())
    }

    /// Name of the codec: `none`, `gzip`, `snappy`, `lz4`, `zstd`; None for a number that the format does not have.
    #[getter]
    pub(crate) fn codec(&self) -> Option<&'static str> {
        self.head.codec().map(magicbyte::Codec::name)
    }

    /// The offset that the batch's offsets count from. Of a wrapper this is known only by reading into it.
    #[getter]
    pub(crate) fn base_offset(&self) -> PyResult<i64> {
        if !self.is_wrapper() {
            return Ok(self.head.base_offset);
        }
        let mut buffer = magicbyte::Buffer::new();
        let opened = self.entry().open(&mut Decompressor::new(), &self.limits, &mut buffer);
        let failed = |error| Failure::corrupt(error, self.path.clone());
        Ok(opened.map(|payload| payload.base_offset()).map_err(failed)?)
    }

    /// The last offset, as the header has it.
    #[getter]
    const fn last_offset(&self) -> i64 {
        self.head.last_offset
    }

    /// `last_offset` − `base_offset`.
    #[getter]
    pub(crate) fn last_offset_delta(&self) -> PyResult<i64> {
        Ok(self.head.last_offset.wrapping_sub(self.base_offset()?))
    }

    /// −1 none (v0), 0 CreateTime, 1 LogAppendTime.
    #[getter]
    pub(crate) const fn timestamp_type(&self) -> i8 {
        self.head.timestamp_type as i8
    }

    /// Milliseconds, −1 for none; with a delete horizon, the horizon.
    #[getter]
    const fn base_timestamp(&self) -> i64 {
        self.head.base_timestamp
    }

    /// Milliseconds, −1 for none.
    #[getter]
    const fn max_timestamp(&self) -> i64 {
        self.head.max_timestamp
    }

    /// −1 for none.
    #[getter]
    const fn partition_leader_epoch(&self) -> i32 {
        self.head.leader_epoch
    }

    /// Whether it is part of a transaction (KIP-98).
    #[getter]
    pub(crate) const fn transactional(&self) -> bool {
        self.head.is_transactional()
    }

    /// Whether it holds control records (KIP-98).
    #[getter]
    pub(crate) const fn control(&self) -> bool {
        self.head.is_control()
    }

    /// Whether `base_timestamp` is a delete horizon (KIP-534).
    #[getter]
    pub(crate) const fn delete_horizon(&self) -> bool {
        self.head.delete_horizon().is_some()
    }

    /// −1 for none.
    #[getter]
    const fn producer_id(&self) -> i64 {
        self.head.producer_id
    }

    /// −1 for none.
    #[getter]
    const fn producer_epoch(&self) -> i16 {
        self.head.producer_epoch
    }

    /// −1 for none.
    #[getter]
    const fn base_sequence(&self) -> i32 {
        self.head.base_sequence
    }

    /// v3: whether records carry no attributes byte. True where the format has no such choice.
    #[getter]
    pub(crate) fn ignore_message_attributes(&self) -> bool {
        if let Some(made) = &self.made {
            return made.fields.ignore_message_attributes;
        }
        match self.head.format {
            magicbyte::Format::V3 => self.head.ignores_message_attributes(),
            _ => true,
        }
    }

    /// Records by the batch header; None in message sets, whose headers do not tell.
    #[getter]
    const fn count(&self) -> Option<i32> {
        self.head.count
    }

    /// The whole entry as it is stored.
    #[getter]
    fn raw<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(py, self.stored()?.bytes))
    }

    /// The records, in order. Raises `CorruptRecordError` when they are not sound; `records` of that error counts those
    /// that were.
    #[getter]
    fn records<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        if let Some(made) = &self.made {
            return PyList::new(py, &made.records);
        }
        let mut slots = Vec::new();
        let opened = crate::gate::detached(py, || {
            let own = self.block.slice(self.at..self.at + self.head.size);
            let entry = Entry { position: self.position, bytes: &own, head: self.head };
            open(&entry, &own, &mut Decompressor::new(), &self.limits, &Selection::default(), &mut slots)
        })?;
        let (block, error) = opened;
        if let Some(error) = error {
            return Err(Failure::corrupt(error, self.path.clone()).into());
        }
        let shared = Arc::new(Shared {
            block,
            head: self.head,
            topic: PyString::new(py, "").unbind(),
            partition: -1,
            keys: Arc::clone(&self.keys),
            slots,
        });
        let records = PyList::empty(py);
        for at in 0..shared.slots.len() {
            records.append(shared.record(py, at as u32)?)?;
        }
        Ok(records)
    }

    /// Equal are two batches whose fields and records are, wherever and however they are stored.
    fn __eq__(&self, py: Python<'_>, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let Ok(other) = other.cast::<Self>() else { return Ok(py.NotImplemented()) };
        let other = other.get();
        let same = self.facts()? == other.facts()? && self.records(py)?.eq(other.records(py)?)?;
        Ok(same.into_pyobject(py)?.to_owned().into_any().unbind())
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        let (py, it) = (slf.py(), slf.get());
        if it.made.is_none() {
            let limits = crate::part::Limits(it.limits);
            let args = (it.raw(py)?, it.format(), it.position, it.path(), Py::new(py, limits)?);
            return Ok((slf.get_type().getattr("_stored")?, args.into_pyobject(py)?.into_any()));
        }
        let kwargs = PyDict::new(py);
        new_batch::names(&it.fields()?, &kwargs)?;
        kwargs.set_item("records", it.records(py)?)?;
        crate::gate::rebuild(slf.as_any(), pyo3::types::PyTuple::empty(py), &kwargs)
    }

    #[staticmethod]
    fn _stored(
        raw: Bytes,
        format: &str,
        position: u64,
        path: Option<std::path::PathBuf>,
        limits: &crate::part::Limits,
    ) -> PyResult<Self> {
        let options = crate::arguments::options(format, false, "FAILFAST", Some(limits))?;
        let head = match magicbyte::log::Walker::new(options, 0).step(&raw, true) {
            magicbyte::Step::Entry(entry) => entry.head,
            _ => return Err(PyValueError::new_err("no whole entry")),
        };
        Ok(Self {
            block: raw,
            at: 0,
            position,
            head,
            path: path.map(Into::into),
            limits: limits.0,
            keys: Arc::default(),
            made: None,
        })
    }

    fn __repr__(&self) -> String {
        format!(
            "RecordBatch(format={:?}, position={}, size={}, codec={:?}, last_offset={}, count={})",
            self.format(),
            self.position,
            self.head.size,
            self.codec().unwrap_or("unknown"),
            self.head.last_offset,
            self.head.count.map_or_else(|| "None".into(), |count| count.to_string()),
        )
    }
}

impl Shared {
    fn record(self: &Arc<Self>, py: Python<'_>, at: u32) -> PyResult<Record> {
        let slot = &self.slots[at as usize];
        Ok(Record {
            offset: slot.offset,
            timestamp: slot.timestamp,
            effective_timestamp: self.effective_timestamp(slot),
            sequence: self.sequence(slot),
            attributes: slot.attributes,
            key: self.python(py, slot.key).map(Bound::unbind),
            value: self.python(py, slot.value).map(Bound::unbind),
            headers: Py::new(py, Headers::stored(self, at))?,
            tombstone: slot.tombstone,
        })
    }
}
