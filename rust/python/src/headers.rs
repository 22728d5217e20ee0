//! A record's headers as Python sees them: a mutable list inside a frozen class.
//!
//! The lock inside is never held while Python code runs: what is compared or converted is taken out first.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use magicbyte::encode_error::MAX_HEADER_KEY;
use magicbyte::{HeaderLayout, Headers as CoreHeaders};
use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use pyo3::types::{PyBytes, PyIterator, PyList, PyString, PyTuple};

use crate::batch::Shared;
use crate::error::{Failure, IllegalStateError};
use crate::header::Header;
use crate::keys::Keys;
use crate::part::bytes_of;

/// Headers that no one has asked for yet, where they lie.
#[derive(Clone)]
pub(crate) struct Raw {
    pub(crate) shared: Arc<Shared>,
    pub(crate) span: (u32, u32),
    pub(crate) count: u32,
    pub(crate) layout: HeaderLayout,
}

enum Items {
    Raw(Raw),
    List(Vec<Py<Header>>),
}

struct State {
    items: Items,
    closed: bool,
}

/// The headers of a record (KIP-82): an ordered list in which keys may repeat and values may be None.
///
/// Made from nothing, from (key, value) pairs as confluent-kafka, aiokafka and kafka-python have them, from `Header`s, or
/// from other `Headers`. After `close()` it cannot be changed any more (`IllegalStateError`); a copy is open again.
#[pyclass(frozen, module = "magicbyte")]
pub(crate) struct Headers(Mutex<State>);

impl Raw {
    fn core(&self) -> CoreHeaders<'_> {
        // Read once already, when the record was.
        CoreHeaders::parse(self.shared.bytes(self.span), self.layout).unwrap_or_default()
    }

    fn list(&self, py: Python<'_>) -> PyResult<Vec<Py<Header>>> {
        let mut list = Vec::with_capacity(self.count as usize);
        for header in self.core() {
            let (key, utf8) = self.shared.keys.text(py, header.key);
            let value = header.value.map(|value| PyBytes::new(py, value).unbind());
            let raw = (!utf8).then(|| header.key.into());
            list.push(Py::new(py, Header { key, value, raw })?);
        }
        Ok(list)
    }
}

impl Headers {
    pub(crate) const fn raw(raw: Raw) -> Self {
        Self(Mutex::new(State { items: Items::Raw(raw), closed: false }))
    }

    const fn from_list(list: Vec<Py<Header>>) -> Self {
        Self(Mutex::new(State { items: Items::List(list), closed: false }))
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

    fn lock<'s>(&'s self, py: Python<'_>) -> MutexGuard<'s, State> {
        self.0.lock_py_attached(py).unwrap_or_else(PoisonError::into_inner)
    }

    fn copied(&self, py: Python<'_>) -> Self {
        let items = match &self.lock(py).items {
            Items::Raw(raw) => Items::Raw(raw.clone()),
            Items::List(list) => Items::List(list.iter().map(|header| header.clone_ref(py)).collect()),
        };
        Self(Mutex::new(State { items, closed: false }))
    }

    /// All headers, made now if they were not before.
    pub(crate) fn all_of(&self, py: Python<'_>) -> PyResult<Vec<Py<Header>>> {
        let raw = match &self.lock(py).items {
            Items::Raw(raw) => raw.clone(),
            Items::List(list) => return Ok(list.iter().map(|header| header.clone_ref(py)).collect()),
        };
        let made = raw.list(py)?;
        let mut state = self.lock(py);
        // Another thread may have been faster; its objects are the ones others have seen.
        if matches!(state.items, Items::Raw(_)) {
            state.items = Items::List(made.iter().map(|header| header.clone_ref(py)).collect());
            return Ok(made);
        }
        drop(state);
        self.all_of(py)
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

    /// Hands on the headers as they are encoded, where nobody has asked for them yet, else as a list.
    pub(crate) fn with_raw_or_list<T>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(Result<CoreHeaders<'_>, &[Py<Header>]>) -> PyResult<T>,
    ) -> PyResult<T> {
        let taken = match &self.lock(py).items {
            Items::Raw(raw) => Ok(raw.clone()),
            Items::List(list) => Err(list.iter().map(|header| header.clone_ref(py)).collect::<Vec<_>>()),
        };
        match taken {
            Ok(raw) => work(Ok(raw.core())),
            Err(list) => work(Err(&list)),
        }
    }

    fn matching(&self, py: Python<'_>, key: &str) -> PyResult<Vec<Py<Header>>> {
        let mut found = self.all_of(py)?;
        let mut failed = None;
        found.retain(|header| match header.get().key.bind(py).to_str() {
            Ok(text) => text == key,
            Err(error) => {
                failed = Some(error);
                false
            }
        });
        failed.map_or(Ok(found), Err)
    }

    /// Replaces the list, unless it is closed or was changed meanwhile.
    fn change(&self, py: Python<'_>, edit: impl FnOnce(&mut Vec<Py<Header>>)) -> PyResult<()> {
        self.all_of(py)?;
        let mut state = self.lock(py);
        if state.closed {
            drop(state);
            return Err(IllegalStateError::new_err(
                "headers are read-only after they were closed (the record was sent); change a copy: record.copy()",
            ));
        }
        if let Items::List(list) = &mut state.items {
            edit(list);
        }
        Ok(())
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
        slf.get().change(py, |list| list.push(header))?;
        Ok(slf.clone())
    }

    /// Removes all headers of a key, or all that equal a `Header`. Returns these headers.
    fn remove<'py>(slf: &Bound<'py, Self>, key: &Bound<'py, PyAny>) -> PyResult<Bound<'py, Self>> {
        let (py, it) = (slf.py(), slf.get());
        let mut gone = Vec::new();
        if let Ok(header) = key.cast::<Header>() {
            for one in it.all_of(py)? {
                if one.get().same(header.get(), py)? {
                    gone.push(one);
                }
            }
        } else {
            gone = it.matching(py, key.cast::<PyString>()?.to_str()?)?;
        }
        it.change(py, |list| list.retain(|one| !gone.iter().any(|other| other.is(one))))?;
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
        let value = |header: Py<Header>| header.get().value.as_ref().map(|value| value.clone_ref(py));
        Ok(self.matching(py, key)?.into_iter().map(value).collect())
    }

    /// The distinct keys, in the order in which they first come.
    fn keys(&self, py: Python<'_>) -> PyResult<Vec<Py<PyString>>> {
        let mut keys: Vec<Py<PyString>> = Vec::new();
        let mut seen = std::collections::HashSet::new();
        for header in self.all_of(py)? {
            let key = &header.get().key;
            if seen.insert(key.bind(py).to_str()?.to_owned()) {
                keys.push(key.clone_ref(py));
            }
        }
        Ok(keys)
    }

    /// Each key with its first value.
    #[getter]
    fn first(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let view = pyo3::types::PyDict::new(py);
        for header in self.all_of(py)?.iter().rev() {
            view.set_item(&header.get().key, &header.get().value)?;
        }
        Ok(view.into_any().unbind())
    }

    /// Each key with its last value.
    #[getter]
    fn last(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let view = pyo3::types::PyDict::new(py);
        for header in self.all_of(py)? {
            view.set_item(&header.get().key, &header.get().value)?;
        }
        Ok(view.into_any().unbind())
    }

    /// Each key with the list of its values.
    #[getter]
    fn all(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let view = pyo3::types::PyDict::new(py);
        for header in self.all_of(py)? {
            let header = header.get();
            let list = match view.get_item(&header.key)? {
                Some(list) => list.cast_into::<PyList>()?,
                None => {
                    let list = PyList::empty(py);
                    view.set_item(&header.key, &list)?;
                    list
                }
            };
            list.append(&header.value)?;
        }
        Ok(view.into_any().unbind())
    }

    /// The list of (key, value) tuples that the Python clients use.
    fn to_list<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let list = PyList::empty(py);
        for header in self.all_of(py)? {
            list.append((&header.get().key, &header.get().value))?;
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
            let (key, utf8) = keys.text(py, header.key);
            let value = header.value.map(|value| PyBytes::new(py, value).unbind());
            list.push(Py::new(py, Header { key, value, raw: (!utf8).then(|| header.key.into()) })?);
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
        self.lock(py).closed = true;
    }

    /// Whether they are closed.
    #[getter]
    fn read_only(&self, py: Python<'_>) -> bool {
        self.lock(py).closed
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        PyTuple::new(py, self.all_of(py)?)?.try_iter()
    }

    fn __len__(&self, py: Python<'_>) -> usize {
        match &self.lock(py).items {
            Items::Raw(raw) => raw.count as usize,
            Items::List(list) => list.len(),
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
        let args = (PyTuple::new(py, it.all_of(py)?)?, it.read_only(py)).into_pyobject(py)?;
        Ok((slf.get_type().getattr("_restored")?, args))
    }

    #[staticmethod]
    fn _restored(py: Python<'_>, headers: &Bound<'_, PyAny>, closed: bool) -> PyResult<Self> {
        let made = Self::given(Some(headers))?;
        made.lock(py).closed = closed;
        Ok(made)
    }
}
