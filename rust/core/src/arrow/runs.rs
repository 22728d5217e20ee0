//! Columns whose value holds for a whole batch of records: topic, partition, producer state.

use std::sync::Arc;

use arrow_array::types::{ArrowPrimitiveType, Int8Type, Int16Type, Int32Type, Int64Type};
use arrow_array::{Array, ArrayRef, BooleanArray, PrimitiveArray, StringArray};
use arrow_buffer::{Buffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{ArrowError, DataType};

use super::bitmap::Bitmap;

/// A value that all records of a batch share.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Shared {
    Null,
    Int(i64),
    Bool(bool),
    Text(Arc<str>),
}

impl Shared {
    pub(crate) fn is_text(&self, text: &Arc<str>) -> bool {
        matches!(self, Self::Text(own) if Arc::ptr_eq(own, text))
    }

    pub(crate) fn is_int(&self, int: i64) -> bool {
        *self == Self::Int(int)
    }
}

/// A column whose values come in runs.
#[derive(Debug, Default)]
pub(crate) struct Runs {
    runs: Vec<(Shared, usize)>,
    /// The array of one value that was handed out last. A log of one partition needs no other: each record batch
    /// takes a slice of it.
    constant: Option<(Shared, ArrayRef)>,
}

impl Runs {
    pub(crate) fn push(&mut self, value: Shared, rows: usize) {
        match self.runs.last_mut() {
            _ if rows == 0 => {}
            Some((last, count)) if *last == value => *count += rows,
            _ => self.runs.push((value, rows)),
        }
    }

    /// Goes on with the value that came last, if it `is` the one; tells whether it was.
    pub(crate) fn repeats(&mut self, rows: usize, is: impl Fn(&Shared) -> bool) -> bool {
        match self.runs.last_mut() {
            Some((last, count)) if is(last) => {
                *count += rows;
                true
            }
            _ => false,
        }
    }

    pub(crate) fn take(&mut self, data_type: &DataType) -> Result<ArrayRef, ArrowError> {
        if let [(value, rows)] = &self.runs[..] {
            let rows = *rows;
            let array = match self.constant.take() {
                Some((cached, array)) if cached == *value && array.len() >= rows => array,
                _ => {
                    // Record batches differ a little in rows.
                    let more = [(value.clone(), rows.next_power_of_two())];
                    array(&more, data_type).or_else(|_| array(&self.runs, data_type))?
                }
            };
            let taken = array.slice(0, rows);
            self.constant = Some((value.clone(), array));
            self.runs.clear();
            return Ok(taken);
        }
        let array = array(&self.runs, data_type);
        self.runs.clear();
        array
    }
}

fn array(runs: &[(Shared, usize)], data_type: &DataType) -> Result<ArrayRef, ArrowError> {
    match data_type {
        DataType::Boolean => Ok(Arc::new(booleans(runs))),
        DataType::Int8 => ints::<Int8Type>(runs, |value| value as i8),
        DataType::Int16 => ints::<Int16Type>(runs, |value| value as i16),
        DataType::Int32 => ints::<Int32Type>(runs, |value| value as i32),
        DataType::Int64 => ints::<Int64Type>(runs, |value| value),
        _ => texts(runs),
    }
}

/// Validity: set where `has` says that there is a value.
fn validity(runs: &[(Shared, usize)], has: impl Fn(&Shared) -> bool) -> Bitmap {
    let mut valid = Bitmap::default();
    runs.iter().for_each(|(value, rows)| valid.extend_run(has(value), *rows));
    valid
}

fn booleans(runs: &[(Shared, usize)]) -> BooleanArray {
    let mut bits = validity(runs, |value| *value == Shared::Bool(true));
    let mut valid = validity(runs, |value| matches!(value, Shared::Bool(_)));
    BooleanArray::new(bits.take(), valid.take_validity())
}

fn ints<T: ArrowPrimitiveType>(
    runs: &[(Shared, usize)],
    narrow: impl Fn(i64) -> T::Native,
) -> Result<ArrayRef, ArrowError> {
    let mut values = Vec::with_capacity(runs.iter().map(|(_, rows)| rows).sum());
    for (value, rows) in runs {
        let value = if let Shared::Int(value) = value { *value } else { 0 };
        values.resize(values.len() + rows, narrow(value));
    }
    let valid = validity(runs, |value| matches!(value, Shared::Int(_))).take_validity();
    Ok(Arc::new(PrimitiveArray::<T>::try_new(ScalarBuffer::from(values), valid)?))
}

fn texts(runs: &[(Shared, usize)]) -> Result<ArrayRef, ArrowError> {
    let text = |value: &Shared| if let Shared::Text(text) = value { Arc::clone(text) } else { "".into() };
    let bytes = runs.iter().try_fold(0usize, |sum, (value, rows)| {
        text(value).len().checked_mul(*rows).and_then(|bytes| sum.checked_add(bytes))
    });
    if bytes.is_none_or(|bytes| bytes > i32::MAX as usize) {
        return Err(ArrowError::OffsetOverflowError(bytes.unwrap_or(usize::MAX)));
    }
    let (mut data, mut ends) = (Vec::new(), vec![0i32]);
    for (value, rows) in runs {
        let (text, from) = (text(value), data.len());
        data.extend_from_slice(text.repeat(*rows).as_bytes());
        ends.extend((1..=*rows).map(|row| (from + row * text.len()) as i32));
    }
    let valid = validity(runs, |value| matches!(value, Shared::Text(_))).take_validity();
    let ends = OffsetBuffer::new(ScalarBuffer::from(ends));
    Ok(Arc::new(StringArray::try_new(ends, Buffer::from_vec(data), valid)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::cast::AsArray;

    #[test]
    fn values_in_runs() {
        let mut runs = Runs::default();
        runs.push(Shared::Text("a".into()), 2);
        runs.push(Shared::Null, 1);
        runs.push(Shared::Text("bc".into()), 1);
        let array = runs.take(&DataType::Utf8).expect("small");
        let texts: Vec<_> = array.as_string::<i32>().iter().collect();
        assert_eq!(texts, [Some("a"), Some("a"), None, Some("bc")]);
    }

    #[test]
    fn a_constant_is_made_once() {
        let mut runs = Runs::default();
        let mut take = |value, rows| {
            runs.push(Shared::Int(value), rows);
            runs.take(&DataType::Int32).expect("small")
        };
        let (first, second) = (take(7, 5), take(7, 3));
        let values = |array: &ArrayRef| array.as_primitive::<Int32Type>().values().to_vec();
        assert_eq!((values(&first), values(&second)), (vec![7; 5], vec![7; 3]));
        let start = |array: &ArrayRef| array.as_primitive::<Int32Type>().values().as_ptr();
        assert_eq!(start(&first), start(&second));
        assert_eq!(values(&take(8, 9)), [8; 9]);
    }
}
