//! Header keys as Python text: a log has few distinct ones, so each is made once and used again.

use std::collections::HashMap;
use std::sync::Mutex;

use magicbyte::header::key_text;
use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use pyo3::types::PyString;

/// Distinct keys that are remembered; a log with more than that gains nothing from it.
const MOST: usize = 256;
/// Longer keys are not remembered.
const LONGEST: usize = 64;

/// Makes header keys.
#[derive(Debug, Default)]
pub(crate) struct Keys(Mutex<HashMap<Box<[u8]>, Py<PyString>>>);

impl Keys {
    /// The key as text, U+FFFD standing for what is not UTF-8, and whether its bytes were UTF-8.
    pub(crate) fn text(&self, py: Python<'_>, key: &[u8]) -> (Py<PyString>, bool) {
        if let Some(found) =
            self.0.lock_py_attached(py).ok().and_then(|known| known.get(key).map(|k| k.clone_ref(py)))
        {
            return (found, true);
        }
        let Ok(text) = std::str::from_utf8(key) else {
            return (PyString::new(py, &key_text(key)).unbind(), false);
        };
        let made = PyString::new(py, text).unbind();
        if let Ok(mut known) = self.0.lock_py_attached(py)
            && known.len() < MOST
            && key.len() <= LONGEST
        {
            known.insert(key.into(), made.clone_ref(py));
        }
        (made, true)
    }
}
