//! The one gate through which work leaves the interpreter: per call or per batch, never per record.

use std::cell::Cell;
use std::io;
use std::time::{Duration, Instant};

use pyo3::prelude::*;

/// How long detached work may go on without a look at signals. A look waits for the interpreter, so it is not for free.
const PATIENCE: Duration = Duration::from_millis(100);

thread_local! {
    static LOOKED: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// Runs `work` detached from the interpreter, so that other Python threads go on, and lets Ctrl-C through after it.
pub(crate) fn detached<T: Send>(py: Python<'_>, work: impl FnOnce() -> T + Send) -> PyResult<T> {
    let done = released(py, work);
    py.check_signals()?;
    Ok(done)
}

/// The same for who puts away what was done, before he looks at signals himself.
pub(crate) fn released<T: Send>(py: Python<'_>, work: impl FnOnce() -> T + Send) -> T {
    LOOKED.set(Some(Instant::now()));
    py.detach(work)
}

/// Lets Ctrl-C through in the midst of detached work, as an error that becomes Python's again where it leaves.
pub(crate) fn interrupted() -> io::Result<()> {
    if LOOKED.get().is_some_and(|looked| looked.elapsed() < PATIENCE) {
        return Ok(());
    }
    LOOKED.set(Some(Instant::now()));
    Ok(Python::attach(|py| py.check_signals())?)
}

/// What `__reduce__` gives for an object that is made again by calling its type with keywords.
pub(crate) fn rebuild<'py>(
    object: &Bound<'py, PyAny>,
    args: Bound<'py, pyo3::types::PyTuple>,
    kwargs: &Bound<'py, pyo3::types::PyDict>,
) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
    let py = object.py();
    let partial = py.import("functools")?.getattr("partial")?;
    let make = partial.call((object.get_type(),), Some(kwargs))?;
    Ok((make, args.into_any()))
}
