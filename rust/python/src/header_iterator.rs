//! A loop over stored headers, which makes as few objects as it can.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use magicbyte::bytes::Reader;
use magicbyte::places::{Place, Span};
use magicbyte::{Header as CoreHeader, HeaderLayout};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

use crate::header::{Header, packed, quick_key, unpacked};
use crate::headers::Raw;
use crate::quick::{Quick, Steps};
use crate::slots::{Shared, alone};

/// Where a part ends. A block is below 2 GiB.
const fn end(span: Span) -> u32 {
    span.at.wrapping_add(span.len.unsigned_abs())
}

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
    /// The one that is kept, if nobody is in a loop with it, over the headers of another record.
    #[inline(always)]
    pub(crate) fn again(py: Python<'_>, slot: &Place, kept: &PyOnceLock<Py<Self>>) -> Option<Py<Self>> {
        let it = kept.get(py)?;
        if !alone(it, py) || it.get().layout != slot.layout {
            return None;
        }
        it.get().at.store(slot.headers.at, Ordering::Relaxed);
        it.get().end.store(end(slot.headers), Ordering::Relaxed);
        Some(it.clone_ref(py))
    }

    /// Over the headers of `raw`; `kept` is used if nobody is in a loop with it.
    pub(crate) fn over(py: Python<'_>, raw: &Raw, kept: &PyOnceLock<Py<Self>>) -> PyResult<Py<PyAny>> {
        let span = raw.slot().headers;
        if let Some(it) = Self::again(py, raw.slot(), kept) {
            return Ok(it.into_any());
        }
        let made = Py::new(
            py,
            Self {
                shared: Arc::clone(&raw.shared),
                layout: raw.slot().layout,
                at: AtomicU32::new(span.at),
                end: AtomicU32::new(end(span)),
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
}

impl HeaderIterator {
    /// Where the next header's key and value lie, and where the one behind it begins.
    #[inline(always)]
    fn read(&self) -> Option<(Span, Span, u32)> {
        let (at, end) = (self.at.load(Ordering::Relaxed), self.end.load(Ordering::Relaxed));
        let block = &*self.shared.block;
        let bytes = block.get(at as usize..end as usize).filter(|bytes| !bytes.is_empty())?;
        let mut input = Reader::new(bytes);
        // Checked when the record was read.
        let header = CoreHeader::read(&mut input, self.layout).ok()?;
        let place = |part: &[u8]| Span {
            at: (part.as_ptr() as usize).wrapping_sub(block.as_ptr() as usize) as u32,
            len: part.len() as i32,
        };
        let next = end.wrapping_sub(input.rest().len() as u32);
        Some((place(header.key), header.value.map_or(Span::NULL, place), next))
    }

    #[inline(always)]
    fn moved(&self, next: u32, turn: u32) {
        self.at.store(next, Ordering::Relaxed);
        self.turn.store(turn.wrapping_add(1), Ordering::Relaxed);
    }
}

impl Steps for HeaderIterator {
    #[inline(always)]
    fn quick_next(&self, py: Python<'_>) -> Quick<'_> {
        let turn = self.turn.load(Ordering::Relaxed);
        let Some(header) = self.kept[turn as usize & 1].get(py) else { return Quick::No };
        if !alone(header, py) {
            return Quick::No;
        }
        let Some((key, value, next)) = self.read() else { return Quick::End };
        self.moved(next, turn);
        header.get().move_to(key, value);
        Quick::Owned(header.clone_ref(py).into_any())
    }

    fn next(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        let Some((key, value, next)) = self.read() else { return Ok(None) };
        let turn = self.turn.load(Ordering::Relaxed);
        self.moved(next, turn);
        let made = Py::new(py, Header::stored(&self.shared, key, value))?;
        let _ = self.kept[turn as usize & 1].set(py, made.clone_ref(py));
        Ok(Some(made.into_any()))
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
    /// The one that is kept, if nobody is at it, over another key and value.
    #[inline(always)]
    pub(crate) fn again(
        py: Python<'_>,
        key: Span,
        value: Span,
        kept: &PyOnceLock<Py<Self>>,
    ) -> Option<Py<Self>> {
        let it = kept.get(py).filter(|it| alone(it, py))?;
        it.get().key.store(packed(key), Ordering::Relaxed);
        it.get().value.store(packed(value), Ordering::Relaxed);
        it.get().turn.store(0, Ordering::Relaxed);
        Some(it.clone_ref(py))
    }

    /// Over key and value; `kept` is used if nobody is at it.
    pub(crate) fn over(
        py: Python<'_>,
        shared: &Arc<Shared>,
        key: Span,
        value: Span,
        kept: &PyOnceLock<Py<Self>>,
    ) -> PyResult<Py<PyAny>> {
        if let Some(it) = Self::again(py, key, value, kept) {
            return Ok(it.into_any());
        }
        let made = Self {
            shared: Arc::clone(shared),
            key: AtomicU64::new(packed(key)),
            value: AtomicU64::new(packed(value)),
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
}

impl Steps for HeaderPair {
    #[inline(always)]
    fn quick_next(&self, _py: Python<'_>) -> Quick<'_> {
        let quick = match self.turn.load(Ordering::Relaxed) {
            0 => quick_key(&self.shared, unpacked(&self.key)),
            1 => Quick::Bytes(self.shared.bytes(unpacked(&self.value))),
            _ => return Quick::End,
        };
        if !matches!(quick, Quick::No) {
            let turn = self.turn.load(Ordering::Relaxed);
            self.turn.store(turn.wrapping_add(1), Ordering::Relaxed);
        }
        quick
    }

    /// A key that is not known yet: all else is quick.
    fn next(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        self.turn.store(1, Ordering::Relaxed);
        let key = self.shared.bytes(unpacked(&self.key)).unwrap_or_default();
        Ok(Some(self.shared.keys.text(py, key).0.into_any()))
    }
}
