//! A record as a consumer receives it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use magicbyte::places::{Place, Span};
use magicbyte::{Control as CoreControl, NewRecord};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict, PyString};

use crate::attributes::Hot;
use crate::headers::{Headers, Raw};
use crate::new_batch::{Part, with_headers};
use crate::quick::{Fields, Quick};
use crate::slots::{Shared, alone};

/// What a control record says (KIP-98 and later): `type` is Kafka's name for it, `type_id` its number.
#[pyclass(frozen, eq, module = "magicbyte")]
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Control(CoreControl);

#[pymethods]
impl Control {
    #[new]
    #[pyo3(signature = (type_id, version=0, coordinator_epoch=None))]
    const fn new(type_id: i16, version: i16, coordinator_epoch: Option<i32>) -> Self {
        Self(CoreControl { version, type_id, coordinator_epoch })
    }

    /// `ABORT`, `COMMIT`, `LEADER_CHANGE`, `SNAPSHOT_HEADER`, `SNAPSHOT_FOOTER`, `KRAFT_VERSION`, `KRAFT_VOTERS`, `UNKNOWN`.
    #[getter]
    fn r#type(&self) -> &'static str {
        self.0.control_type().name()
    }

    /// The type's number.
    #[getter]
    const fn type_id(&self) -> i16 {
        self.0.type_id
    }

    /// Version of the key.
    #[getter]
    const fn version(&self) -> i16 {
        self.0.version
    }

    /// Of ABORT and COMMIT: the epoch of the transaction coordinator that wrote the marker.
    #[getter]
    const fn coordinator_epoch(&self) -> Option<i32> {
        self.0.coordinator_epoch
    }

    fn __repr__(&self) -> String {
        let epoch = self.0.coordinator_epoch.map_or_else(|| "None".into(), |epoch| epoch.to_string());
        format!("Control(type={:?}, version={}, coordinator_epoch={epoch})", self.r#type(), self.0.version)
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> (Bound<'py, PyAny>, (i16, i16, Option<i32>)) {
        let it = slf.get().0;
        (slf.get_type().into_any(), (it.type_id, it.version, it.coordinator_epoch))
    }
}

/// What is the record's own where it was not read from a batch.
struct Own {
    topic: Py<PyString>,
    partition: i32,
    offset: i64,
    timestamp: i64,
    timestamp_type: i8,
    key: Option<Py<PyAny>>,
    value: Option<Py<PyAny>>,
    leader_epoch: Option<i32>,
    tombstone: Option<bool>,
    producer_id: i64,
    producer_epoch: i16,
    sequence: i32,
    transactional: bool,
    control: Option<Control>,
}

enum Origin {
    /// A batch, and which of its records. An iterator that is the only one to hold a record moves it to the next one.
    Read(Raw),
    Made(Box<Own>),
}

/// A record as a consumer receives it.
///
/// `timestamp` is in milliseconds since the epoch, −1 for none, and what a consumer sees: the append time under
/// LogAppendTime. `timestamp_type` is 0 for CreateTime, 1 for LogAppendTime, −1 for none (v0). `key` and `value` are bytes
/// or None. `tombstone`: KIP-87's flag where the format has it, else whether the value is None. `leader_epoch` is None
/// where it is not known. `control` is a `Control` for a control record and None for every other. Fields are made when
/// they are asked for. `headers` are open, so that they can be changed before the record is sent on.
#[pyclass(frozen, module = "magicbyte")]
pub(crate) struct ConsumerRecord {
    origin: Origin,
    headers: PyOnceLock<Py<Headers>>,
}

impl ConsumerRecord {
    pub(crate) fn read(shared: &Arc<Shared>, at: u32) -> Self {
        let raw = Raw { shared: Arc::clone(shared), at: AtomicU32::new(at) };
        Self { origin: Origin::Read(raw), headers: PyOnceLock::new() }
    }

    /// Makes it another record of the same batch, unless someone else holds it or its headers, or they were changed.
    #[inline]
    pub(crate) fn moved_to(slf: &Py<Self>, py: Python<'_>, at: u32) -> bool {
        let it = slf.get();
        let Origin::Read(raw) = &it.origin else { return false };
        if !alone(slf, py) || it.headers.get(py).is_some_and(|headers| !Headers::moved_to(headers, py, at)) {
            return false;
        }
        raw.at.store(at, Ordering::Relaxed);
        true
    }

    #[inline]
    fn part(
        &self,
        py: Python<'_>,
        stored: impl FnOnce(&Place) -> Span,
        own: impl FnOnce(&Own) -> &Option<Py<PyAny>>,
    ) -> Option<Py<PyAny>> {
        match &self.origin {
            Origin::Read(raw) => {
                raw.shared.python(py, stored(raw.slot())).map(|bytes| bytes.into_any().unbind())
            }
            Origin::Made(it) => own(it).as_ref().map(|object| object.clone_ref(py)),
        }
    }

    /// KIP-87's flag, where the format or the constructor gave one.
    fn flag(&self) -> Option<bool> {
        match &self.origin {
            Origin::Read(raw) => raw.slot().tombstone,
            Origin::Made(own) => own.tombstone,
        }
    }

    /// Hands this record on, to be written. A consumer does not see a record's own attributes byte, so it is 0.
    pub(crate) fn with_new<T>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&NewRecord<'_>) -> PyResult<T>,
    ) -> PyResult<T> {
        let new = NewRecord {
            offset: self.offset(),
            timestamp: self.timestamp(),
            tombstone: self.flag(),
            ..NewRecord::default()
        };
        match &self.origin {
            Origin::Read(raw) => {
                let (shared, slot) = (&raw.shared, raw.slot());
                let new = NewRecord { key: shared.bytes(slot.key), value: shared.bytes(slot.value), ..new };
                match self.headers.get(py) {
                    None => work(&NewRecord { headers: raw.core().into(), ..new }),
                    Some(headers) => with_headers(py, headers.get(), new, work),
                }
            }
            Origin::Made(own) => {
                let part = |object: &Option<Py<PyAny>>, name| match object {
                    Some(object) => Part::of(object.bind(py), name),
                    None => Ok(Part::Null),
                };
                let (key, value) = (part(&own.key, "key")?, part(&own.value, "value")?);
                let new = NewRecord { key: key.bytes(), value: value.bytes(), ..new };
                with_headers(py, self.headers_ref(py)?.get(), new, work)
            }
        }
    }

    /// The constructor's arguments by name.
    fn fields<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let fields = PyDict::new(py);
        fields.set_item("topic", self.topic(py))?;
        fields.set_item("partition", self.partition())?;
        fields.set_item("offset", self.offset())?;
        fields.set_item("timestamp", self.timestamp())?;
        fields.set_item("timestamp_type", self.timestamp_type())?;
        fields.set_item("key", self.key(py))?;
        fields.set_item("value", self.value(py))?;
        fields.set_item("headers", self.headers(py)?)?;
        fields.set_item("leader_epoch", self.leader_epoch())?;
        fields.set_item("tombstone", self.flag())?;
        fields.set_item("producer_id", self.producer_id())?;
        fields.set_item("producer_epoch", self.producer_epoch())?;
        fields.set_item("sequence", self.sequence())?;
        fields.set_item("transactional", self.transactional())?;
        fields.set_item("control", self.control())?;
        Ok(fields)
    }

    fn headers_ref<'s>(&'s self, py: Python<'_>) -> PyResult<&'s Py<Headers>> {
        self.headers.get_or_try_init(py, || match &self.origin {
            Origin::Read(raw) => Py::new(py, Headers::stored(&raw.shared, raw.at.load(Ordering::Relaxed))),
            Origin::Made(_) => Py::new(py, Headers::given(None)?),
        })
    }
}

pub(crate) static HOT: Hot<5> = Hot::new(["value", "key", "offset", "headers", "timestamp"]);

impl Fields for ConsumerRecord {
    #[inline(always)]
    fn field(&self, py: Python<'_>, name: &Bound<'_, PyAny>) -> Quick<'_> {
        let Some(which) = HOT.which(name) else { return Quick::No };
        if which == 3 {
            return self.headers.get(py).map_or(Quick::No, |headers| Quick::Kept(headers.as_any()));
        }
        match &self.origin {
            Origin::Read(raw) => match raw.slot_of() {
                None => Quick::No,
                Some(slot) => match which {
                    0 => Quick::Bytes(raw.shared.bytes(slot.value)),
                    1 => Quick::Bytes(raw.shared.bytes(slot.key)),
                    2 => Quick::Int(slot.offset),
                    _ => Quick::Int(raw.shared.effective_timestamp(slot)),
                },
            },
            Origin::Made(own) => match which {
                0 => own.value.as_ref().map_or(Quick::Bytes(None), Quick::Kept),
                1 => own.key.as_ref().map_or(Quick::Bytes(None), Quick::Kept),
                2 => Quick::Int(own.offset),
                _ => Quick::Int(own.timestamp),
            },
        }
    }
}

#[pymethods]
impl ConsumerRecord {
    #[new]
    #[pyo3(signature = (topic, partition, offset, timestamp, timestamp_type, key, value, headers=None, leader_epoch=None,
        tombstone=None, *, producer_id=-1, producer_epoch=-1, sequence=-1, transactional=false, control=None))]
    #[expect(clippy::too_many_arguments, reason = "Kafka's own constructor, one a field")]
    fn new(
        py: Python<'_>,
        topic: Py<PyString>,
        partition: i32,
        offset: i64,
        timestamp: i64,
        timestamp_type: i8,
        key: Py<PyAny>,
        value: Py<PyAny>,
        headers: Option<&Bound<'_, PyAny>>,
        leader_epoch: Option<i32>,
        tombstone: Option<bool>,
        producer_id: i64,
        producer_epoch: i16,
        sequence: i32,
        transactional: bool,
        control: Option<PyRef<'_, Control>>,
    ) -> PyResult<Self> {
        let control = control.map(|control| *control);
        let cell = PyOnceLock::new();
        let _ = cell.set(py, Py::new(py, Headers::given(headers)?)?);
        let object = |object: Py<PyAny>| Some(object).filter(|object| !object.is_none(py));
        let own = Own {
            topic,
            partition,
            offset,
            timestamp,
            timestamp_type,
            key: object(key),
            value: object(value),
            leader_epoch,
            tombstone,
            producer_id,
            producer_epoch,
            sequence,
            transactional,
            control,
        };
        Ok(Self { origin: Origin::Made(Box::new(own)), headers: cell })
    }

    /// Its place in the partition.
    #[getter]
    #[inline]
    fn offset(&self) -> i64 {
        match &self.origin {
            Origin::Read(raw) => raw.slot().offset,
            Origin::Made(own) => own.offset,
        }
    }

    /// Milliseconds since the epoch, −1 for none.
    #[getter]
    #[inline]
    fn timestamp(&self) -> i64 {
        match &self.origin {
            Origin::Read(raw) => raw.shared.effective_timestamp(raw.slot()),
            Origin::Made(own) => own.timestamp,
        }
    }

    /// The topic's name.
    #[getter]
    fn topic(&self, py: Python<'_>) -> Py<PyString> {
        match &self.origin {
            Origin::Read(raw) => raw.shared.topic.clone_ref(py),
            Origin::Made(own) => own.topic.clone_ref(py),
        }
    }

    /// The partition's number.
    #[getter]
    fn partition(&self) -> i32 {
        match &self.origin {
            Origin::Read(raw) => raw.shared.partition,
            Origin::Made(own) => own.partition,
        }
    }

    /// 0 CreateTime, 1 LogAppendTime, −1 none.
    #[getter]
    fn timestamp_type(&self) -> i8 {
        match &self.origin {
            Origin::Read(raw) if raw.slot().untimed => -1,
            Origin::Read(raw) => raw.shared.head.timestamp_type as i8,
            Origin::Made(own) => own.timestamp_type,
        }
    }

    /// bytes, or None.
    #[getter]
    fn key(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.part(py, |slot| slot.key, |own| &own.key)
    }

    /// bytes, or None.
    #[getter]
    fn value(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.part(py, |slot| slot.value, |own| &own.value)
    }

    /// The headers, in order.
    #[getter]
    fn headers(&self, py: Python<'_>) -> PyResult<Py<Headers>> {
        Ok(self.headers_ref(py)?.clone_ref(py))
    }

    /// Whether the record deletes its key.
    #[getter]
    fn tombstone(&self) -> bool {
        self.flag().unwrap_or_else(|| match &self.origin {
            Origin::Read(raw) => raw.slot().value.is_null(),
            Origin::Made(own) => own.value.is_none(),
        })
    }

    /// Leader epoch of the batch, None where unknown.
    #[getter]
    fn leader_epoch(&self) -> Option<i32> {
        match &self.origin {
            Origin::Read(raw) => Some(raw.shared.head.leader_epoch).filter(|epoch| *epoch >= 0),
            Origin::Made(own) => own.leader_epoch,
        }
    }

    /// Producer id, −1 for none.
    #[getter]
    fn producer_id(&self) -> i64 {
        match &self.origin {
            Origin::Read(raw) => raw.shared.head.producer_id,
            Origin::Made(own) => own.producer_id,
        }
    }

    /// Producer epoch, −1 for none.
    #[getter]
    fn producer_epoch(&self) -> i16 {
        match &self.origin {
            Origin::Read(raw) => raw.shared.head.producer_epoch,
            Origin::Made(own) => own.producer_epoch,
        }
    }

    /// Sequence number, −1 for none.
    #[getter]
    fn sequence(&self) -> i32 {
        match &self.origin {
            Origin::Read(raw) => raw.shared.sequence(raw.slot()),
            Origin::Made(own) => own.sequence,
        }
    }

    /// Whether it is part of a transaction.
    #[getter]
    fn transactional(&self) -> bool {
        match &self.origin {
            Origin::Read(raw) => raw.shared.head.is_transactional(),
            Origin::Made(own) => own.transactional,
        }
    }

    /// What a control record says; None for every other record.
    #[getter]
    fn control(&self) -> Option<Control> {
        match &self.origin {
            Origin::Read(raw) if raw.shared.head.is_control() => {
                let (slot, part) = (raw.slot(), |span: Span| raw.shared.bytes(span));
                let unreadable = CoreControl { version: -1, type_id: -1, coordinator_epoch: None };
                Some(Control(CoreControl::read(part(slot.key), part(slot.value)).unwrap_or(unreadable)))
            }
            Origin::Read(_) => None,
            Origin::Made(own) => own.control,
        }
    }

    fn __eq__(&self, py: Python<'_>, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let Ok(other) = other.cast::<Self>() else { return Ok(py.NotImplemented()) };
        let other = other.get();
        let plain = self.offset() == other.offset()
            && self.timestamp() == other.timestamp()
            && self.partition() == other.partition()
            && self.timestamp_type() == other.timestamp_type()
            && self.leader_epoch() == other.leader_epoch()
            && self.tombstone() == other.tombstone()
            && self.control() == other.control();
        let same = plain
            && self.topic(py).bind(py).as_any().eq(other.topic(py))?
            && self.key(py).into_pyobject(py)?.eq(other.key(py))?
            && self.value(py).into_pyobject(py)?.eq(other.value(py))?
            && self.headers_ref(py)?.get().same(other.headers_ref(py)?.get(), py)?;
        Ok(same.into_pyobject(py)?.to_owned().into_any().unbind())
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        // Long values would drown the rest.
        let part = |value: Option<Py<PyAny>>| -> PyResult<String> {
            let Some(value) = value else { return Ok("None".into()) };
            let value = value.bind(py);
            match value.cast::<PyBytes>() {
                Ok(bytes) if bytes.as_bytes().len() > 64 => {
                    let all = bytes.as_bytes();
                    let head = PyBytes::new(py, &all[..48]).repr()?;
                    Ok(format!("<{} bytes: {head}…>", all.len()))
                }
                _ => Ok(value.repr()?.to_string()),
            }
        };
        let headers = self.headers_ref(py)?.bind(py).call_method0("to_list")?.repr()?;
        let control =
            self.control().map_or_else(String::new, |control| format!(", control={}", control.__repr__()));
        Ok(format!(
            "ConsumerRecord(topic={}, partition={}, offset={}, timestamp={}, timestamp_type={}, key={}, value={}, \
             headers={headers}{control})",
            self.topic(py).bind(py).repr()?,
            self.partition(),
            self.offset(),
            self.timestamp(),
            self.timestamp_type(),
            part(self.key(py))?,
            part(self.value(py))?,
        ))
    }

    /// A record to be sent on, as a mirror does: key, value, timestamp and a copy of the headers, which is open. `topic`
    /// None keeps the topic; `partition` None lets the producer choose.
    #[pyo3(signature = (topic=None, *, partition=None))]
    fn to_producer_record<'py>(
        &self,
        py: Python<'py>,
        topic: Option<Py<PyString>>,
        partition: Option<i32>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let topic = topic.unwrap_or_else(|| self.topic(py));
        let timestamp = Some(self.timestamp()).filter(|timestamp| *timestamp >= 0);
        let (key, value, headers) = (self.key(py), self.value(py), self.headers(py)?);
        let args = (topic, value, key, headers, partition, timestamp, self.flag());
        py.import("magicbyte.records")?.getattr("ProducerRecord")?.call1(args)
    }

    /// A copy with other fields, by the constructor's names. Its headers are open and its own.
    #[pyo3(signature = (**changes))]
    fn replace<'py>(
        slf: &Bound<'py, Self>,
        changes: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let kwargs = slf.get().fields(slf.py())?;
        if let Some(changes) = changes {
            kwargs.update(changes.as_mapping())?;
        }
        slf.get_type().call((), Some(&kwargs))
    }

    #[pyo3(signature = (**changes))]
    fn __replace__<'py>(
        slf: &Bound<'py, Self>,
        changes: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        Self::replace(slf, changes)
    }

    /// A copy whose headers are open and its own.
    fn copy<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        Self::replace(slf, None)
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        let kwargs = slf.get().fields(slf.py())?;
        crate::gate::rebuild(slf.as_any(), pyo3::types::PyTuple::empty(slf.py()), &kwargs)
    }
}
