//! Columns of Arrow as they come in: found by name, their types checked once, then a row at a time.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Int8Type, Int16Type, Int32Type, Int64Type, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType,
};
use arrow_array::{
    Array, ArrayRef, BinaryArray, BinaryViewArray, BooleanArray, Int8Array, Int16Array, Int32Array,
    Int64Array, LargeBinaryArray, LargeListArray, LargeStringArray, ListArray, RecordBatch, StringArray,
    StringViewArray, TimestampMicrosecondArray, TimestampMillisecondArray, TimestampNanosecondArray,
    TimestampSecondArray,
};
use arrow_schema::{DataType, TimeUnit};

use super::Column;
use super::rows_in::ColumnsError;
use crate::header::Header;

/// Byte strings or text, however Arrow keeps them.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Strings<'a> {
    Binary(&'a BinaryArray),
    LargeBinary(&'a LargeBinaryArray),
    BinaryView(&'a BinaryViewArray),
    Text(&'a StringArray),
    LargeText(&'a LargeStringArray),
    TextView(&'a StringViewArray),
}

impl<'a> Strings<'a> {
    fn of(array: &'a ArrayRef) -> Option<Self> {
        Some(match array.data_type() {
            DataType::Binary => Self::Binary(array.as_binary_opt()?),
            DataType::LargeBinary => Self::LargeBinary(array.as_binary_opt()?),
            DataType::BinaryView => Self::BinaryView(array.as_binary_view_opt()?),
            DataType::Utf8 => Self::Text(array.as_string_opt()?),
            DataType::LargeUtf8 => Self::LargeText(array.as_string_opt()?),
            DataType::Utf8View => Self::TextView(array.as_string_view_opt()?),
            _ => return None,
        })
    }

    #[inline(always)]
    pub(crate) fn get(self, row: usize) -> Option<&'a [u8]> {
        match self {
            Self::Binary(array) => array.is_valid(row).then(|| array.value(row)),
            Self::LargeBinary(array) => array.is_valid(row).then(|| array.value(row)),
            Self::BinaryView(array) => array.is_valid(row).then(|| array.value(row)),
            Self::Text(array) => array.is_valid(row).then(|| array.value(row).as_bytes()),
            Self::LargeText(array) => array.is_valid(row).then(|| array.value(row).as_bytes()),
            Self::TextView(array) => array.is_valid(row).then(|| array.value(row).as_bytes()),
        }
    }
}

/// Whole numbers of any width that can be a field's.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Numbers<'a> {
    I8(&'a Int8Array),
    I16(&'a Int16Array),
    I32(&'a Int32Array),
    I64(&'a Int64Array),
}

impl<'a> Numbers<'a> {
    fn of(array: &'a ArrayRef) -> Option<Self> {
        Some(match array.data_type() {
            DataType::Int8 => Self::I8(array.as_primitive_opt::<Int8Type>()?),
            DataType::Int16 => Self::I16(array.as_primitive_opt::<Int16Type>()?),
            DataType::Int32 => Self::I32(array.as_primitive_opt::<Int32Type>()?),
            DataType::Int64 => Self::I64(array.as_primitive_opt::<Int64Type>()?),
            _ => return None,
        })
    }

    #[inline(always)]
    pub(crate) fn get(self, row: usize) -> Option<i64> {
        match self {
            Self::I8(array) => array.is_valid(row).then(|| array.value(row).into()),
            Self::I16(array) => array.is_valid(row).then(|| array.value(row).into()),
            Self::I32(array) => array.is_valid(row).then(|| array.value(row).into()),
            Self::I64(array) => array.is_valid(row).then(|| array.value(row)),
        }
    }
}

/// Times of any unit; a zone does not change what moment they are, and without one they are taken for UTC.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Times<'a> {
    Seconds(&'a TimestampSecondArray),
    Millis(&'a TimestampMillisecondArray),
    Micros(&'a TimestampMicrosecondArray),
    Nanos(&'a TimestampNanosecondArray),
    /// `timestampMs`.
    Numbers(Numbers<'a>),
}

impl<'a> Times<'a> {
    fn of(array: &'a ArrayRef) -> Option<Self> {
        Some(match array.data_type() {
            DataType::Timestamp(TimeUnit::Second, _) => {
                Self::Seconds(array.as_primitive_opt::<TimestampSecondType>()?)
            }
            DataType::Timestamp(TimeUnit::Millisecond, _) => {
                Self::Millis(array.as_primitive_opt::<TimestampMillisecondType>()?)
            }
            DataType::Timestamp(TimeUnit::Microsecond, _) => {
                Self::Micros(array.as_primitive_opt::<TimestampMicrosecondType>()?)
            }
            DataType::Timestamp(TimeUnit::Nanosecond, _) => {
                Self::Nanos(array.as_primitive_opt::<TimestampNanosecondType>()?)
            }
            _ => return None,
        })
    }

    /// In milliseconds, as records have them.
    #[inline(always)]
    pub(crate) fn get(self, row: usize) -> Option<i64> {
        match self {
            Self::Seconds(array) => array.is_valid(row).then(|| array.value(row).saturating_mul(1000)),
            Self::Millis(array) => array.is_valid(row).then(|| array.value(row)),
            Self::Micros(array) => array.is_valid(row).then(|| array.value(row).div_euclid(1000)),
            Self::Nanos(array) => array.is_valid(row).then(|| array.value(row).div_euclid(1_000_000)),
            Self::Numbers(numbers) => numbers.get(row),
        }
    }
}

/// Where a row's elements lie.
#[derive(Clone, Copy, Debug)]
enum Lists<'a> {
    List(&'a ListArray),
    Large(&'a LargeListArray),
}

impl<'a> Lists<'a> {
    fn of(array: &'a ArrayRef) -> Option<Self> {
        Some(match array.data_type() {
            DataType::List(_) => Self::List(array.as_list_opt()?),
            DataType::LargeList(_) => Self::Large(array.as_list_opt()?),
            _ => return None,
        })
    }

    fn values(self) -> &'a ArrayRef {
        match self {
            Self::List(array) => array.values(),
            Self::Large(array) => array.values(),
        }
    }

    #[inline(always)]
    fn range(self, row: usize) -> std::ops::Range<usize> {
        match self {
            Self::List(array) if array.is_valid(row) => {
                let ends = array.value_offsets();
                ends[row] as usize..ends[row + 1] as usize
            }
            Self::Large(array) if array.is_valid(row) => {
                let ends = array.value_offsets();
                ends[row] as usize..ends[row + 1] as usize
            }
            _ => 0..0,
        }
    }
}

/// The column of headers: lists of a key and a value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeaderLists<'a> {
    lists: Lists<'a>,
    keys: Strings<'a>,
    values: Strings<'a>,
}

impl<'a> HeaderLists<'a> {
    fn of(array: &'a ArrayRef) -> Option<Self> {
        let lists = Lists::of(array)?;
        let fields = lists.values().as_struct_opt()?;
        let &[key, value] = fields.columns().iter().collect::<Vec<_>>().as_slice() else { return None };
        Some(Self { lists, keys: Strings::of(key)?, values: Strings::of(value)? })
    }
}

/// The columns of one record batch that say something of a record; others are passed over.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ColumnsIn<'a> {
    pub(crate) key: Option<Strings<'a>>,
    pub(crate) value: Option<Strings<'a>>,
    pub(crate) topic: Option<Strings<'a>>,
    pub(crate) partition: Option<Numbers<'a>>,
    pub(crate) offset: Option<Numbers<'a>>,
    pub(crate) timestamp: Option<Times<'a>>,
    pub(crate) timestamp_type: Option<Numbers<'a>>,
    pub(crate) tombstone: Option<&'a BooleanArray>,
    pub(crate) leader_epoch: Option<Numbers<'a>>,
    pub(crate) producer_id: Option<Numbers<'a>>,
    pub(crate) producer_epoch: Option<Numbers<'a>>,
    pub(crate) sequence: Option<Numbers<'a>>,
    pub(crate) transactional: Option<&'a BooleanArray>,
    pub(crate) control: Option<&'a BooleanArray>,
    headers: Option<HeaderLists<'a>>,
    raw_keys: Option<(Lists<'a>, Strings<'a>)>,
}

impl<'a> ColumnsIn<'a> {
    pub(crate) fn of(batch: &'a RecordBatch) -> Result<Self, ColumnsError> {
        let mut found = Self::default();
        let mut millis = None;
        for (field, array) in batch.schema_ref().fields().iter().zip(batch.columns()) {
            let Some(column) = Column::from_name(field.name()) else { continue };
            // A column of nothing but nulls says nothing; Spark and pyarrow give it the type null.
            if array.data_type() == &DataType::Null {
                continue;
            }
            let fits = match column {
                Column::Key => put(&mut found.key, Strings::of(array)),
                Column::Value => put(&mut found.value, Strings::of(array)),
                Column::Topic => put(&mut found.topic, Strings::of(array)),
                Column::Partition => put(&mut found.partition, Numbers::of(array)),
                Column::Offset => put(&mut found.offset, Numbers::of(array)),
                Column::Timestamp => put(&mut found.timestamp, Times::of(array)),
                Column::TimestampMs => put(&mut millis, Numbers::of(array).map(Times::Numbers)),
                Column::TimestampType => put(&mut found.timestamp_type, Numbers::of(array)),
                Column::Headers => put(&mut found.headers, HeaderLists::of(array)),
                Column::RawHeaderKeys => put(&mut found.raw_keys, raw_keys(array)),
                Column::Tombstone => put(&mut found.tombstone, array.as_boolean_opt()),
                Column::LeaderEpoch => put(&mut found.leader_epoch, Numbers::of(array)),
                Column::ProducerId => put(&mut found.producer_id, Numbers::of(array)),
                Column::ProducerEpoch => put(&mut found.producer_epoch, Numbers::of(array)),
                Column::Sequence => put(&mut found.sequence, Numbers::of(array)),
                Column::IsTransactional => put(&mut found.transactional, array.as_boolean_opt()),
                Column::IsControl => put(&mut found.control, array.as_boolean_opt()),
                Column::CorruptRecord if array.null_count() < array.len() => {
                    return Err(ColumnsError::Damage);
                }
                _ => true,
            };
            if !fits {
                return Err(ColumnsError::Type {
                    column: column.name(),
                    found: array.data_type().to_string(),
                });
            }
        }
        // Exact where the other has been rounded by nobody knows whom.
        found.timestamp = millis.or(found.timestamp);
        Ok(found)
    }

    /// The row's headers, into `into`; `Err` tells which of them has no key.
    #[inline(always)]
    pub(crate) fn headers(&self, row: usize, into: &mut Vec<Header<'a>>) -> Result<(), usize> {
        into.clear();
        let Some(HeaderLists { lists, keys, values }) = self.headers else { return Ok(()) };
        let range = lists.range(row);
        if range.is_empty() {
            return Ok(());
        }
        let raw = self.raw_keys.map(|(lists, keys)| (lists.range(row), keys));
        for (index, at) in range.clone().enumerate() {
            let key = match &raw {
                Some((own, keys)) if own.len() == range.len() => keys.get(own.start + index),
                _ => keys.get(at),
            };
            into.push(Header { key: key.ok_or(index)?, value: values.get(at) });
        }
        Ok(())
    }
}

fn raw_keys(array: &ArrayRef) -> Option<(Lists<'_>, Strings<'_>)> {
    let lists = Lists::of(array)?;
    Some((lists, Strings::of(lists.values())?))
}

fn put<T>(place: &mut Option<T>, found: Option<T>) -> bool {
    let fits = found.is_some();
    *place = found;
    fits
}
