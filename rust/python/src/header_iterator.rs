//! A loop over stored headers, which makes as few objects as it can.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use magicbyte::bytes::Reader;
use magicbyte::{Header as CoreHeader, HeaderLayout};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

use crate::header::{Header, packed, unpacked};
use crate::headers::Raw;
use crate::slots::{Shared, Span, alone};

/// Iterates the headers of a stored record. Of the headers that it made it keeps two, and a header that nobody else holds
/// any more is made the next one instead of a new object, as `zip` does with its tuples.
///
/// Nothing here is locked: with the GIL no other thread runs between a load and its store, as no Python code is called.
/// Without it nothing is used again (`alone`), and threads in one loop may get a header twice, as from a list's iterator.
#[pyclass(frozen, module = "magicbyte._core")]
pub(crate) struct HeaderIterator {
    shared: Arc<Shared>,
    layout: HeaderLayout,
    at: AtomicU32,
    end: AtomicU32,
    turn: AtomicU32,
    kept: [PyOnceLock<Py<Header>>; 2],
}

impl HeaderIterator {
    /// Over the headers of `raw`; `kept` is used if nobody is in a loop with it.
    #[inline]
    pub(crate) fn over(py: Python<'_>, raw: &Raw, kept: &PyOnceLock<Py<Self>>) -> PyResult<Py<PyAny>> {
        let span = raw.slot().headers;
        let end = span.at + span.len.unsigned_abs();
        if let Some(it) = kept.get(py)
            && alone(it, py)
            && it.get().layout == raw.slot().layout
        {
            it.get().at.store(span.at, Ordering::Relaxed);
            it.get().end.store(end, Ordering::Relaxed);
            return Ok(it.clone_ref(py).into_any());
        }
        let made = Py::new(
            py,
            Self {
                shared: Arc::clone(&raw.shared),
                layout: raw.slot().layout,
                at: AtomicU32::new(span.at),
                end: AtomicU32::new(end),
                turn: AtomicU32::new(0),
                kept: [PyOnceLock::new(), PyOnceLock::new()],
            },
        )?;
        let _ = kept.set(py, made.clone_ref(py));
        Ok(made.into_any())
    }
}

#[pymethods]
impl HeaderIterator {
    const fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Py<Header>>> {
        let (at, end) = (self.at.load(Ordering::Relaxed), self.end.load(Ordering::Relaxed));
        let block = &*self.shared.block;
        let Some(bytes) = block.get(at as usize..end as usize).filter(|bytes| !bytes.is_empty()) else {
            return Ok(None);
        };
        let mut input = Reader::new(bytes);
        // Checked when the record was read.
        let Ok(header) = CoreHeader::read(&mut input, self.layout) else { return Ok(None) };
        self.at.store(end - input.rest().len() as u32, Ordering::Relaxed);
        let place = |part: &[u8]| Span {
            at: (part.as_ptr() as usize).wrapping_sub(block.as_ptr() as usize) as u32,
            len: part.len() as i32,
        };
        let (key, value) = (place(header.key), header.value.map_or(Span::NULL, place));
        let turn = self.turn.load(Ordering::Relaxed);
        self.turn.store(turn.wrapping_add(1), Ordering::Relaxed);
        let kept = &self.kept[turn as usize & 1];
        if let Some(header) = kept.get(py)
            && alone(header, py)
        {
            header.get().move_to(key, value);
            return Ok(Some(header.clone_ref(py)));
        }
        let made = Py::new(py, Header::stored(&self.shared, key, value))?;
        let _ = kept.set(py, made.clone_ref(py));
        Ok(Some(made))
    }
}

/// Iterates key and value of a stored header, which `key, value = header` does.
#[pyclass(frozen, module = "magicbyte._core")]
pub(crate) struct HeaderPair {
    shared: Arc<Shared>,
    key: AtomicU64,
    value: AtomicU64,
    turn: AtomicU32,
}

impl HeaderPair {
    /// Over key and value; `kept` is used if nobody is at it.
    #[inline]
    pub(crate) fn over(
        py: Python<'_>,
        shared: &Arc<Shared>,
        key: Span,
        value: Span,
        kept: &PyOnceLock<Py<Self>>,
    ) -> PyResult<Py<PyAny>> {
        let (key, value) = (packed(key), packed(value));
        if let Some(it) = kept.get(py)
            && alone(it, py)
        {
            it.get().key.store(key, Ordering::Relaxed);
            it.get().value.store(value, Ordering::Relaxed);
            it.get().turn.store(0, Ordering::Relaxed);
            return Ok(it.clone_ref(py).into_any());
        }
        let made = Self {
            shared: Arc::clone(shared),
            key: AtomicU64::new(key),
            value: AtomicU64::new(value),
            turn: AtomicU32::new(0),
        };
        let made = Py::new(py, made)?;
        let _ = kept.set(py, made.clone_ref(py));
        Ok(made.into_any())
    }
}

#[pymethods]
impl HeaderPair {
    const fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        let turn = self.turn.load(Ordering::Relaxed);
        self.turn.store((turn + 1).min(2), Ordering::Relaxed);
        let shared = &self.shared;
        match turn {
            0 => {
                Some(shared.keys.text(py, shared.bytes(unpacked(&self.key)).unwrap_or_default()).0.into_any())
            }
            1 => {
                let value = shared.python(py, unpacked(&self.value));
                Some(value.map_or_else(|| py.None(), |value| value.into_any().unbind()))
            }
            _ => None,
        }
    }
}
