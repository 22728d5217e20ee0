//! One header as Python sees it.

use magicbyte::header::key_text;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

use crate::part::bytes_of;

/// A record header (KIP-82): `key` is text and never None; `value` is bytes or None, which is not the same as empty.
///
/// `raw_key` has the key's bytes as they are stored, where those are not UTF-8 and `key` shows U+FFFD for them.
#[pyclass(frozen, module = "magicbyte")]
pub(crate) struct Header {
    #[pyo3(get)]
    pub(crate) key: Py<PyString>,
    #[pyo3(get)]
    pub(crate) value: Option<Py<PyBytes>>,
    pub(crate) raw: Option<Box<[u8]>>,
}

impl Header {
    /// From what a caller gave as key and value.
    pub(crate) fn given(key: &Bound<'_, PyAny>, value: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        let Ok(key) = key.cast::<PyString>() else {
            let name = key.get_type().name()?;
            return Err(PyTypeError::new_err(format!("a header key is a str, never {name}")));
        };
        // Lone surrogates are no UTF-8, so they could not be written.
        key.to_str()?;
        let value = match value {
            None => None,
            Some(value) if value.is_none() => None,
            Some(value) => match value.cast::<PyBytes>() {
                Ok(bytes) => Some(bytes.clone().unbind()),
                Err(_) => Some(PyBytes::new(value.py(), &bytes_of(value)?).unbind()),
            },
        };
        Ok(Self { key: key.clone().unbind(), value, raw: None })
    }

    pub(crate) fn key_bytes<'a>(&'a self, py: Python<'a>) -> PyResult<&'a [u8]> {
        match &self.raw {
            Some(raw) => Ok(raw),
            None => Ok(self.key.bind(py).to_str()?.as_bytes()),
        }
    }

    pub(crate) fn value_bytes<'a>(&'a self, py: Python<'a>) -> Option<&'a [u8]> {
        self.value.as_ref().map(|value| value.bind(py).as_bytes())
    }

    pub(crate) fn same(&self, other: &Self, py: Python<'_>) -> PyResult<bool> {
        Ok(self.key_bytes(py)? == other.key_bytes(py)? && self.value_bytes(py) == other.value_bytes(py))
    }
}

#[pymethods]
impl Header {
    #[new]
    #[pyo3(signature = (key, value=None))]
    fn new(key: &Bound<'_, PyAny>, value: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        Self::given(key, value)
    }

    /// The key's bytes.
    #[getter]
    fn raw_key<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(py, self.key_bytes(py)?))
    }

    fn __eq__(&self, py: Python<'_>, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let Ok(other) = other.cast::<Self>() else { return Ok(py.NotImplemented()) };
        Ok(self.same(other.get(), py)?.into_pyobject(py)?.to_owned().into_any().unbind())
    }

    fn __hash__(&self, py: Python<'_>) -> PyResult<isize> {
        let value = self.value.as_ref().map(|value| value.bind(py).clone());
        (PyBytes::new(py, self.key_bytes(py)?), value).into_pyobject(py)?.hash()
    }

    /// `key, value = header`.
    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, pyo3::types::PyIterator>> {
        (&self.key, &self.value).into_pyobject(py)?.try_iter()
    }

    const fn __len__(&self) -> usize {
        2
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let value = match &self.value {
            Some(value) => value.bind(py).repr()?.to_string(),
            None => "None".to_owned(),
        };
        Ok(format!("Header({}, {value})", self.key.bind(py).repr()?))
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        let (py, it) = (slf.py(), slf.get());
        let kind = slf.get_type();
        match &it.raw {
            None => Ok((kind.into_any(), (&it.key, &it.value).into_pyobject(py)?.into_any())),
            Some(raw) => {
                let args = (PyBytes::new(py, raw), &it.value).into_pyobject(py)?.into_any();
                Ok((kind.getattr("from_raw")?, args))
            }
        }
    }

    /// A header whose key is given as bytes, UTF-8 or not.
    #[staticmethod]
    #[pyo3(signature = (key, value=None))]
    fn from_raw(py: Python<'_>, key: &[u8], value: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        let text = key_text(key);
        let mut header = Self::given(PyString::new(py, &text).as_any(), value)?;
        if matches!(text, std::borrow::Cow::Owned(_)) {
            header.raw = Some(key.into());
        }
        Ok(header)
    }
}
