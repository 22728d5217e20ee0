//! Arrow arrays of parts that were proven sound where they were made, without Arrow's walk over every row.

#![allow(
    unsafe_code,
    reason = "Arrow's validation is a fifth of the time of columns, and a third of that of views"
)]

use arrow_array::types::ByteArrayType;
use arrow_array::{BinaryViewArray, GenericByteArray};
use arrow_buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::ArrowError;

/// Offsets that only rise, checked in one loop that has no way out early: Arrow's own takes a branch a row.
pub(crate) fn offsets(ends: ScalarBuffer<i32>) -> OffsetBuffer<i32> {
    let pairs = ends.iter().zip(ends.get(1..).unwrap_or_default());
    let rises = pairs.fold(true, |rises, (one, next)| rises & (one <= next));
    if rises && ends.first().is_some_and(|&first| first >= 0) {
        // SAFETY: not empty, not negative, and in order.
        return unsafe { OffsetBuffer::new_unchecked(ends) };
    }
    OffsetBuffer::new(ends)
}

/// Offsets of strings in `length` bytes.
///
/// They are written by `Copied` and `direct` alone: zero first, then how many bytes are filled, which only grows and is
/// `length` in the end. So none is out of order unless one was cut to 32 bits, which the last would show.
pub(crate) fn appended(ends: ScalarBuffer<i32>, length: usize) -> OffsetBuffer<i32> {
    if i32::try_from(length).is_ok() && ends.last().is_some_and(|&last| last as usize == length) {
        // SAFETY: as said.
        return unsafe { OffsetBuffer::new_unchecked(ends) };
    }
    offsets(ends)
}

/// An array of text or bytes. ASCII, as header keys are, is text wherever it is cut.
pub(crate) fn text<B: ByteArrayType<Offset = i32>>(
    ends: &OffsetBuffer<i32>,
    data: &Buffer,
    valid: Option<&NullBuffer>,
) -> Result<GenericByteArray<B>, ArrowError> {
    let (ends, data, valid) = (ends.clone(), data.clone(), valid.cloned());
    let fits = ends.last() as usize <= data.len();
    if fits && valid.as_ref().is_none_or(|valid| valid.len() == ends.len() - 1) && data.is_ascii() {
        // SAFETY: offsets are in order, the last is within the data, which is UTF-8 from any place to any other, and
        // there is a bit of validity for each row.
        return Ok(unsafe { GenericByteArray::new_unchecked(ends, data, valid) });
    }
    GenericByteArray::try_new(ends, data, valid)
}

/// An array of views that were all made by `cells::view`, of strings in buffers that reach to where the views say.
pub(crate) fn views(
    views: ScalarBuffer<u128>,
    buffers: &[Buffer],
    valid: Option<NullBuffer>,
) -> Result<BinaryViewArray, ArrowError> {
    if valid.as_ref().is_none_or(|valid| valid.len() == views.len()) {
        // SAFETY: `cells::view` makes a view of a string within the batch's bytes, with its own prefix; the builder has
        // seen that these bytes lie in that buffer (`Builder::sees_views`); and there is a bit of validity for each row.
        return Ok(unsafe { BinaryViewArray::new_unchecked(views, buffers.into(), valid) });
    }
    BinaryViewArray::try_new(views, buffers.to_vec(), valid)
}
