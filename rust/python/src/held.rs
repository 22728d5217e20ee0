//! What only one may have at a time, where the GIL already sees to that.

#![allow(unsafe_code, reason = "a mutex costs a loop over small records two locked instructions a record")]

use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::prelude::*;

/// A value that one may have at a time, who is attached to the interpreter.
pub(crate) struct Held<T> {
    taken: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: `taken` lets one have the value at a time. With the GIL a plain load and store do, for nothing comes between
// them, and who gets the GIL sees what was done under it. Without the GIL it is a lock.
unsafe impl<T: Send> Sync for Held<T> {}

impl<T> Held<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self { taken: AtomicBool::new(false), value: UnsafeCell::new(value) }
    }

    /// The value, unless someone has it.
    #[inline(always)]
    pub(crate) fn take<'s, 'py>(&'s self, _py: Python<'py>) -> Option<Taken<'s, 'py, T>> {
        #[cfg(not(Py_GIL_DISABLED))]
        let was = {
            let was = self.taken.load(Ordering::Relaxed);
            self.taken.store(true, Ordering::Relaxed);
            was
        };
        #[cfg(Py_GIL_DISABLED)]
        let was = self.taken.swap(true, Ordering::Acquire);
        // Not `then_some`: what it drops would give the value back.
        (!was).then(|| Taken { held: self, attached: PhantomData })
    }

    /// The value, as soon as nobody else has it.
    pub(crate) fn wait<'s, 'py>(&'s self, py: Python<'py>) -> Taken<'s, 'py, T> {
        loop {
            if let Some(taken) = self.take(py) {
                return taken;
            }
            py.detach(std::thread::yield_now);
        }
    }
}

/// The value, until it is let go. It stays in its thread.
pub(crate) struct Taken<'s, 'py, T> {
    held: &'s Held<T>,
    attached: PhantomData<Python<'py>>,
}

impl<T> Deref for Taken<'_, '_, T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: there is one `Taken` at a time.
        unsafe { &*self.held.value.get() }
    }
}

impl<T> DerefMut for Taken<'_, '_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: there is one `Taken` at a time, and it is borrowed alone.
        unsafe { &mut *self.held.value.get() }
    }
}

impl<T> Drop for Taken<'_, '_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        self.held.taken.store(false, Ordering::Release);
    }
}
