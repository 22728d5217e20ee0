//! Arrow columns to batches of records.

use std::sync::{Mutex, PoisonError};

use arrow_buffer::Buffer;
use arrow_ipc::reader::StreamDecoder;
use magicbyte::EncodeFlaw;
use magicbyte::arrow::{ColumnEncoder as Core, ColumnsError, Incoming, RowFlaw};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use pyo3::types::{PyBytes, PyDict};

use crate::error::UnsupportedCodecError;
use crate::gate::detached;
use crate::new_batch::fields;
use crate::part::bytes_of;

/// Topic, partition, and whole batches of it.
type Ready<'py> = (String, i32, Bound<'py, PyBytes>);

/// Encodes the rows of Arrow record batches, each partition's by themselves. They come as Arrow's IPC stream, whose
/// content is checked where it is read.
#[pyclass(frozen, module = "magicbyte._core")]
pub(crate) struct ColumnEncoder(Mutex<Core>);

/// What went wrong on the way in.
enum Refusal {
    Arrow(String),
    Columns(ColumnsError),
}

impl From<Refusal> for PyErr {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Arrow(text) => PyValueError::new_err(text),
            Refusal::Columns(error) => match &error {
                ColumnsError::Type { .. } => PyTypeError::new_err(error.to_string()),
                ColumnsError::Row { flaw: RowFlaw::Encode(EncodeFlaw::Codec(_)), .. } => {
                    UnsupportedCodecError::new_err(error.to_string())
                }
                _ => PyValueError::new_err(error.to_string()),
            },
        }
    }
}

#[pymethods]
impl ColumnEncoder {
    #[new]
    #[pyo3(signature = (format, batch_size, given, *, topic=None, partition=None, timestamp=-1, keep_offsets=false,
        base_offset=0, keep_producers=false))]
    #[allow(clippy::too_many_arguments)] // by keyword, from one place
    fn new(
        format: &str,
        batch_size: usize,
        given: &Bound<'_, PyDict>,
        topic: Option<String>,
        partition: Option<i32>,
        timestamp: i64,
        keep_offsets: bool,
        base_offset: i64,
        keep_producers: bool,
    ) -> PyResult<Self> {
        Ok(Self(Mutex::new(Core::new(Incoming {
            format: crate::encode::format(format)?,
            fields: fields(Some(given))?,
            batch_bytes: batch_size,
            topic,
            partition,
            timestamp,
            keep_offsets,
            base_offset,
            keep_producers,
        }))))
    }

    /// Takes the rows of an IPC stream; gives the batches that are full. After an error it is of no use.
    fn push<'py>(&self, py: Python<'py>, stream: &Bound<'py, PyAny>) -> PyResult<Vec<Ready<'py>>> {
        let mut bytes = Buffer::from(bytes_of(stream)?);
        let mut core = self.0.lock_py_attached(py).unwrap_or_else(PoisonError::into_inner);
        let core = &mut *core;
        detached(py, || {
            let mut decoder = StreamDecoder::new();
            let arrow = |error: arrow_schema::ArrowError| Refusal::Arrow(error.to_string());
            while let Some(batch) = decoder.decode(&mut bytes).map_err(arrow)? {
                core.push(&batch).map_err(Refusal::Columns)?;
            }
            Ok::<_, Refusal>(())
        })??;
        Ok(ready(py, core))
    }

    /// Gives the batches that are still open.
    fn finish<'py>(&self, py: Python<'py>) -> PyResult<Vec<Ready<'py>>> {
        let mut core = self.0.lock_py_attached(py).unwrap_or_else(PoisonError::into_inner);
        let core = &mut *core;
        detached(py, || core.finish())?.map_err(Refusal::Columns)?;
        Ok(ready(py, core))
    }
}

fn ready<'py>(py: Python<'py>, core: &mut Core) -> Vec<Ready<'py>> {
    let mut found = Vec::new();
    core.take(|it| found.push((it.topic.to_owned(), it.partition, PyBytes::new(py, it.bytes))));
    found
}
