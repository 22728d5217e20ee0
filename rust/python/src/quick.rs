//! Slots that loops go through at every record, for which PyO3's way into Rust is too long.
//!
//! PyO3 counts attachments in a thread-local, catches panics and turns results round at every call. Here a slot looks
//! first whether it can answer at once: with an int, bytes, or an object that is kept. Where it cannot, the ordinary way is
//! taken: PyO3's trampoline, or `object`'s lookup.
//!
//! # Why it is sound
//!
//! - *The thread is attached.* The interpreter calls a type's slots from attached threads alone, so `assume_attached` is
//!   true, and stays so until the slot returns: nothing on the quick way detaches.
//! - *The object is a `T`.* A slot is found in its object's type, and Python's own wrapper of it (`T.__iter__(x)`) looks at
//!   the class first. `T` has no subclass (no `#[pyclass(subclass)]`), and no object is made a `T` by `__class__`, which
//!   asks that neither type adds a field to its base. PyO3 makes a `T` whole before anybody has it, and `slots!` is given each slot with the class that
//!   it casts to: the macro alone writes the two beside each other.
//! - *It lives.* The caller of a slot holds a reference until the slot returns. Nothing that is borrowed from it here
//!   outlives that: what is returned is a new reference.
//! - *Nobody changes it meanwhile.* `T` is frozen and `Sync` (`Sealed` asks for both), so `&T` is all that is needed.
//! - *What is returned* is a counted reference, or null with an error set, or, from an iterator at its end, null alone: what
//!   the interpreter asks of `tp_getattro`, `tp_iter` and `tp_iternext`.
//! - *Nothing unwinds into C.* The quick way has nothing that panics; if something did, `extern "C"` ends the process. The
//!   ordinary way is PyO3's trampoline, which makes an exception of a panic, or CPython's own lookup.
//! - *The slots' type* is `PyClassItems` of PyO3, which takes any function's address: `slots!` casts each to the slot's
//!   signature in C first, so that a wrong one does not compile. No slot is there twice, or PyO3 would take either:
//!   `#[pymethods]` of these classes have none of them.
//!
//! On the quick way no object is let go, which could run a finalizer, and no Python code runs, so an answer cannot be
//! overtaken by what it does itself. Bytes are made before anything is let go, and their making runs no code either: the
//! garbage collector does not know bytes and ints.

#![allow(unsafe_code, reason = "slots as the interpreter calls them: without them loops take a sixth more")]

use std::ffi::c_int;
use std::marker::PhantomData;
use std::ptr::null_mut;

use pyo3::impl_::trampoline::{MethodDef, getiterfunc, iternextfunc};
use pyo3::prelude::*;
use pyo3::pyclass::boolean_struct::True;
use pyo3::{Borrowed, PyClass, ffi};

use crate::consumer_record::ConsumerRecord;
use crate::header::Header;
use crate::header_iterator::{HeaderIterator, HeaderPair};
use crate::headers::Headers;
use crate::iterators::RecordIterator;

/// What a slot can say at once.
pub(crate) enum Quick<'a> {
    Int(i64),
    /// `None` is None.
    Bytes(Option<&'a [u8]>),
    Kept(&'a Py<PyAny>),
    Owned(Py<PyAny>),
    /// Of an iterator: it is at its end.
    End,
    /// Nothing: the ordinary way is to be taken.
    No,
}

/// A class of this crate whose objects cannot change and have no subclass: a slot gets no other object. `slots!` alone
/// implements it.
pub(crate) trait Sealed: PyClass<Frozen = True> + Sync {}

/// Attributes that can be had quickly.
pub(crate) trait Fields: Sealed {
    fn field(&self, py: Python<'_>, name: &Bound<'_, PyAny>) -> Quick<'_>;
}

/// What can be iterated.
pub(crate) trait Loop: Sealed {
    fn quick_iter(&self, py: Python<'_>) -> Quick<'_>;
    fn iter(&self, py: Python<'_>) -> PyResult<Py<PyAny>>;
}

/// An iterator.
pub(crate) trait Steps: Sealed {
    fn quick_next(&self, py: Python<'_>) -> Quick<'_>;
    fn next(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>>;
}

/// # Safety
/// The thread must be attached, for `'a` too, and `object` a `T` that lives as long.
#[inline(always)]
unsafe fn this<'a, T: Sealed>(object: *mut ffi::PyObject) -> (Python<'a>, &'a T) {
    // SAFETY: the caller says so.
    unsafe {
        let py = Python::assume_attached();
        (py, Borrowed::from_ptr(py, object).cast_unchecked::<T>().get())
    }
}

/// Hands an answer over to the interpreter; `ordinary` where there is none.
#[inline(always)]
fn over(
    py: Python<'_>,
    quick: Quick<'_>,
    ordinary: impl FnOnce() -> *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    match quick {
        // SAFETY: `py` says that the thread is attached. Out of memory, null with the error set.
        Quick::Int(number) => unsafe { ffi::PyLong_FromLongLong(number) },
        // SAFETY: as above; the bytes are copied, and no slice is longer than `isize::MAX`.
        Quick::Bytes(Some(bytes)) => unsafe {
            ffi::PyBytes_FromStringAndSize(bytes.as_ptr().cast(), bytes.len() as ffi::Py_ssize_t)
        },
        Quick::Bytes(None) => py.None().into_ptr(),
        Quick::Kept(object) => object.clone_ref(py).into_ptr(),
        Quick::Owned(object) => object.into_ptr(),
        Quick::End => null_mut(),
        Quick::No => ordinary(),
    }
}

/// # Safety
/// For the interpreter, as `tp_getattro` of `T`.
unsafe extern "C" fn getattro<T: Fields>(
    object: *mut ffi::PyObject,
    name: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: the interpreter calls slots attached, with objects of the type that it holds meanwhile, and an object.
    let (py, it, asked) = unsafe {
        let (py, it) = this::<T>(object);
        (py, it, Borrowed::from_ptr(py, name))
    };
    // SAFETY: as above.
    over(py, it.field(py, &asked), || unsafe { ffi::PyObject_GenericGetAttr(object, name) })
}

/// # Safety
/// For the interpreter, as `tp_iter` of `T`.
unsafe extern "C" fn iter<T: Loop>(object: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: the interpreter calls slots attached, with objects of the type that it holds meanwhile.
    let (py, it) = unsafe { this::<T>(object) };
    // SAFETY: as above.
    over(py, it.quick_iter(py), || unsafe { getiterfunc::<OrdinaryIter<T>>(object) })
}

/// # Safety
/// For the interpreter, as `tp_iternext` of `T`.
unsafe extern "C" fn iternext<T: Steps>(object: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: the interpreter calls slots attached, with objects of the type that it holds meanwhile.
    let (py, it) = unsafe { this::<T>(object) };
    // SAFETY: as above.
    over(py, it.quick_next(py), || unsafe { iternextfunc::<OrdinaryNext<T>>(object) })
}

/// The ordinary way, as `#[pymethods]` would go it.
struct OrdinaryIter<T>(PhantomData<T>);

impl<T: Loop> MethodDef<getiterfunc::Func> for OrdinaryIter<T> {
    const METH: getiterfunc::Func = |_, object| {
        // SAFETY: only `iter` above hands it to PyO3, with what it was given.
        let (py, it) = unsafe { this::<T>(object) };
        it.iter(py).map(Py::into_ptr)
    };
}

/// The same of the next one.
struct OrdinaryNext<T>(PhantomData<T>);

impl<T: Steps> MethodDef<iternextfunc::Func> for OrdinaryNext<T> {
    const METH: iternextfunc::Func = |_, object| {
        // SAFETY: only `iternext` above hands it to PyO3, with what it was given.
        let (py, it) = unsafe { this::<T>(object) };
        Ok(it.next(py)?.map_or_else(null_mut, Py::into_ptr))
    };
}

macro_rules! slots {
    ($class:ty: $($slot:ident = $function:expr, $kind:ty);+) => {
        impl Sealed for $class {}

        pyo3::inventory::submit! {
            type Inventory = <$class as pyo3::impl_::pyclass::PyClassImpl>::Inventory;
            Inventory::new(pyo3::impl_::pyclass::PyClassItems {
                methods: &[],
                slots: &[$(ffi::PyType_Slot { slot: ffi::$slot as c_int, pfunc: $function as $kind as _ }),+],
            })
        }
    };
}

slots!(ConsumerRecord: Py_tp_getattro = getattro::<ConsumerRecord>, ffi::getattrofunc);
slots!(Header: Py_tp_getattro = getattro::<Header>, ffi::getattrofunc; Py_tp_iter = iter::<Header>, ffi::getiterfunc);
slots!(Headers: Py_tp_iter = iter::<Headers>, ffi::getiterfunc);
slots!(RecordIterator: Py_tp_iternext = iternext::<RecordIterator>, ffi::iternextfunc);
slots!(HeaderIterator: Py_tp_iternext = iternext::<HeaderIterator>, ffi::iternextfunc);
slots!(HeaderPair: Py_tp_iternext = iternext::<HeaderPair>, ffi::iternextfunc);
