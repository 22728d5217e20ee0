//! The one gate through which work leaves the interpreter: per call or per batch, never per record.

use pyo3::prelude::*;

/// Runs `work` detached from the interpreter, so that other Python threads go on, and lets Ctrl-C through after it.
pub(crate) fn detached<T: Send>(py: Python<'_>, work: impl FnOnce() -> T + Send) -> PyResult<T> {
    let done = py.detach(work);
    py.check_signals()?;
    Ok(done)
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
