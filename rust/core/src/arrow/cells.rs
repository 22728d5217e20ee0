//! Growing columns of byte strings and lists: by copy, or by view.

use std::sync::Arc;

use arrow_array::types::{ByteArrayType, ByteViewType};
use arrow_array::{ArrayRef, GenericByteArray, GenericByteViewArray, StringArray};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::ArrowError;

use super::bitmap::Bitmap;
use super::builder::Origin;
use super::pool::{Element, Pool};
use super::proven;
use crate::codec::Buffer as Bytes;
use crate::header::key_text;

/// A vector that grows in a buffer from the pool. It takes one when it is begun, not when the one before is handed
/// out: until then that one may have come back, still in the processor's cache.
#[derive(Debug)]
pub(crate) struct Grown<T> {
    pub(crate) values: Vec<T>,
    /// How many there were last time.
    usual: usize,
}

impl<T: Element> Grown<T> {
    pub(crate) const fn new() -> Self {
        Self { values: Vec::new(), usual: 0 }
    }

    pub(crate) fn begin(&mut self, pool: &Pool) {
        if self.values.capacity() == 0 {
            self.values = pool.take(self.usual);
        }
    }

    pub(crate) fn take(&mut self) -> Vec<T> {
        self.usual = self.values.len();
        std::mem::take(&mut self.values)
    }

    pub(crate) fn lend(&mut self, pool: &Arc<Pool>) -> Buffer {
        pool.lend(self.take())
    }
}

/// Where a byte string lies in a batch's bytes, which never are 2 GiB. A length of −1 is null.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Span {
    at: u32,
    length: i32,
}

impl Span {
    pub(crate) const NULL: Self = Self { at: 0, length: -1 };

    /// The place of `value` in bytes that begin at the address `base`.
    #[inline(always)]
    pub(crate) fn of(value: Option<&[u8]>, base: usize) -> Self {
        match value {
            // An empty string may lie anywhere.
            Some(value) => {
                Self { at: (value.as_ptr() as usize).wrapping_sub(base) as u32, length: value.len() as i32 }
            }
            None => Self::NULL,
        }
    }

    #[inline(always)]
    const fn is_null(self) -> bool {
        self.length < 0
    }

    #[inline(always)]
    fn length(self) -> usize {
        self.length.max(0) as usize
    }

    #[inline(always)]
    fn bytes(self, bytes: &[u8]) -> &[u8] {
        bytes.get(self.at as usize..).and_then(|rest| rest.get(..self.length())).unwrap_or_default()
    }
}

/// The bytes that spans are of, and what views of them point into.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) origin: Origin,
}

/// Offsets of a list or byte-string column: one more than there are rows.
#[derive(Debug)]
pub(crate) struct Ends(pub(super) Grown<i32>);

impl Ends {
    pub(crate) const fn new() -> Self {
        Self(Grown::new())
    }

    pub(crate) fn begin(&mut self, pool: &Pool) {
        self.0.begin(pool);
        if self.0.values.is_empty() {
            self.0.values.push(0);
        }
    }

    /// Appends rows of these lengths. Whoever fills a column keeps it below 2 GiB.
    pub(crate) fn extend(&mut self, lengths: impl Iterator<Item = u32>) {
        let mut end = self.last() as u32;
        self.0.values.extend(lengths.map(|length| {
            end = end.wrapping_add(length);
            end as i32
        }));
    }

    /// Appends a row without elements.
    pub(crate) fn push_empty(&mut self) {
        let last = self.last() as i32;
        self.0.values.push(last);
    }

    pub(crate) fn len(&self) -> usize {
        self.0.values.len().saturating_sub(1)
    }

    /// Which rows have elements, as validity; `None` where all have.
    pub(crate) fn filled(&self) -> Option<NullBuffer> {
        let ends = &self.0.values;
        let filled =
            NullBuffer::new(BooleanBuffer::collect_bool(self.len(), |row| ends[row] != ends[row + 1]));
        (filled.null_count() > 0).then_some(filled)
    }

    fn last(&self) -> usize {
        self.0.values.last().map_or(0, |&end| end as usize)
    }

    pub(crate) fn truncate(&mut self, rows: usize) {
        self.0.values.truncate(rows + 1);
    }

    pub(crate) fn take(&mut self, pool: &Arc<Pool>) -> OffsetBuffer<i32> {
        if self.0.values.is_empty() {
            self.0.values.push(0);
        }
        proven::offsets(ScalarBuffer::from(self.0.lend(pool)))
    }

    /// As [`Ends::take`], for ends in `length` bytes that were appended one behind the other.
    fn take_below(&mut self, length: usize, pool: &Arc<Pool>) -> OffsetBuffer<i32> {
        if self.0.values.is_empty() {
            self.0.values.push(0);
        }
        proven::appended(ScalarBuffer::from(self.0.lend(pool)), length)
    }
}

/// Strings up to this long are copied in one piece of constant size, which is two moves instead of a call. What
/// comes too much is overwritten by the next string.
const PIECE: usize = 32;
/// And up to twice this long in two.
const LONG: usize = 64;
/// Bytes of a batch up to which a column takes room for all of them, instead of adding up what it needs.
const SMALL: usize = 256 << 10;

/// Byte strings, copied one behind the other.
#[derive(Debug)]
pub(crate) struct Copied {
    pub(super) ends: Ends,
    pub(super) data: Bytes,
    /// How many bytes there were last time.
    usual: usize,
    pub(super) valid: Bitmap,
}

impl Copied {
    fn new() -> Self {
        Self { ends: Ends::new(), data: Bytes::new(), usual: 0, valid: Bitmap::default() }
    }

    fn begin(&mut self, pool: &Pool) {
        self.ends.begin(pool);
        if self.data.capacity() == 0 {
            self.data = Bytes::from_vec(pool.take_scratch(self.usual));
        }
    }

    /// Returns how many are null.
    fn extend(&mut self, bytes: &[u8], spans: impl ExactSizeIterator<Item = Span> + Clone) -> usize {
        let (row, start) = (self.ends.0.values.len(), self.data.len());
        self.ends.0.values.resize(row + spans.len(), 0);
        // The strings of one column do not overlap, so they take no more than the bytes they lie in.
        let most = match bytes.len() {
            length @ ..=SMALL => length,
            _ => spans.clone().map(Span::length).sum(),
        };
        let room = self.data.room(most + PIECE, usize::MAX);
        let (mut to, mut nulls) = (0, 0);
        for (span, end) in spans.zip(&mut self.ends.0.values[row..]) {
            copy(bytes, span, room, to);
            to += span.length();
            *end = (start + to) as i32;
            nulls += usize::from(span.is_null());
        }
        self.data.advance(to);
        nulls
    }

    fn take_data(&mut self, pool: &Arc<Pool>) -> Buffer {
        let (memory, filled) = std::mem::take(&mut self.data).into_parts();
        self.usual = filled;
        pool.lend(memory).slice_with_length(0, filled)
    }
}

/// Copies the string to `to` and perhaps some bytes more, in moves of constant size where it is short.
#[inline(always)]
fn copy(bytes: &[u8], span: Span, room: &mut [u8], to: usize) {
    let length = span.length();
    if length <= PIECE {
        let source = bytes.get(span.at as usize..).and_then(<[u8]>::first_chunk::<PIECE>);
        let target = room.get_mut(to..).and_then(<[u8]>::first_chunk_mut::<PIECE>);
        if let (Some(source), Some(target)) = (source, target) {
            *target = *source;
            return;
        }
    }
    let source = span.bytes(bytes);
    let target = &mut room[to..to + source.len()];
    // Two moves that overlap reach every length between one and two of them.
    if length <= 2 * LONG
        && let (Some(first), Some(last)) = (source.first_chunk::<LONG>(), source.last_chunk::<LONG>())
    {
        if let Some(target) = target.first_chunk_mut() {
            *target = *first;
        }
        if let Some(target) = target.last_chunk_mut() {
            *target = *last;
        }
        return;
    }
    target.copy_from_slice(source);
}

/// Byte strings as 16-byte views: up to 12 bytes within the view, longer ones by their place in a buffer.
#[derive(Debug)]
pub(crate) struct Viewed {
    pub(super) views: Grown<u128>,
    pub(super) valid: Bitmap,
}

/// Longest string that a view holds in itself.
pub(crate) const INLINE: usize = 12;

impl Origin {
    /// The view of a string of `length` bytes, above [`INLINE`], that begins with `prefix` at `address`.
    #[inline(always)]
    pub(crate) fn long(self, length: usize, prefix: u32, address: usize) -> u128 {
        let at = address.wrapping_sub(self.address) as u32;
        length as u128 | u128::from(prefix) << 32 | u128::from(self.buffer) << 64 | u128::from(at) << 96
    }

    /// The view of a string.
    #[inline(always)]
    pub(crate) fn view(self, string: &[u8]) -> u128 {
        match string.first_chunk::<4>() {
            Some(prefix) if string.len() > INLINE => {
                self.long(string.len(), u32::from_le_bytes(*prefix), string.as_ptr() as usize)
            }
            _ => {
                let mut view = [0u8; 16];
                view[4..4 + string.len()].copy_from_slice(string);
                u128::from_le_bytes(view) | string.len() as u128
            }
        }
    }
}

/// A column of byte strings, one way or the other.
#[derive(Debug)]
pub(crate) enum Strings {
    Copied(Copied),
    Viewed(Viewed),
}

/// How far a column was, to cut it back to.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Mark {
    rows: usize,
    bytes: usize,
}

impl Strings {
    pub(crate) fn new(views: bool) -> Self {
        if views {
            Self::Viewed(Viewed { views: Grown::new(), valid: Bitmap::default() })
        } else {
            Self::Copied(Copied::new())
        }
    }

    /// Takes memory from the pool, if there is none.
    pub(crate) fn begin(&mut self, pool: &Pool) {
        match self {
            Self::Copied(column) => column.begin(pool),
            Self::Viewed(column) => column.views.begin(pool),
        }
    }

    pub(crate) fn extend(&mut self, place: Place<'_>, spans: impl ExactSizeIterator<Item = Span> + Clone) {
        let (valid, nulls) = match self {
            Self::Copied(column) => {
                let nulls = column.extend(place.bytes, spans.clone());
                (&mut column.valid, nulls)
            }
            Self::Viewed(column) => {
                column
                    .views
                    .values
                    .extend(spans.clone().map(|span| place.origin.view(span.bytes(place.bytes))));
                (&mut column.valid, spans.clone().map(|span| usize::from(span.is_null())).sum())
            }
        };
        match spans.len() {
            rows if nulls == 0 || nulls == rows => valid.extend_run(nulls == 0, rows),
            _ => valid.extend(spans.map(|span| !span.is_null())),
        }
    }

    pub(crate) fn push_null(&mut self) {
        self.extend(Place { bytes: &[], origin: Origin::default() }, [Span::NULL].into_iter());
    }

    pub(crate) fn rows(&self) -> usize {
        self.mark().rows
    }

    pub(crate) fn mark(&self) -> Mark {
        match self {
            Self::Copied(column) => Mark { rows: column.ends.len(), bytes: column.data.len() },
            Self::Viewed(column) => Mark { rows: column.views.values.len(), bytes: 0 },
        }
    }

    pub(crate) fn truncate(&mut self, to: Mark) {
        match self {
            Self::Copied(column) => {
                column.ends.truncate(to.rows);
                column.data.truncate(to.bytes);
                column.valid.truncate(to.rows);
            }
            Self::Viewed(column) => {
                column.views.values.truncate(to.rows);
                column.valid.truncate(to.rows);
            }
        }
    }

    /// Bytes that the column holds so far.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Copied(column) => column.data.len() + 4 * column.ends.len(),
            Self::Viewed(column) => 16 * column.views.values.len(),
        }
    }

    /// Takes the rows out as an array of byte strings or, where all are UTF-8, of text. With `lossy`, what is not
    /// becomes U+FFFD. `seen` says that all views are known to lie in `buffers`.
    pub(crate) fn take<B, V>(
        &mut self,
        buffers: &[Buffer],
        pool: &Arc<Pool>,
        lossy: bool,
        seen: bool,
    ) -> Result<ArrayRef, ArrowError>
    where
        B: ByteArrayType<Offset = i32>,
        V: ByteViewType + ?Sized,
    {
        match self {
            Self::Copied(column) => {
                let data = column.take_data(pool);
                let ends = column.ends.take_below(data.len(), pool);
                let valid = column.valid.take_validity();
                if !lossy {
                    return Ok(Arc::new(GenericByteArray::<B>::try_new(ends, data, valid)?));
                }
                match proven::text::<B>(&ends, &data, valid.as_ref()) {
                    Ok(array) => Ok(Arc::new(array)),
                    Err(_) => Ok(Arc::new(repaired(&ends, &data, valid.as_ref()))),
                }
            }
            Self::Viewed(column) => {
                let views: ScalarBuffer<u128> = column.views.lend(pool).into();
                let valid = column.valid.take_validity();
                if !lossy && seen {
                    return Ok(Arc::new(proven::views(views, buffers, valid)?));
                }
                match GenericByteViewArray::<V>::try_new(views.clone(), buffers.to_vec(), valid.clone()) {
                    Ok(array) => Ok(Arc::new(array)),
                    Err(_) if lossy => repaired_views(views, buffers, valid),
                    Err(error) => Err(error),
                }
            }
        }
    }
}

/// Header keys that are not UTF-8 are rare, so this may be slow.
#[cold]
fn repaired(ends: &OffsetBuffer<i32>, data: &[u8], valid: Option<&NullBuffer>) -> StringArray {
    ends.windows(2)
        .enumerate()
        .map(|(row, ends)| {
            let bytes = data.get(ends[0] as usize..ends[1] as usize)?;
            valid.is_none_or(|valid| valid.is_valid(row)).then(|| key_text(bytes))
        })
        .collect()
}

#[cold]
fn repaired_views(
    views: ScalarBuffer<u128>,
    buffers: &[Buffer],
    valid: Option<NullBuffer>,
) -> Result<ArrayRef, ArrowError> {
    let binary = arrow_array::BinaryViewArray::try_new(views, buffers.to_vec(), valid)?;
    let text: arrow_array::StringViewArray = binary.iter().map(|bytes| bytes.map(key_text)).collect();
    Ok(Arc::new(text))
}
