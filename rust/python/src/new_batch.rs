//! What a caller gives to be written: the fields of a batch by their names, and records of three kinds.

use magicbyte::{BatchFields, Codec, Header as CoreHeader, NewHeaders, NewRecord, TimestampType};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyString};

use crate::batch::Record;
use crate::consumer_record::ConsumerRecord;
use crate::header::Header;
use crate::headers::Headers;
use crate::part::bytes_of;

/// A codec's name.
pub(crate) fn codec(name: &str) -> PyResult<Codec> {
    Codec::from_name(name).ok_or_else(|| {
        let known: Vec<_> = (0..=4).filter_map(Codec::from_id).map(Codec::name).collect();
        PyValueError::new_err(format!("unknown codec {name:?}; known are {}", known.join(", ")))
    })
}

/// The fields of a batch by the names that `RecordBatch` has for them. What is None, or not there, is computed.
pub(crate) fn fields(given: Option<&Bound<'_, PyDict>>) -> PyResult<BatchFields> {
    let mut fields = BatchFields::default();
    let Some(given) = given else { return Ok(fields) };
    for (name, value) in given {
        let name = name.cast_into::<PyString>()?;
        if !value.is_none() {
            field(&mut fields, name.to_str()?, &value)
                .map_err(|error| named(given.py(), name.to_str().unwrap_or_default(), error))?;
        }
    }
    Ok(fields)
}

/// The error with the field's name before its text, as Python's own for a wrong argument.
fn named(py: Python<'_>, name: &str, error: PyErr) -> PyErr {
    let text = error.value(py).to_string();
    let text = if text.starts_with("unknown ") { text } else { format!("{name}: {text}") };
    PyErr::from_type(error.get_type(py), text)
}

fn field(fields: &mut BatchFields, name: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
    match name {
        "base_offset" => fields.base_offset = value.extract()?,
        "last_offset_delta" => fields.last_offset_delta = value.extract()?,
        "partition_leader_epoch" | "leader_epoch" => fields.leader_epoch = value.extract()?,
        "codec" => fields.codec = codec(value.extract()?)?,
        "level" => fields.level = value.extract()?,
        "timestamp_type" => {
            fields.timestamp_type = match value.extract::<i8>()? {
                1 => TimestampType::LogAppendTime,
                0 | -1 => TimestampType::CreateTime,
                other => {
                    let text = format!("{other} is none of 0 (create), 1 (append), -1 (none)");
                    return Err(PyValueError::new_err(text));
                }
            }
        }
        "base_timestamp" => fields.base_timestamp = value.extract()?,
        "max_timestamp" => fields.max_timestamp = value.extract()?,
        "producer_id" => fields.producer_id = value.extract()?,
        "producer_epoch" => fields.producer_epoch = value.extract()?,
        "base_sequence" => fields.base_sequence = value.extract()?,
        "transactional" => fields.transactional = value.is_truthy()?,
        "control" => fields.control = value.is_truthy()?,
        // The flag, or the horizon itself, which stands in the base timestamp's place.
        "delete_horizon" if value.is_instance_of::<PyBool>() => fields.delete_horizon = value.is_truthy()?,
        "delete_horizon" => {
            fields.base_timestamp = value.extract()?;
            fields.delete_horizon = true;
        }
        "ignore_message_attributes" => fields.ignore_message_attributes = value.is_truthy()?,
        _ => return Err(PyTypeError::new_err("a batch has no such field")),
    }
    Ok(())
}

/// The fields by their names; what is to be computed is left out.
pub(crate) fn names(fields: &BatchFields, into: &Bound<'_, PyDict>) -> PyResult<()> {
    let optional = |name: &str, value: Option<i64>| value.map_or(Ok(()), |value| into.set_item(name, value));
    optional("base_offset", fields.base_offset)?;
    optional("last_offset_delta", fields.last_offset_delta.map(i64::from))?;
    optional("base_timestamp", fields.base_timestamp)?;
    optional("max_timestamp", fields.max_timestamp)?;
    optional("level", fields.level.map(i64::from))?;
    into.set_item("partition_leader_epoch", fields.leader_epoch)?;
    into.set_item("codec", fields.codec.name())?;
    into.set_item("timestamp_type", fields.timestamp_type as i8)?;
    into.set_item("producer_id", fields.producer_id)?;
    into.set_item("producer_epoch", fields.producer_epoch)?;
    into.set_item("base_sequence", fields.base_sequence)?;
    into.set_item("transactional", fields.transactional)?;
    into.set_item("control", fields.control)?;
    into.set_item("delete_horizon", fields.delete_horizon)?;
    into.set_item("ignore_message_attributes", fields.ignore_message_attributes)
}

/// Hands `record` on as the core has it. A `ConsumerRecord` and a `Record` keep their offsets; whatever else has a
/// producer record's attributes gets `next`.
pub(crate) fn with_record<T>(
    record: &Bound<'_, PyAny>,
    next: i64,
    work: impl FnOnce(&NewRecord<'_>) -> PyResult<T>,
) -> PyResult<T> {
    let py = record.py();
    if let Ok(record) = record.cast::<ConsumerRecord>() {
        return record.get().with_new(py, work);
    }
    if let Ok(record) = record.cast::<Record>() {
        return record.get().with_new(py, work);
    }
    let timestamp: Option<i64> = record.getattr(intern!(py, "timestamp"))?.extract()?;
    let tombstone: Option<bool> = match record.getattr_opt(intern!(py, "tombstone"))? {
        Some(flag) => flag.extract()?,
        None => None,
    };
    let key = Part::of(&record.getattr(intern!(py, "key"))?, "key")?;
    let value = Part::of(&record.getattr(intern!(py, "value"))?, "value")?;
    let headers = record.getattr(intern!(py, "headers"))?;
    let made;
    let headers = match headers.cast::<Headers>() {
        Ok(headers) => headers.get(),
        Err(_) => {
            made = Headers::given(Some(&headers))?;
            &made
        }
    };
    let new = NewRecord {
        offset: next,
        timestamp: timestamp.unwrap_or(-1),
        key: key.bytes(),
        value: value.bytes(),
        tombstone,
        ..NewRecord::default()
    };
    with_headers(py, headers, new, work)
}

/// Hands on `new` with these headers: as they are encoded where nobody has asked for them yet.
pub(crate) fn with_headers<T>(
    py: Python<'_>,
    headers: &Headers,
    new: NewRecord<'_>,
    work: impl FnOnce(&NewRecord<'_>) -> PyResult<T>,
) -> PyResult<T> {
    headers.with_raw_or_list(py, |either| match either {
        Ok(raw) => work(&NewRecord { headers: NewHeaders::Encoded(raw), ..new }),
        Err(list) => {
            let mut headers = Vec::with_capacity(list.len());
            for header in list {
                let header: &Header = header.get();
                headers.push(CoreHeader { key: header.key_bytes(py)?, value: header.value_bytes(py) });
            }
            work(&NewRecord { headers: NewHeaders::List(&headers), ..new })
        }
    })
}

/// A key or value that a caller gave.
pub(crate) enum Part<'py> {
    Null,
    Own(Bound<'py, PyBytes>),
    Copied(bytes::Bytes),
}

impl<'py> Part<'py> {
    pub(crate) fn of(given: &Bound<'py, PyAny>, name: &str) -> PyResult<Self> {
        if given.is_none() {
            return Ok(Self::Null);
        }
        if let Ok(bytes) = given.cast::<PyBytes>() {
            return Ok(Self::Own(bytes.clone()));
        }
        let copied = bytes_of(given)
            .map_err(|error| PyTypeError::new_err(format!("its {name}: {}", error.value(given.py()))))?;
        Ok(Self::Copied(copied))
    }

    pub(crate) fn bytes(&self) -> Option<&[u8]> {
        match self {
            Self::Null => None,
            Self::Own(bytes) => Some(bytes.as_bytes()),
            Self::Copied(bytes) => Some(bytes),
        }
    }
}
