//! Where the records of a batch lie: an arena of places, so that a record is its batch and a number.

use std::sync::Arc;

use bytes::Bytes;
use magicbyte::places::{Place, Places, Span};
use magicbyte::{Decompressor, Entry, Head, Limits, Selection};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

use crate::keys::Keys;

/// What all records of one batch share: one reference-counted block, the batch's header, and where each of them is.
pub(crate) struct Shared {
    /// The bytes that the records' parts lie in.
    pub(crate) block: Bytes,
    pub(crate) head: Head,
    pub(crate) topic: Py<PyString>,
    pub(crate) partition: i32,
    pub(crate) keys: Arc<Keys>,
    pub(crate) slots: Vec<Place>,
}

impl Shared {
    pub(crate) fn bytes(&self, span: Span) -> Option<&[u8]> {
        span.of(&self.block)
    }

    #[inline]
    pub(crate) fn python<'py>(&self, py: Python<'py>, span: Span) -> Option<Bound<'py, PyBytes>> {
        self.bytes(span).map(|bytes| PyBytes::new(py, bytes))
    }

    pub(crate) fn effective_timestamp(&self, slot: &Place) -> i64 {
        slot.effective_timestamp(&self.head)
    }

    pub(crate) fn sequence(&self, slot: &Place) -> i32 {
        if self.head.count.is_some() { self.head.sequence(slot.offset) } else { -1 }
    }
}

/// Whether nobody but the caller holds an object, which then may become another one unseen.
///
/// With the GIL this is exact: whoever could look at the object holds a counted reference, in a variable, a container, a
/// frame or on an evaluation stack (a borrowed one there has a counted one behind it); nothing here can be referenced
/// weakly; what the garbage collector hands out (`gc.get_objects`) is counted, too, and when it collects it comes to no
/// object that Rust holds; and no other thread runs between the answer and what is done with it.
/// Without the GIL a count is a sum of parts that others change meanwhile, so the answer is never yes.
#[inline(always)]
#[cfg_attr(
    not(Py_GIL_DISABLED),
    expect(deprecated, reason = "what replaces it is unsafe, and asks for nothing but what `&Py` proves")
)]
pub(crate) fn alone<T>(object: &Py<T>, py: Python<'_>) -> bool {
    #[cfg(Py_GIL_DISABLED)]
    let sole = {
        let _ = (object, py);
        false
    };
    #[cfg(not(Py_GIL_DISABLED))]
    let sole = object.get_refcnt(py) == 1;
    sole
}

/// Opens an entry, which lies in `block`, and notes its records, unless none of them can be `wanted` by its headers. Returns the block that they lie in and the
/// flaw that ended it.
pub(crate) fn open(
    entry: &Entry<'_>,
    block: &Bytes,
    decompressor: &mut Decompressor,
    limits: &Limits,
    wanted: &Selection,
    slots: &mut Vec<Place>,
) -> (Bytes, Option<magicbyte::Error>) {
    let mut cut = None;
    let block = if entry.is_compressed() {
        let mut buffer = magicbyte::Buffer::new();
        match entry.decompress(decompressor, limits, &mut buffer) {
            Ok(flaw) => cut = flaw,
            Err(error) => return (Bytes::new(), Some(error)),
        }
        Bytes::from(buffer.into_vec())
    } else {
        block.clone()
    };
    // Not a copy: the payload borrows from the block, whichever it is.
    let payload = match entry.payload(&block, cut) {
        Ok(payload) => payload,
        Err(error) => return (block.clone(), Some(error)),
    };
    if cut.is_none() && !wanted.may_occur(payload.bytes()) {
        return (Bytes::new(), None);
    }
    slots.reserve(payload.count_hint().min(1 << 16));
    let mut sink = Places::new(&block, slots);
    let error = payload.decode(limits, &mut sink).err();
    (block.clone(), error)
}
