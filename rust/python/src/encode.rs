//! Records to bytes.

use std::sync::{Mutex, PoisonError};

use magicbyte::{
    BatchFields, Batcher, Decompressor, EncodeError, EncodeFlaw, Encoder, Format, NewRecord, Sink, Written,
};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use pyo3::types::{PyBytes, PyDict, PyIterator};

use crate::batch::RecordBatch;
use crate::error::{Failure, UnsupportedCodecError};
use crate::gate::detached;
use crate::new_batch::{fields, with_record};

/// A format's name.
pub(crate) fn format(name: &str) -> PyResult<Format> {
    Format::from_name(name).ok_or_else(|| {
        let known: Vec<_> = Format::ALL.iter().map(|format| format.name()).collect();
        PyValueError::new_err(format!("unknown format {name:?}; to be written are {}", known.join(", ")))
    })
}

/// `before` is what stands before the text, such as the position in a source.
pub(crate) fn refused(before: &str, error: EncodeError) -> PyErr {
    let text = format!("{before}{error}");
    match error.flaw {
        EncodeFlaw::Codec(_) => UnsupportedCodecError::new_err(text),
        _ => PyValueError::new_err(text),
    }
}

/// The encoder of this thread is taken for a batch and put back, so that its codec contexts are used again. Python code
/// that runs meanwhile and encodes too gets another.
mod kept {
    use std::cell::Cell;

    use magicbyte::Encoder;

    thread_local! {
        static KEPT: Cell<Option<Encoder>> = const { Cell::new(None) };
    }

    pub(super) fn take() -> Encoder {
        KEPT.take().unwrap_or_default()
    }

    pub(super) fn put(encoder: Encoder) {
        KEPT.set(Some(encoder));
    }
}

/// Writes one batch.
fn batch<T>(work: impl FnOnce(&mut Encoder, &mut Vec<u8>) -> PyResult<T>) -> PyResult<(T, Vec<u8>)> {
    let (mut encoder, mut out) = (kept::take(), Vec::new());
    let done = work(&mut encoder, &mut out);
    kept::put(encoder);
    Ok((done?, out))
}

/// Records as one batch. Records without an offset count on from `base_offset`.
#[pyfunction]
#[pyo3(signature = (records, format, base_offset, given))]
pub(crate) fn encode<'py>(
    py: Python<'py>,
    records: &Bound<'py, PyAny>,
    format: &str,
    base_offset: i64,
    given: &Bound<'py, PyDict>,
) -> PyResult<Bound<'py, PyBytes>> {
    let (format, mut fields) = (self::format(format)?, fields(Some(given))?);
    let mut records = records.try_iter()?.peekable();
    if records.peek().is_none() {
        fields.base_offset = Some(base_offset);
    }
    let (_, out) = batch(|encoder, out| {
        let mut writer = encoder.begin(format, &fields, out).map_err(|error| refused("", error))?;
        let mut next = base_offset;
        for (at, record) in (0..).zip(records) {
            let record = record?;
            let pushed = with_record(&record, next, |new| {
                next = new.offset.wrapping_add(1);
                writer.push(new).map_err(|error| refused("", error))
            });
            pushed.map_err(|error| of_record(py, at, error))?;
        }
        detached(py, || writer.finish())?.map_err(|error| refused("", error))
    })?;
    Ok(PyBytes::new(py, &out))
}

/// Names the record in an error that was not the core's.
fn of_record(py: Python<'_>, at: u64, error: PyErr) -> PyErr {
    if !error.is_instance_of::<PyTypeError>(py) {
        return error;
    }
    PyTypeError::new_err(format!("record {at}: {}", error.value(py)))
}

/// A batch as bytes: its fields and its records as they are.
#[pyfunction]
pub(crate) fn encode_batch<'py>(
    py: Python<'py>,
    batch: &Bound<'py, RecordBatch>,
    format: &str,
    level: Option<i32>,
) -> PyResult<Bound<'py, PyBytes>> {
    let (batch, format) = (batch.get(), self::format(format)?);
    let mut fields = batch.fields()?;
    fields.level = level.or(fields.level);
    let (_, out) = self::batch(|encoder, out| {
        if let Some(made) = &batch.made {
            let mut writer = encoder.begin(format, &fields, out).map_err(|error| refused("", error))?;
            for record in &made.records {
                let record = record.bind(py).get();
                record.with_new(py, |new| writer.push(new).map_err(|error| refused("", error)))?;
            }
            return writer.finish().map_err(|error| refused("", error));
        }
        detached(py, || stored(batch, format, &fields, encoder, out))?
    })?;
    Ok(PyBytes::new(py, &out))
}

/// Writes a batch that was read.
fn stored(
    batch: &RecordBatch,
    format: Format,
    fields: &BatchFields,
    encoder: &mut Encoder,
    out: &mut Vec<u8>,
) -> PyResult<Written> {
    struct Push<'w, 'e> {
        writer: &'w mut magicbyte::Writer<'e>,
        attributes: bool,
        refused: Option<EncodeError>,
    }
    impl<'a> Sink<'a> for Push<'_, '_> {
        fn record(&mut self, record: &magicbyte::Record<'a>) -> bool {
            let mut new = NewRecord::from(record);
            if !self.attributes {
                new.attributes = 0;
            }
            if self.refused.is_none() {
                self.refused = self.writer.push(&new).err();
            }
            false
        }

        fn header(&mut self, _key: &'a [u8], _value: Option<&'a [u8]>) {}
    }
    let corrupt = |error| Failure::corrupt(error, batch.path.clone());
    let mut buffer = magicbyte::Buffer::new();
    let payload =
        batch.entry().open(&mut Decompressor::new(), &batch.limits, &mut buffer).map_err(corrupt)?;
    let mut writer = encoder.begin(format, fields, out).map_err(|error| refused("", error))?;
    let both = [batch.head.format, format].map(|format| matches!(format, Format::V2 | Format::V3));
    let mut push = Push { writer: &mut writer, attributes: both == [true, true], refused: None };
    payload.decode(&batch.limits, &mut push).map_err(corrupt)?;
    match push.refused {
        Some(error) => Err(refused("", error)),
        None => writer.finish().map_err(|error| refused("", error)),
    }
}

/// What a stream of batches stands at.
struct Stream {
    records: Py<PyIterator>,
    batcher: Batcher,
    next_offset: i64,
    index: u64,
    ended: bool,
}

/// Iterates batches, each as bytes, formed from a stream of records by size as a producer forms them.
#[pyclass(frozen, module = "magicbyte._core")]
pub(crate) struct EncodeIterator(Mutex<Stream>);

#[pymethods]
impl EncodeIterator {
    #[new]
    fn new(
        records: &Bound<'_, PyAny>,
        format: &str,
        base_offset: i64,
        batch_size: usize,
        given: &Bound<'_, PyDict>,
    ) -> PyResult<Self> {
        Ok(Self(Mutex::new(Stream {
            records: records.try_iter()?.unbind(),
            batcher: Batcher::new(self::format(format)?, fields(Some(given))?, batch_size),
            next_offset: base_offset,
            index: 0,
            ended: false,
        })))
    }

    const fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let mut stream = self.0.lock_py_attached(py).unwrap_or_else(PoisonError::into_inner);
        let done = stream.batch(py);
        stream.ended = stream.ended || done.is_err();
        let out = done?;
        Ok((!out.is_empty()).then(|| PyBytes::new(py, &out)))
    }
}

impl Stream {
    /// Reads records until a batch is full; empty at the end.
    fn batch(&mut self, py: Python<'_>) -> PyResult<Vec<u8>> {
        let Self { records, batcher, next_offset, index, ended } = self;
        let mut out = Vec::new();
        let records = records.bind(py);
        while out.is_empty() && !*ended {
            let Some(record) = records.clone().next().transpose()? else {
                *ended = true;
                detached(py, || batcher.finish(&mut out))?.map_err(|error| refused("", error))?;
                break;
            };
            let pushed = with_record(&record, *next_offset, |new| {
                *next_offset = new.offset.wrapping_add(1);
                // The record's index in the stream, not in its batch.
                let counted = |error: EncodeError| match error.record {
                    Some(_) => error.flaw.of(*index),
                    None => error,
                };
                batcher.push(new, &mut out).map_err(|error| refused("", counted(error)))
            });
            pushed.map_err(|error| of_record(py, *index, error))?;
            *index += 1;
        }
        Ok(out)
    }
}
