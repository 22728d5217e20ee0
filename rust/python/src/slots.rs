//! Where the records of a batch lie: an arena of places, so that a record is its batch and a number.

use std::sync::Arc;

use bytes::Bytes;
use magicbyte::{Decompressor, Entry, Head, HeaderLayout, Headers, Limits, Record, Selection, Sink};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

use crate::keys::Keys;

/// Where a part of a record lies in its block; a negative length is null. A block is below 2 GiB.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub(crate) at: u32,
    pub(crate) len: i32,
}

impl Span {
    pub(crate) const NULL: Self = Self { at: 0, len: -1 };

    pub(crate) const fn is_null(self) -> bool {
        self.len < 0
    }
}

/// Where the parts of one record are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot {
    pub(crate) offset: i64,
    /// As it is stored.
    pub(crate) timestamp: i64,
    pub(crate) key: Span,
    pub(crate) value: Span,
    pub(crate) headers: Span,
    pub(crate) header_count: u32,
    pub(crate) attributes: i8,
    pub(crate) untimed: bool,
    pub(crate) tombstone: Option<bool>,
    pub(crate) layout: HeaderLayout,
}

impl Slot {
    pub(crate) const fn effective_timestamp(&self, head: &Head) -> i64 {
        if self.untimed { -1 } else { head.effective_timestamp(self.timestamp) }
    }
}

impl Slot {
    /// Whether a record is wanted, by its offset, timestamp and headers.
    pub(crate) fn is_wanted(&self, selection: &Selection, head: &Head, block: &[u8]) -> bool {
        if !selection.wants(self.offset, self.effective_timestamp(head)) {
            return false;
        }
        if selection.headers.is_empty() {
            return true;
        }
        let at = self.headers.at as usize;
        let bytes = block.get(at..at + self.headers.len.max(0) as usize).unwrap_or_default();
        // They were read once already, so there is no error to lose here.
        Headers::parse(bytes, self.layout).is_ok_and(|headers| selection.wants_headers(headers))
    }
}

/// What all records of one batch share: one reference-counted block, the batch's header, and where each of them is.
pub(crate) struct Shared {
    /// The bytes that the records' parts lie in.
    pub(crate) block: Bytes,
    pub(crate) head: Head,
    pub(crate) topic: Py<PyString>,
    pub(crate) partition: i32,
    pub(crate) keys: Arc<Keys>,
    pub(crate) slots: Vec<Slot>,
}

impl Shared {
    pub(crate) fn bytes(&self, span: Span) -> Option<&[u8]> {
        let at = span.at as usize;
        let len = usize::try_from(span.len).ok()?;
        Some(self.block.get(at..at + len).unwrap_or_default())
    }

    #[inline]
    pub(crate) fn python<'py>(&self, py: Python<'py>, span: Span) -> Option<Bound<'py, PyBytes>> {
        self.bytes(span).map(|bytes| PyBytes::new(py, bytes))
    }

    pub(crate) fn effective_timestamp(&self, slot: &Slot) -> i64 {
        slot.effective_timestamp(&self.head)
    }

    pub(crate) fn sequence(&self, slot: &Slot) -> i32 {
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

/// Notes where records are, without a copy of their bytes.
struct Slots<'s> {
    address: usize,
    into: &'s mut Vec<Slot>,
}

impl Slots<'_> {
    #[inline(always)]
    fn place(&self, bytes: &[u8]) -> Span {
        // Empty slices may point anywhere.
        if bytes.is_empty() {
            return Span { at: 0, len: 0 };
        }
        Span { at: (bytes.as_ptr() as usize - self.address) as u32, len: bytes.len() as i32 }
    }

    #[inline(always)]
    fn nullable(&self, bytes: Option<&[u8]>) -> Span {
        bytes.map_or(Span::NULL, |bytes| self.place(bytes))
    }
}

impl<'a> Sink<'a> for Slots<'_> {
    #[inline(always)]
    fn record(&mut self, record: &Record<'a>) -> bool {
        let slot = Slot {
            offset: record.offset,
            timestamp: record.timestamp,
            key: self.nullable(record.key),
            value: self.nullable(record.value),
            headers: self.place(record.headers.bytes()),
            header_count: record.headers.len() as u32,
            attributes: record.attributes,
            untimed: record.untimed,
            tombstone: record.tombstone,
            layout: record.headers.layout(),
        };
        self.into.push(slot);
        false
    }

    fn header(&mut self, _key: &'a [u8], _value: Option<&'a [u8]>) {}

    fn discard(&mut self) {
        self.into.pop();
    }
}

/// Opens an entry, which lies in `block`, and notes its records, unless none of them can be `wanted` by its headers. Returns the block that they lie in and the
/// flaw that ended it.
pub(crate) fn open(
    entry: &Entry<'_>,
    block: &Bytes,
    decompressor: &mut Decompressor,
    limits: &Limits,
    wanted: &Selection,
    slots: &mut Vec<Slot>,
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
    let mut sink = Slots { address: block.as_ptr() as usize, into: slots };
    let error = payload.decode(limits, &mut sink).err();
    (block.clone(), error)
}
