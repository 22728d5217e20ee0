//! One header as Python sees it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use magicbyte::Header as CoreHeader;
use magicbyte::header::key_text;
use magicbyte::places::Span;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyString};

use crate::attributes::Hot;
use crate::header_iterator::HeaderPair;
use crate::keys::Keys;
use crate::part::bytes_of;
use crate::quick::{Fields, Loop, Quick};
use crate::slots::Shared;

/// A record header (KIP-82): `key` is text and never None; `value` is bytes or None, which is not the same as empty.
///
/// `raw_key` has the key's bytes as they are stored, where those are not UTF-8 and `key` shows U+FFFD for them.
#[pyclass(frozen, module = "magicbyte")]
pub(crate) struct Header(Origin);

enum Origin {
    Made {
        key: Py<PyString>,
        value: Option<Py<PyBytes>>,
        raw: Option<Box<[u8]>>,
    },
    /// Where key and value lie. An iterator that is the only one to hold a header moves it to the next one.
    Stored {
        shared: Arc<Shared>,
        key: AtomicU64,
        value: AtomicU64,
        /// Kept for the next `key, value = header`.
        pair: PyOnceLock<Py<HeaderPair>>,
    },
}

pub(crate) const fn packed(span: Span) -> u64 {
    (span.at as u64) << 32 | span.len as u32 as u64
}

pub(crate) fn unpacked(span: &AtomicU64) -> Span {
    let span = span.load(Ordering::Relaxed);
    Span { at: (span >> 32) as u32, len: span as i32 }
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
        Ok(Self(Origin::Made { key: key.clone().unbind(), value, raw: None }))
    }

    /// With objects of its own.
    pub(crate) fn made(py: Python<'_>, keys: &Keys, header: &CoreHeader<'_>) -> Self {
        let (key, utf8) = keys.text(py, header.key);
        let value = header.value.map(|value| PyBytes::new(py, value).unbind());
        Self(Origin::Made { key, value, raw: (!utf8).then(|| header.key.into()) })
    }

    pub(crate) fn stored(shared: &Arc<Shared>, key: Span, value: Span) -> Self {
        let (key, value) = (AtomicU64::new(packed(key)), AtomicU64::new(packed(value)));
        Self(Origin::Stored { shared: Arc::clone(shared), key, value, pair: PyOnceLock::new() })
    }

    /// Makes it another header of the same batch: for whoever alone holds it.
    #[inline]
    pub(crate) fn move_to(&self, new_key: Span, new_value: Span) {
        if let Origin::Stored { key, value, .. } = &self.0 {
            key.store(packed(new_key), Ordering::Relaxed);
            value.store(packed(new_value), Ordering::Relaxed);
        }
    }

    pub(crate) fn key_bytes<'a>(&'a self, py: Python<'a>) -> PyResult<&'a [u8]> {
        match &self.0 {
            Origin::Made { raw: Some(raw), .. } => Ok(raw),
            Origin::Made { key, .. } => Ok(key.bind(py).to_str()?.as_bytes()),
            Origin::Stored { shared, key, .. } => Ok(shared.bytes(unpacked(key)).unwrap_or_default()),
        }
    }

    pub(crate) fn value_bytes<'a>(&'a self, py: Python<'a>) -> Option<&'a [u8]> {
        match &self.0 {
            Origin::Made { value, .. } => value.as_ref().map(|value| value.bind(py).as_bytes()),
            Origin::Stored { shared, value, .. } => shared.bytes(unpacked(value)),
        }
    }

    pub(crate) fn same(&self, other: &Self, py: Python<'_>) -> PyResult<bool> {
        Ok(self.key_bytes(py)? == other.key_bytes(py)? && self.value_bytes(py) == other.value_bytes(py))
    }

    /// Whether the key, as text, is this one.
    pub(crate) fn has_key(&self, py: Python<'_>, key: &str) -> PyResult<bool> {
        Ok(is_key(self.key_bytes(py)?, key))
    }
}

/// Whether a key's bytes are read as this text.
pub(crate) fn is_key(bytes: &[u8], text: &str) -> bool {
    bytes == text.as_bytes() || (text.contains(char::REPLACEMENT_CHARACTER) && key_text(bytes) == text)
}

pub(crate) static HOT: Hot<2> = Hot::new(["key", "value"]);

/// A stored key that was made before.
#[inline(always)]
pub(crate) fn quick_key(shared: &Shared, key: Span) -> Quick<'_> {
    let known = shared.bytes(key).and_then(|key| shared.keys.known(key));
    known.map_or(Quick::No, |text| Quick::Kept(text.as_any()))
}

impl Fields for Header {
    #[inline(always)]
    fn field(&self, _py: Python<'_>, name: &Bound<'_, PyAny>) -> Quick<'_> {
        match (&self.0, HOT.which(name)) {
            (_, None) => Quick::No,
            (Origin::Stored { shared, key, .. }, Some(0)) => quick_key(shared, unpacked(key)),
            (Origin::Stored { shared, value, .. }, _) => Quick::Bytes(shared.bytes(unpacked(value))),
            (Origin::Made { key, .. }, Some(0)) => Quick::Kept(key.as_any()),
            (Origin::Made { value: Some(value), .. }, _) => Quick::Kept(value.as_any()),
            (Origin::Made { value: None, .. }, _) => Quick::Bytes(None),
        }
    }
}

/// `key, value = header`.
impl Loop for Header {
    #[inline(always)]
    fn quick_iter(&self, py: Python<'_>) -> Quick<'_> {
        let Origin::Stored { key, value, pair, .. } = &self.0 else { return Quick::No };
        HeaderPair::again(py, unpacked(key), unpacked(value), pair)
            .map_or(Quick::No, |it| Quick::Owned(it.into_any()))
    }

    fn iter(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        match &self.0 {
            Origin::Made { key, value, .. } => {
                Ok((key, value).into_pyobject(py)?.try_iter()?.into_any().unbind())
            }
            Origin::Stored { shared, key, value, pair } => {
                HeaderPair::over(py, shared, unpacked(key), unpacked(value), pair)
            }
        }
    }
}

#[pymethods]
impl Header {
    #[new]
    #[pyo3(signature = (key, value=None))]
    fn new(key: &Bound<'_, PyAny>, value: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        Self::given(key, value)
    }

    /// Text.
    #[getter]
    #[inline]
    pub(crate) fn key(&self, py: Python<'_>) -> Py<PyString> {
        match &self.0 {
            Origin::Made { key, .. } => key.clone_ref(py),
            Origin::Stored { shared, key, .. } => {
                shared.keys.text(py, shared.bytes(unpacked(key)).unwrap_or_default()).0
            }
        }
    }

    /// bytes, or None.
    #[getter]
    #[inline]
    pub(crate) fn value(&self, py: Python<'_>) -> Option<Py<PyBytes>> {
        match &self.0 {
            Origin::Made { value, .. } => value.as_ref().map(|value| value.clone_ref(py)),
            Origin::Stored { shared, value, .. } => shared.python(py, unpacked(value)).map(Bound::unbind),
        }
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
        (PyBytes::new(py, self.key_bytes(py)?), self.value(py)).into_pyobject(py)?.hash()
    }

    const fn __len__(&self) -> usize {
        2
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let value = match self.value(py) {
            Some(value) => value.bind(py).repr()?.to_string(),
            None => "None".to_owned(),
        };
        Ok(format!("Header({}, {value})", self.key(py).bind(py).repr()?))
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        let (py, it) = (slf.py(), slf.get());
        let (kind, bytes) = (slf.get_type(), it.key_bytes(py)?);
        if std::str::from_utf8(bytes).is_ok() {
            return Ok((kind.into_any(), (it.key(py), it.value(py)).into_pyobject(py)?.into_any()));
        }
        let args = (PyBytes::new(py, bytes), it.value(py)).into_pyobject(py)?.into_any();
        Ok((kind.getattr("from_raw")?, args))
    }

    /// A header whose key is given as bytes, UTF-8 or not.
    #[staticmethod]
    #[pyo3(signature = (key, value=None))]
    fn from_raw(py: Python<'_>, key: &[u8], value: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        let text = key_text(key);
        let mut header = Self::given(PyString::new(py, &text).as_any(), value)?;
        if let (std::borrow::Cow::Owned(_), Origin::Made { raw, .. }) = (text, &mut header.0) {
            *raw = Some(key.into());
        }
        Ok(header)
    }
}
