//! A shorter way to the attributes that loops read.
//!
//! The interpreter finds a getter by looking its name up in the type, then goes through the descriptor that it finds there,
//! at every access: that was a third of a loop over small records. The names that matter are few and interned, so their
//! addresses tell them apart. Every other name takes the ordinary way, and so does every name that is not interned.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyString;

/// Names that loops read, most wanted first.
pub(crate) struct Hot<const N: usize> {
    names: [&'static str; N],
    interned: PyOnceLock<[Py<PyString>; N]>,
}

impl<const N: usize> Hot<N> {
    pub(crate) const fn new(names: [&'static str; N]) -> Self {
        Self { names, interned: PyOnceLock::new() }
    }

    /// Which of them a name is.
    #[inline(always)]
    pub(crate) fn which(&self, name: &Bound<'_, PyAny>) -> Option<usize> {
        let py = name.py();
        let interned =
            self.interned.get_or_init(py, || self.names.map(|name| PyString::intern(py, name).unbind()));
        interned.iter().position(|known| known.as_ptr() == name.as_ptr())
    }
}

/// What `object` itself does.
#[cold]
pub(crate) fn ordinary(object: &Bound<'_, PyAny>, name: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
    static LOOKUP: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let py = object.py();
    let of_object = || Ok::<_, PyErr>(py.get_type::<PyAny>().getattr("__getattribute__")?.unbind());
    LOOKUP.get_or_try_init(py, of_object)?.call1(py, (object, name))
}
