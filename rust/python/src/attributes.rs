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

    /// Finds their addresses, when the module is made.
    pub(crate) fn learn(&self, py: Python<'_>) {
        self.interned.get_or_init(py, || self.names.map(|name| PyString::intern(py, name).unbind()));
    }

    /// Which of them a name is.
    #[inline(always)]
    pub(crate) fn which(&self, name: &Bound<'_, PyAny>) -> Option<usize> {
        let interned = self.interned.get(name.py())?;
        interned.iter().position(|known| known.as_ptr() == name.as_ptr())
    }
}
