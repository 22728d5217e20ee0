//! Arrow columns over the PyCapsule interface.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{RecordBatch, RecordBatchIterator, RecordBatchReader};
use arrow_schema::ffi::FFI_ArrowSchema;
use arrow_schema::{ArrowError, SchemaRef};
use magicbyte::arrow::{Builder, Columnar, Pool, Pulled, Shape};
use pyo3::exceptions::PyRuntimeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::error::Failure;
use crate::gate::detached;
use crate::iterators::Walk;
use crate::reader::Plan;

/// Buffers go round between all scans of the process.
fn pool() -> Arc<Pool> {
    static POOL: OnceLock<Arc<Pool>> = OnceLock::new();
    Arc::clone(POOL.get_or_init(Pool::new))
}

/// The first failure of a stream: Arrow's C interface carries only its text across.
type Slip = Arc<Mutex<Option<Failure>>>;

/// Reads a plan into record batches.
struct Stream {
    walk: Walk,
    columnar: Columnar,
    schema: SchemaRef,
    current: Option<usize>,
    pending: Option<Failure>,
    slip: Slip,
}

impl Stream {
    fn new(plan: Arc<Plan>, shape: Shape, slip: Slip) -> Self {
        let schema = shape.schema();
        let builder = Builder::new(shape, magicbyte::Selection::default(), pool());
        let columnar = Columnar::new(builder, plan.options.limits, plan.options.mode);
        Self { walk: Walk::new(plan), columnar, schema, current: None, pending: None, slip }
    }

    fn pull(&mut self) -> Result<Option<RecordBatch>, Failure> {
        if let Some(failure) = self.pending.take() {
            return Err(failure);
        }
        loop {
            match self.step() {
                Ok(true) => {}
                Ok(false) => return self.take(),
                // What came before the failure is handed out first.
                Err(failure) => {
                    self.walk.stop();
                    self.pending = Some(failure);
                    return match self.take()? {
                        Some(batch) => Ok(Some(batch)),
                        None => self.pending.take().map_or(Ok(None), Err),
                    };
                }
            }
        }
    }

    fn take(&mut self) -> Result<Option<RecordBatch>, Failure> {
        self.columnar.take().map_err(|error| Failure { error, path: None })
    }

    /// Reads on. `false`: there is a record batch to hand out, or nothing is left.
    fn step(&mut self) -> Result<bool, Failure> {
        if self.walk.entries()?.is_none() {
            return Ok(false);
        }
        let part = self.walk.part();
        if self.current != Some(part) {
            self.current = Some(part);
            let selection = self.walk.plan.selection(part);
            let it = &self.walk.plan.parts[part];
            let builder = self.columnar.builder();
            builder.set_partition(&it.topic, it.partition);
            builder.set_selection(selection);
            self.columnar.set_judge(self.walk.judge().cloned());
        }
        let Some(entries) = self.walk.entries()? else { return Ok(false) };
        let pulled = self.columnar.pull(entries);
        for damage in self.columnar.found.drain(..) {
            self.walk.plan.note(part, &damage);
        }
        match pulled {
            Ok(Pulled::Full) => Ok(false),
            Ok(Pulled::End) => {
                self.walk.close_part();
                Ok(true)
            }
            Ok(Pulled::Behind { head, position, first }) => {
                self.walk.leave_behind(&head, position, !first);
                Ok(true)
            }
            Err(error) => Err(Failure { error, path: self.walk.plan.path(part) }),
        }
    }
}

impl Iterator for Stream {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.pull() {
            Ok(batch) => batch.map(Ok),
            Err(failure) => {
                let text = failure.to_string();
                *self.slip.lock().unwrap_or_else(PoisonError::into_inner) = Some(failure);
                Some(Err(ArrowError::ExternalError(text.into())))
            }
        }
    }
}

impl RecordBatchReader for Stream {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

/// The records of a log as Arrow columns, in record batches of bounded size.
///
/// Anything that reads the Arrow PyCapsule interface takes it as it is: `pyarrow.table(scan)`, `polars.DataFrame(scan)`,
/// DuckDB by name. Each use reads anew. In pyarrow's hands an error on the way carries only its text; `to_arrow`,
/// `count` and iteration raise the error itself.
#[pyclass(frozen, module = "magicbyte")]
pub(crate) struct Scan {
    plan: Arc<Plan>,
    shape: Shape,
}

impl Scan {
    pub(crate) const fn new(plan: Arc<Plan>, shape: Shape) -> Self {
        Self { plan, shape }
    }

    fn stream(&self) -> Stream {
        Stream::new(Arc::clone(&self.plan), self.shape.clone(), Slip::default())
    }
}

fn capsule<'py>(
    py: Python<'py>,
    reader: Box<dyn RecordBatchReader + Send>,
) -> PyResult<Bound<'py, PyCapsule>> {
    PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(reader), c"arrow_array_stream")
}

/// The module pyarrow, or an error that names the extra that brings it.
fn pyarrow(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    py.import("magicbyte._extras")?.call_method0("pyarrow")
}

/// Hands a reader over to pyarrow, as its own.
fn to_pyarrow<'py>(
    py: Python<'py>,
    reader: impl RecordBatchReader + Send + 'static,
) -> PyResult<Bound<'py, PyAny>> {
    let holder = Py::new(py, Holder(Mutex::new(Some(Box::new(reader)))))?;
    pyarrow(py)?.getattr("RecordBatchReader")?.call_method1("from_stream", (holder,))
}

/// Something with `__arrow_c_stream__`, once.
#[pyclass(frozen, module = "magicbyte._core")]
struct Holder(Mutex<Option<Box<dyn RecordBatchReader + Send>>>);

#[pymethods]
impl Holder {
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Py<PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        let reader = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        capsule(py, reader.ok_or_else(|| PyRuntimeError::new_err("this stream was read already"))?)
    }
}

#[pymethods]
impl Scan {
    /// The Arrow C stream interface. Another schema than its own is not made to order: the consumer casts.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Py<PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        capsule(py, Box::new(self.stream()))
    }

    /// The Arrow C schema interface.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = FFI_ArrowSchema::try_from(self.shape.schema().as_ref())
            .map_err(|error| PyRuntimeError::new_err(error.to_string()))?;
        PyCapsule::new_with_value(py, schema, c"arrow_schema")
    }

    /// The schema, as pyarrow's.
    #[getter]
    fn schema<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        pyarrow(slf.py())?.call_method1("schema", (slf,))
    }

    /// Reads everything into one `pyarrow.Table`.
    fn to_arrow<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let mut stream = self.stream();
        let mut ready = Vec::new();
        while let Some(batch) = detached(py, || stream.pull())?? {
            ready.push(batch);
        }
        let ready = RecordBatchIterator::new(ready.into_iter().map(Ok), self.shape.schema());
        to_pyarrow(py, ready)?.call_method0("read_all")
    }

    /// How many records there are, all of them read.
    fn count(&self, py: Python<'_>) -> PyResult<u64> {
        let shape = Shape { columns: Vec::new(), ..self.shape.clone() };
        let mut stream = Stream::new(Arc::clone(&self.plan), shape, Slip::default());
        let mut count = 0;
        while let Some(batch) = detached(py, || stream.pull())?? {
            count += batch.num_rows() as u64;
        }
        Ok(count)
    }

    /// Iterates `pyarrow.RecordBatch`es.
    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let ready = Ready { schema: self.shape.schema(), batch: Arc::default() };
        let batch = Arc::clone(&ready.batch);
        let reader = to_pyarrow(py, ready)?.unbind();
        // A generator is what `for` and early `break` are used to.
        Ok(Py::new(py, Batches { stream: Mutex::new(self.stream()), batch, reader })?
            .into_bound(py)
            .into_any())
    }

    fn __repr__(&self) -> String {
        let names: Vec<_> = self.shape.columns.iter().map(|column| column.name()).collect();
        format!("Scan({} parts, columns={names:?})", self.plan.parts.len())
    }
}

/// A record batch on its way to pyarrow, which asks for it while it is detached from the interpreter. It is read before: nothing
/// that may attach can run then, since PyO3 does not know that somebody else has detached the thread.
struct Ready {
    schema: SchemaRef,
    batch: Arc<Mutex<Option<RecordBatch>>>,
}

impl Iterator for Ready {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.batch.lock().unwrap_or_else(PoisonError::into_inner).take().map(Ok)
    }
}

impl RecordBatchReader for Ready {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

/// Iterates the record batches of a scan, by way of one reader of pyarrow's, which takes the schema once.
#[pyclass(frozen, module = "magicbyte._core")]
struct Batches {
    stream: Mutex<Stream>,
    batch: Arc<Mutex<Option<RecordBatch>>>,
    reader: Py<PyAny>,
}

#[pymethods]
impl Batches {
    const fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        use pyo3::sync::MutexExt;
        let mut guard = self.stream.lock_py_attached(py).unwrap_or_else(PoisonError::into_inner);
        let stream = &mut *guard;
        let Some(batch) = detached(py, || stream.pull())?? else { return Ok(None) };
        *self.batch.lock().unwrap_or_else(PoisonError::into_inner) = Some(batch);
        self.reader.bind(py).call_method0(intern!(py, "read_next_batch")).map(Some)
    }
}
