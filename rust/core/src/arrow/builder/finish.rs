//! Hands out what a builder has grown as a record batch.

use std::sync::Arc;

use arrow_array::types::{BinaryViewType, GenericBinaryType, GenericStringType, StringViewType};
use arrow_array::{
    Array, ArrayRef, BooleanArray, Int32Array, Int64Array, ListArray, RecordBatch, RecordBatchOptions,
    StructArray, TimestampMicrosecondArray,
};
use arrow_buffer::{Buffer, NullBuffer, ScalarBuffer};
use arrow_schema::{ArrowError, DataType};

use super::Builder;
use crate::arrow::bitmap::Bitmap;
use crate::arrow::cells::Strings;
use crate::arrow::column::{Column, element, header_fields};
use crate::arrow::pool::Pool;

impl Builder {
    /// Validity of columns that only damage leaves null.
    fn validity(&self, rows: usize) -> Option<NullBuffer> {
        if self.null_rows.is_empty() {
            return None;
        }
        let mut valid = vec![true; rows];
        self.null_rows.iter().for_each(|&row| valid[row] = false);
        Some(NullBuffer::from(valid))
    }

    /// Takes the rows out as a record batch.
    pub fn finish(&mut self) -> Result<RecordBatch, ArrowError> {
        let rows = std::mem::take(&mut self.rows);
        let buffers = std::mem::take(&mut self.buffers);
        let valid = self.validity(rows);
        self.null_rows.clear();
        let mut arrays: Vec<ArrayRef> = Vec::with_capacity(self.shape.columns.len());
        let timestamps = self.timestamps.as_mut().map(|column| {
            let full = std::mem::replace(column, self.pool.take());
            ScalarBuffer::<i64>::from(self.pool.lend(full))
        });
        for column in self.shape.columns.clone() {
            let array = match column {
                Column::Key => strings(self.key.as_mut(), &buffers, &self.pool)?,
                Column::Value => strings(self.value.as_mut(), &buffers, &self.pool)?,
                Column::Headers => self.finish_headers(&buffers, valid.as_ref())?,
                Column::RawHeaderKeys => self.finish_raw_keys(valid.as_ref())?,
                Column::Offset => {
                    let full = self.offsets.as_mut().map(|c| std::mem::replace(c, self.pool.take()));
                    let values = ScalarBuffer::<i64>::from(self.pool.lend(full.unwrap_or_default()));
                    Arc::new(Int64Array::try_new(values, valid.clone())?)
                }
                Column::Sequence => {
                    let full = self.sequences.as_mut().map(|c| std::mem::replace(c, self.pool.take()));
                    let values = ScalarBuffer::<i32>::from(self.pool.lend(full.unwrap_or_default()));
                    Arc::new(Int32Array::try_new(values, valid.clone())?)
                }
                Column::TimestampMs => {
                    let values = timestamps.clone().unwrap_or_default();
                    Arc::new(Int64Array::try_new(values, valid.clone())?)
                }
                Column::Timestamp => {
                    let values = timestamps.clone().unwrap_or_default();
                    self.microseconds(&values, valid.as_ref())
                }
                Column::Tombstone => {
                    let bits = self.tombstones.as_mut().map(Bitmap::take);
                    let bits = bits.ok_or_else(missing)?;
                    Arc::new(BooleanArray::new(bits, valid.clone()))
                }
                shared => {
                    let found = self.shared.iter_mut().find(|(column, _)| *column == shared);
                    let (_, runs) = found.ok_or_else(missing)?;
                    runs.take(&shared.data_type(self.shape.flavor))
                }
            };
            arrays.push(array);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(self.schema(), arrays, &options)
    }

    /// Milliseconds to microseconds. What does not fit 64 bits that way is null: `timestampMs` has it.
    fn microseconds(&self, values: &[i64], valid: Option<&NullBuffer>) -> ArrayRef {
        const LEAST: i64 = i64::MIN / 1000;
        const MOST: i64 = i64::MAX / 1000;
        let mut micros: Vec<i64> = self.pool.take();
        micros.extend(values.iter().map(|ms| ms.wrapping_mul(1000)));
        let is_null = |ms: i64| !(LEAST..=MOST).contains(&ms) || (ms == -1 && !self.shape.flavor.spark);
        let nulls = if values.iter().fold(false, |any, &ms| any | is_null(ms)) {
            let mine = NullBuffer::from_iter(values.iter().map(|&ms| !is_null(ms)));
            NullBuffer::union(Some(&mine), valid)
        } else {
            valid.cloned()
        };
        let values = ScalarBuffer::<i64>::from(self.pool.lend(micros));
        let array = TimestampMicrosecondArray::new(values, nulls);
        Arc::new(array.with_data_type(Column::Timestamp.data_type(self.shape.flavor)))
    }

    fn finish_headers(
        &mut self,
        buffers: &[Buffer],
        valid: Option<&NullBuffer>,
    ) -> Result<ArrayRef, ArrowError> {
        let headers = self.headers.as_mut().ok_or_else(missing)?;
        let keys = headers.keys.take::<GenericStringType<i32>, StringViewType>(buffers, &self.pool, true)?;
        let values = strings(Some(&mut headers.values), buffers, &self.pool)?;
        let ends = headers.ends.take(&self.pool);
        let there = headers.there.take_validity();
        let validity = if self.shape.flavor.spark { there } else { valid.cloned() };
        let fields = header_fields(self.shape.flavor);
        let length = keys.len();
        let structs = StructArray::try_new_with_length(fields.clone(), vec![keys, values], None, length)?;
        let field = element(DataType::Struct(fields));
        Ok(Arc::new(ListArray::try_new(field, ends, Arc::new(structs), validity)?))
    }

    fn finish_raw_keys(&mut self, valid: Option<&NullBuffer>) -> Result<ArrayRef, ArrowError> {
        let raw = self.raw_keys.as_mut().ok_or_else(missing)?;
        let keys = strings(Some(&mut raw.keys), &[], &self.pool)?;
        let ends = raw.ends.take(&self.pool);
        Ok(Arc::new(ListArray::try_new(element(DataType::Binary), ends, keys, valid.cloned())?))
    }
}

fn strings(
    column: Option<&mut Strings>,
    buffers: &[Buffer],
    pool: &Arc<Pool>,
) -> Result<ArrayRef, ArrowError> {
    let column = column.ok_or_else(missing)?;
    column.take::<GenericBinaryType<i32>, BinaryViewType>(buffers, pool, false)
}

/// A column of the shape has no cells: cannot be, since both come from the same list.
fn missing() -> ArrowError {
    ArrowError::SchemaError("a column without cells".into())
}
