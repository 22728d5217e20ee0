//! Growing columns: byte strings by copy or by view, and values that hold for a whole batch of records.

use std::sync::Arc;

use arrow_array::types::{ByteArrayType, ByteViewType};
use arrow_array::{
    ArrayRef, BooleanArray, GenericByteArray, GenericByteViewArray, Int8Array, Int16Array, Int32Array,
    Int64Array, StringArray,
};
use arrow_buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::ArrowError;

use super::bitmap::Bitmap;
use super::pool::Pool;
use crate::header::key_text;

/// Takes the buffers out of a growing vector and leaves one from the pool in its place.
fn swap_out<T: super::pool::Element>(values: &mut Vec<T>, pool: &Arc<Pool>) -> Buffer {
    pool.lend(std::mem::replace(values, pool.take()))
}

/// Offsets of a list or byte-string column: one more than there are rows.
#[derive(Debug)]
pub(crate) struct Ends(Vec<i32>);

impl Ends {
    pub(crate) fn new(pool: &Pool) -> Self {
        let mut ends = pool.take();
        ends.push(0);
        Self(ends)
    }

    #[inline(always)]
    pub(crate) fn push(&mut self, end: usize) {
        // Whoever fills a column keeps it below 2 GiB.
        self.0.push(end as i32);
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len() - 1
    }

    pub(crate) fn last(&self) -> usize {
        self.0.last().map_or(0, |&end| end as usize)
    }

    pub(crate) fn truncate(&mut self, rows: usize) {
        self.0.truncate(rows + 1);
    }

    pub(crate) fn take(&mut self, pool: &Arc<Pool>) -> OffsetBuffer<i32> {
        let buffer = swap_out(&mut self.0, pool);
        self.0.push(0);
        OffsetBuffer::new(ScalarBuffer::from(buffer))
    }
}

/// Byte strings, copied one behind the other.
#[derive(Debug)]
pub(crate) struct Copied {
    ends: Ends,
    data: Vec<u8>,
    valid: Bitmap,
}

impl Copied {
    fn new(pool: &Pool) -> Self {
        Self { ends: Ends::new(pool), data: pool.take(), valid: Bitmap::default() }
    }

    #[inline(always)]
    fn push(&mut self, value: Option<&[u8]>) {
        if let Some(value) = value {
            self.data.extend_from_slice(value);
        }
        self.ends.push(self.data.len());
        self.valid.push(value.is_some());
    }
}

/// Byte strings as 16-byte views: up to 12 bytes within the view, longer ones by their place in a buffer.
#[derive(Debug)]
pub(crate) struct Viewed {
    views: Vec<u128>,
    valid: Bitmap,
}

/// Where viewed bytes lie: the address that offsets count from, and the buffer's number in the record batch.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Origin {
    pub(crate) address: usize,
    pub(crate) buffer: u32,
}

impl Viewed {
    #[inline(always)]
    fn push(&mut self, value: Option<&[u8]>, origin: Origin) {
        self.valid.push(value.is_some());
        let bytes = value.unwrap_or_default();
        self.views.push(match bytes.first_chunk::<4>() {
            Some(prefix) if bytes.len() > 12 => {
                let at = (bytes.as_ptr() as usize).wrapping_sub(origin.address) as u32;
                let prefix = u32::from_le_bytes(*prefix);
                bytes.len() as u128
                    | u128::from(prefix) << 32
                    | u128::from(origin.buffer) << 64
                    | u128::from(at) << 96
            }
            _ => {
                let mut view = [0u8; 16];
                view[0] = bytes.len() as u8;
                view[4..4 + bytes.len()].copy_from_slice(bytes);
                u128::from_le_bytes(view)
            }
        });
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
    pub(crate) rows: usize,
    bytes: usize,
}

impl Strings {
    pub(crate) fn new(views: bool, pool: &Pool) -> Self {
        if views {
            Self::Viewed(Viewed { views: pool.take(), valid: Bitmap::default() })
        } else {
            Self::Copied(Copied::new(pool))
        }
    }

    #[inline(always)]
    pub(crate) fn push(&mut self, value: Option<&[u8]>, origin: Origin) {
        match self {
            Self::Copied(column) => column.push(value),
            Self::Viewed(column) => column.push(value, origin),
        }
    }

    pub(crate) fn mark(&self) -> Mark {
        match self {
            Self::Copied(column) => Mark { rows: column.ends.len(), bytes: column.data.len() },
            Self::Viewed(column) => Mark { rows: column.views.len(), bytes: 0 },
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
                column.views.truncate(to.rows);
                column.valid.truncate(to.rows);
            }
        }
    }

    /// Bytes that the column holds so far.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Copied(column) => column.data.len() + 4 * column.ends.len(),
            Self::Viewed(column) => 16 * column.views.len(),
        }
    }

    /// Takes the rows out as an array of byte strings or, where all are UTF-8, of text. With `lossy`, what is not
    /// becomes U+FFFD.
    pub(crate) fn take<B, V>(
        &mut self,
        buffers: &[Buffer],
        pool: &Arc<Pool>,
        lossy: bool,
    ) -> Result<ArrayRef, ArrowError>
    where
        B: ByteArrayType<Offset = i32>,
        V: ByteViewType + ?Sized,
    {
        match self {
            Self::Copied(column) => {
                let ends = column.ends.take(pool);
                let data = swap_out(&mut column.data, pool);
                let valid = column.valid.take_validity();
                match GenericByteArray::<B>::try_new(ends.clone(), data.clone(), valid.clone()) {
                    Ok(array) => Ok(Arc::new(array)),
                    Err(_) if lossy => Ok(Arc::new(repaired(&ends, &data, valid.as_ref()))),
                    Err(error) => Err(error),
                }
            }
            Self::Viewed(column) => {
                let views: ScalarBuffer<u128> = swap_out(&mut column.views, pool).into();
                let valid = column.valid.take_validity();
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

/// A value that all records of a batch share.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Shared {
    Null,
    Int(i64),
    Bool(bool),
    Text(Arc<str>),
}

/// A column whose values come in runs.
#[derive(Debug, Default)]
pub(crate) struct Runs {
    runs: Vec<(Shared, usize)>,
}

impl Runs {
    pub(crate) fn push(&mut self, value: Shared, rows: usize) {
        match self.runs.last_mut() {
            _ if rows == 0 => {}
            Some((last, count)) if *last == value => *count += rows,
            _ => self.runs.push((value, rows)),
        }
    }

    fn each<T>(&mut self, value: impl Fn(&Shared) -> Option<T>) -> impl Iterator<Item = Option<T>>
    where
        T: Clone,
    {
        let runs: Vec<_> = self.runs.drain(..).map(|(shared, rows)| (value(&shared), rows)).collect();
        runs.into_iter().flat_map(|(value, rows)| std::iter::repeat_n(value, rows))
    }

    pub(crate) fn take(&mut self, data_type: &arrow_schema::DataType) -> ArrayRef {
        use arrow_schema::DataType;
        let int = |shared: &Shared| match shared {
            Shared::Int(value) => Some(*value),
            _ => None,
        };
        match data_type {
            DataType::Boolean => {
                let bit = |shared: &Shared| if let Shared::Bool(bit) = shared { Some(*bit) } else { None };
                Arc::new(self.each(bit).collect::<BooleanArray>())
            }
            DataType::Int8 => Arc::new(self.each(|s| int(s).map(|v| v as i8)).collect::<Int8Array>()),
            DataType::Int16 => Arc::new(self.each(|s| int(s).map(|v| v as i16)).collect::<Int16Array>()),
            DataType::Int32 => Arc::new(self.each(|s| int(s).map(|v| v as i32)).collect::<Int32Array>()),
            DataType::Int64 => Arc::new(self.each(int).collect::<Int64Array>()),
            _ => {
                let text =
                    |s: &Shared| if let Shared::Text(text) = s { Some(Arc::clone(text)) } else { None };
                Arc::new(self.each(text).collect::<StringArray>())
            }
        }
    }
}
