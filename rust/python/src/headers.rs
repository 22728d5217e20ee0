//! A record's headers as Python sees them: a mutable list inside a frozen class.
//!
//! The lock inside is never held while Python code runs: what is compared or converted is taken out first.

use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use magicbyte::encode_error::MAX_HEADER_KEY;
use magicbyte::places::Place;
use magicbyte::{Header as CoreHeader, HeaderLayout, Headers as CoreHeaders};
use pyo3::prelude::*;
use pyo3::sync::{MutexExt, PyOnceLock};
use pyo3::types::{PyBytes, PyList, PyString, PyTuple};

use crate::error::{Failure, IllegalStateError};
use crate::header::{Header, is_key};
use crate::header_iterator::HeaderIterator;
use crate::keys::Keys;
use crate::part::bytes_of;
use crate::quick::{Loop, Quick};
use crate::slots::{Shared, alone};

/// A record of a batch, whose headers nobody has changed yet.
pub(crate) struct Raw {
    pub(crate) shared: Arc<Shared>,
    /// Which record.
    pub(crate) at: AtomicU32,
}

impl Clone for Raw {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), at: AtomicU32::new(self.at.load(Ordering::Relaxed)) }
    }
}

impl Raw {
    #[inline]
    pub(crate) fn slot(&self) -> &Place {
        &self.shared.slots[self.at.load(Ordering::Relaxed) as usize]
    }

    #[inline(always)]
    pub(crate) fn slot_of(&self) -> Option<&Place> {
        self.shared.slots.get(self.at.load(Ordering::Relaxed) as usize)
    }

    pub(crate) fn core(&self) -> CoreHeaders<'_> {
        let slot = self.slot();
        // Read once already, when the record was.
        let bytes = self.shared.bytes(slot.headers).unwrap_or_default();
        CoreHeaders::parse(bytes, slot.layout).unwrap_or_default()
    }

    fn made(&self, py: Python<'_>, header: &CoreHeader<'_>) -> PyResult<Py<Header>> {
        Py::new(py, Header::made(py, &self.shared.keys, header))
    }

    fn list(&self, py: Python<'_>) -> PyResult<Vec<Py<Header>>> {
        self.core().iter().map(|header| self.made(py, &header)).collect()
    }
}

/// The list is what counts, no longer the stored headers.
const OWN: u8 = 1;
const CLOSED: u8 = 2;

/// The headers of a record (KIP-82): an ordered list in which keys may repeat and values may be None.
///
/// Made from nothing, from (key, value) pairs as confluent-kafka, aiokafka and kafka-python have them, from `Header`s, or
/// from other `Headers`. After `close()` it cannot be changed any more (`IllegalStateError`); a copy is open again.
#[pyclass(frozen, module = "magicbyte")]
pub(crate) struct Headers {
    raw: Option<Raw>,
    /// `OWN`, `CLOSED`; changed under the list's lock.
    flags: AtomicU8,
    list: Mutex<Vec<Py<Header>>>,
    /// Kept for the next loop over the headers.
    iterator: PyOnceLock<Py<HeaderIterator>>,
}

impl Headers {
    fn of(raw: Option<Raw>, flags: u8, list: Vec<Py<Header>>) -> Self {
        Self { raw, flags: AtomicU8::new(flags), list: Mutex::new(list), iterator: PyOnceLock::new() }
    }

    pub(crate) fn stored(shared: &Arc<Shared>, at: u32) -> Self {
        Self::of(Some(Raw { shared: Arc::clone(shared), at: AtomicU32::new(at) }), 0, Vec::new())
    }

    fn from_list(list: Vec<Py<Header>>) -> Self {
        Self::of(None, OWN, list)
    }

    /// Makes them those of another record of the same batch, unless someone else holds them, or they were changed.
    #[inline]
    pub(crate) fn moved_to(slf: &Py<Self>, py: Python<'_>, at: u32) -> bool {
        let it = slf.get();
        if let (Some(raw), 0, true) = (&it.raw, it.flags.load(Ordering::Relaxed), alone(slf, py)) {
            raw.at.store(at, Ordering::Relaxed);
            return true;
        }
        false
    }

    /// From whatever a caller gave.
    pub(crate) fn given(headers: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        let Some(headers) = headers.filter(|headers| !headers.is_none()) else {
            return Ok(Self::from_list(Vec::new()));
        };
        if let Ok(other) = headers.cast::<Self>() {
            return Ok(other.get().copied(headers.py()));
        }
        let mut list = Vec::new();
        // A mapping gives its items, which can repeat no key.
        let items = if headers.hasattr("items")? { headers.call_method0("items")? } else { headers.clone() };
        for item in items.try_iter()? {
            let item = item?;
            list.push(match item.cast::<Header>() {
                Ok(header) => header.clone().unbind(),
                Err(_) => {
                    let (key, value) = pair(&item)?;
                    Py::new(item.py(), Header::given(&key, Some(&value))?)?
                }
            });
        }
        Ok(Self::from_list(list))
    }

    fn lock<'s>(&'s self, py: Python<'_>) -> MutexGuard<'s, Vec<Py<Header>>> {
        self.list.lock_py_attached(py).unwrap_or_else(PoisonError::into_inner)
    }

    fn has(&self, flag: u8) -> bool {
        self.flags.load(Ordering::Acquire) & flag != 0
    }

    /// The record that still says what the headers are.
    pub(crate) fn raw(&self) -> Option<&Raw> {
        self.raw.as_ref().filter(|_| !self.has(OWN))
    }

    fn copied(&self, py: Python<'_>) -> Self {
        match self.raw() {
            Some(raw) => Self::of(Some(raw.clone()), 0, Vec::new()),
            None => Self::from_list(self.lock(py).iter().map(|header| header.clone_ref(py)).collect()),
        }
    }

    /// All headers.
    pub(crate) fn all_of(&self, py: Python<'_>) -> PyResult<Vec<Py<Header>>> {
        match self.raw() {
            Some(raw) => raw.list(py),
            None => Ok(self.lock(py).iter().map(|header| header.clone_ref(py)).collect()),
        }
    }

    pub(crate) fn same(&self, other: &Self, py: Python<'_>) -> PyResult<bool> {
        if std::ptr::eq(self, other) {
            return Ok(true);
        }
        let (mine, theirs) = (self.all_of(py)?, other.all_of(py)?);
        if mine.len() != theirs.len() {
            return Ok(false);
        }
        for (a, b) in mine.iter().zip(&theirs) {
            if !a.get().same(b.get(), py)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Hands on the headers as they are encoded, where nobody has changed them yet, else as a list.
    pub(crate) fn with_raw_or_list<T>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(Result<CoreHeaders<'_>, &[Py<Header>]>) -> PyResult<T>,
    ) -> PyResult<T> {
        match self.raw() {
            Some(raw) => work(Ok(raw.core())),
            None => work(Err(&self.all_of(py)?)),
        }
    }

    fn matching(&self, py: Python<'_>, key: &str) -> PyResult<Vec<Py<Header>>> {
        if let Some(raw) = self.raw() {
            let some = raw.core().iter().filter(|header| is_key(header.key, key));
            return some.map(|header| raw.made(py, &header)).collect();
        }
        let mut found = Vec::new();
        for header in self.all_of(py)? {
            if header.get().has_key(py, key)? {
                found.push(header);
            }
        }
        Ok(found)
    }

    /// Changes the list, unless it is closed. No Python code runs under the lock: `edit` compares bytes alone.
    fn change(
        &self,
        py: Python<'_>,
        edit: impl FnOnce(&mut Vec<Py<Header>>) -> PyResult<()>,
    ) -> PyResult<()> {
        let made = match self.raw() {
            Some(raw) if !self.has(CLOSED) => raw.list(py)?,
            _ => Vec::new(),
        };
        let mut list = self.lock(py);
        if self.has(CLOSED) {
            drop(list);
            return Err(IllegalStateError::new_err(
                "headers are read-only after they were closed (the record was sent); change a copy: record.copy()",
            ));
        }
        if !self.has(OWN) {
            *list = made;
            self.flags.fetch_or(OWN, Ordering::Release);
        }
        edit(&mut list)
    }

    /// Takes out all that `gone` says; where it fails, nothing.
    fn remove_if(&self, py: Python<'_>, gone: impl Fn(&Header) -> PyResult<bool>) -> PyResult<()> {
        // What is taken out is let go behind the lock.
        let mut taken = Vec::new();
        self.change(py, |list| {
            let gone: Vec<bool> = list.iter().map(|header| gone(header.get())).collect::<PyResult<_>>()?;
            let mut gone = gone.into_iter();
            taken = list.extract_if(.., |_| gone.next().unwrap_or_default()).collect();
            Ok(())
        })
    }
}

/// An iterator that is at its end and will stay there, so that whoever has nothing to iterate may have it.
static EMPTY: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// Iterates what there is now; a change does not reach the iterator.
impl Loop for Headers {
    #[inline(always)]
    fn quick_iter(&self, py: Python<'_>) -> Quick<'_> {
        let Some(slot) = self.raw().and_then(Raw::slot_of) else { return Quick::No };
        if slot.header_count == 0 {
            return EMPTY.get(py).map_or(Quick::No, Quick::Kept);
        }
        HeaderIterator::again(py, slot, &self.iterator).map_or(Quick::No, |it| Quick::Owned(it.into_any()))
    }

    fn iter(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        match self.raw() {
            Some(raw) if raw.slot().header_count == 0 => {
                let ended = || {
                    let mut it = PyTuple::empty(py).try_iter()?;
                    // It forgets the tuple at its end.
                    it.next().transpose()?;
                    PyResult::Ok(it.into_any().unbind())
                };
                Ok(EMPTY.get_or_try_init(py, ended)?.clone_ref(py))
            }
            Some(raw) => HeaderIterator::over(py, raw, &self.iterator),
            None => Ok(PyTuple::new(py, self.all_of(py)?)?.try_iter()?.into_any().unbind()),
        }
    }
}

/// A (key, value) pair: a tuple, or a list as JSON has it.
fn pair<'py>(item: &Bound<'py, PyAny>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
    if let Ok(list) = item.cast::<PyList>()
        && list.len() == 2
    {
        return Ok((list.get_item(0)?, list.get_item(1)?));
    }
    item.extract().map_err(|_| {
        let text = item.repr().map_or_else(|_| "?".into(), |text| text.to_string());
        pyo3::exceptions::PyTypeError::new_err(format!(
            "a header is a Header or a (key, value) pair, not {text}"
        ))
    })
}

#[pymethods]
impl Headers {
    #[new]
    #[pyo3(signature = (headers=None))]
    fn new(headers: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        Self::given(headers)
    }

    /// Adds a header at the end: `add(key, value)`, `add((key, value))` or `add(Header(…))`. Returns these headers.
    #[pyo3(signature = (key, value=None))]
    fn add<'py>(
        slf: &Bound<'py, Self>,
        key: &Bound<'py, PyAny>,
        value: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, Self>> {
        let py = slf.py();
        let header = match (key.cast::<Header>(), value) {
            (Ok(header), None) => header.clone().unbind(),
            (_, None) if key.is_instance_of::<PyTuple>() => {
                let (key, value) = pair(key)?;
                Py::new(py, Header::given(&key, Some(&value))?)?
            }
            (_, value) => Py::new(py, Header::given(key, value)?)?,
        };
        slf.get().change(py, |list| {
            list.push(header);
            Ok(())
        })?;
        Ok(slf.clone())
    }

    /// Removes all headers of a key, or all that equal a `Header`. Returns these headers.
    fn remove<'py>(slf: &Bound<'py, Self>, key: &Bound<'py, PyAny>) -> PyResult<Bound<'py, Self>> {
        let (py, it) = (slf.py(), slf.get());
        if let Ok(header) = key.cast::<Header>() {
            it.remove_if(py, |one| one.same(header.get(), py))?;
        } else {
            let key = key.cast::<PyString>()?.to_str()?;
            it.remove_if(py, |one| one.has_key(py, key))?;
        }
        Ok(slf.clone())
    }

    /// The last header of a key, or None.
    fn last_header(&self, py: Python<'_>, key: &str) -> PyResult<Option<Py<Header>>> {
        Ok(self.matching(py, key)?.pop())
    }

    /// All headers of a key, in order.
    fn headers(&self, py: Python<'_>, key: &str) -> PyResult<Vec<Py<Header>>> {
        self.matching(py, key)
    }

    /// All values of a key, in order (the draft's `get`).
    fn get(&self, py: Python<'_>, key: &str) -> PyResult<Vec<Option<Py<PyBytes>>>> {
        let value = |header: Py<Header>| header.get().value(py);
        Ok(self.matching(py, key)?.into_iter().map(value).collect())
    }

    /// The distinct keys, in the order in which they first come.
    fn keys(&self, py: Python<'_>) -> PyResult<Vec<Py<PyString>>> {
        let mut keys: Vec<Py<PyString>> = Vec::new();
        let mut seen = std::collections::HashSet::new();
        for header in self.all_of(py)? {
            let key = header.get().key(py);
            if seen.insert(key.bind(py).to_str()?.to_owned()) {
                keys.push(key);
            }
        }
        Ok(keys)
    }

    /// Each key with its first value.
    #[getter]
    fn first(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let view = pyo3::types::PyDict::new(py);
        for header in self.all_of(py)?.iter().rev() {
            view.set_item(header.get().key(py), header.get().value(py))?;
        }
        Ok(view.into_any().unbind())
    }

    /// Each key with its last value.
    #[getter]
    fn last(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let view = pyo3::types::PyDict::new(py);
        for header in self.all_of(py)? {
            view.set_item(header.get().key(py), header.get().value(py))?;
        }
        Ok(view.into_any().unbind())
    }

    /// Each key with the list of its values.
    #[getter]
    fn all(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let view = pyo3::types::PyDict::new(py);
        for header in self.all_of(py)? {
            let (key, value) = (header.get().key(py), header.get().value(py));
            let list = match view.get_item(&key)? {
                Some(list) => list.cast_into::<PyList>()?,
                None => {
                    let list = PyList::empty(py);
                    view.set_item(key, &list)?;
                    list
                }
            };
            list.append(value)?;
        }
        Ok(view.into_any().unbind())
    }

    /// The list of (key, value) tuples that the Python clients use.
    fn to_list<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let list = PyList::empty(py);
        if let Some(raw) = self.raw() {
            for header in raw.core() {
                let value = header.value.map(|value| PyBytes::new(py, value));
                list.append((raw.shared.keys.text(py, header.key).0, value))?;
            }
            return Ok(list);
        }
        for header in self.all_of(py)? {
            list.append((header.get().key(py), header.get().value(py)))?;
        }
        Ok(list)
    }

    /// The headers that a header block of KIP-82's draft A holds: `(keyLength varint, key, valueLength varint, value)*`,
    /// as records of v2 and v3 have them behind their count. Raises `CorruptRecordError` for bytes that are none.
    #[staticmethod]
    fn from_bytes(data: &Bound<'_, PyAny>) -> PyResult<Self> {
        let (py, data) = (data.py(), bytes_of(data)?);
        let headers = CoreHeaders::parse(&data, HeaderLayout::Varint)
            .map_err(|flaw| Failure::corrupt(flaw.at(0), None))?;
        let (keys, mut list) = (Keys::default(), Vec::new());
        for header in headers {
            list.push(Py::new(py, Header::made(py, &keys, &header))?);
        }
        Ok(Self::from_list(list))
    }

    /// These headers as such a block. Raises `ValueError` for a key over 32,767 bytes.
    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let mut block = Vec::new();
        for (at, header) in self.all_of(py)?.iter().enumerate() {
            let header = header.get();
            let (key, value) = (header.key_bytes(py)?, header.value_bytes(py));
            if key.len() > MAX_HEADER_KEY {
                let text = format!("header {at}: a key of {} bytes is over {MAX_HEADER_KEY}", key.len());
                return Err(pyo3::exceptions::PyValueError::new_err(text));
            }
            magicbyte::Header { key, value }.write(HeaderLayout::Varint, &mut block);
        }
        Ok(PyBytes::new(py, &block))
    }

    /// A copy that is open and independent.
    fn copy(&self, py: Python<'_>) -> Self {
        self.copied(py)
    }

    fn __copy__(&self, py: Python<'_>) -> Self {
        self.copied(py)
    }

    fn __deepcopy__(&self, py: Python<'_>, _memo: &Bound<'_, PyAny>) -> Self {
        self.copied(py)
    }

    /// Makes these headers read-only, as sending their record does.
    fn close(&self, py: Python<'_>) {
        let _list = self.lock(py);
        self.flags.fetch_or(CLOSED, Ordering::Release);
    }

    /// Whether they are closed.
    #[getter]
    fn read_only(&self) -> bool {
        self.has(CLOSED)
    }

    fn __len__(&self, py: Python<'_>) -> usize {
        match self.raw() {
            Some(raw) => raw.slot().header_count as usize,
            None => self.lock(py).len(),
        }
    }

    fn __contains__(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        if let Ok(header) = key.cast::<Header>() {
            for one in self.all_of(py)? {
                if one.get().same(header.get(), py)? {
                    return Ok(true);
                }
            }
            return Ok(false);
        }
        let Ok(key) = key.cast::<PyString>() else { return Ok(false) };
        Ok(!self.matching(py, key.to_str()?)?.is_empty())
    }

    fn __getitem__(&self, py: Python<'_>, index: isize) -> PyResult<Py<Header>> {
        let list = self.all_of(py)?;
        let at = if index < 0 { index + list.len() as isize } else { index };
        let found = usize::try_from(at).ok().and_then(|at| list.into_iter().nth(at));
        found.ok_or_else(|| pyo3::exceptions::PyIndexError::new_err("no such header"))
    }

    fn __eq__(&self, py: Python<'_>, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let Ok(other) = other.cast::<Self>() else { return Ok(py.NotImplemented()) };
        Ok(self.same(other.get(), py)?.into_pyobject(py)?.to_owned().into_any().unbind())
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!("Headers({})", self.to_list(py)?.repr()?))
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let (py, it) = (slf.py(), slf.get());
        let args = (PyTuple::new(py, it.all_of(py)?)?, it.read_only()).into_pyobject(py)?;
        Ok((slf.get_type().getattr("_restored")?, args))
    }

    #[staticmethod]
    fn _restored(py: Python<'_>, headers: &Bound<'_, PyAny>, closed: bool) -> PyResult<Self> {
        let made = Self::given(Some(headers))?;
        if closed {
            made.close(py);
        }
        Ok(made)
    }
}
