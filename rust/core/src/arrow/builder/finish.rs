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
        self.begun = false;
        let seen = !std::mem::take(&mut self.unseen);
        let valid = self.validity(rows);
        self.null_rows.clear();
        let mut arrays: Vec<ArrayRef> = Vec::with_capacity(self.shape.columns.len());
        let timestamps = self.finish_timestamps();
        for column in self.shape.columns.clone() {
            let array = match column {
                Column::Key => strings(self.key.as_mut(), &buffers, &self.pool, seen)?,
                Column::Value => strings(self.value.as_mut(), &buffers, &self.pool, seen)?,
                Column::Headers => self.finish_headers(&buffers, valid.as_ref(), seen)?,
                Column::RawHeaderKeys => self.finish_raw_keys(valid.as_ref())?,
                Column::Offset => {
                    let column = self.offsets.as_mut().ok_or_else(missing)?;
                    let values = ScalarBuffer::<i64>::from(column.lend(&self.pool));
                    Arc::new(Int64Array::try_new(values, valid.clone())?)
                }
                Column::Sequence => {
                    let column = self.sequences.as_mut().ok_or_else(missing)?;
                    let values = ScalarBuffer::<i32>::from(column.lend(&self.pool));
                    Arc::new(Int32Array::try_new(values, valid.clone())?)
                }
                Column::TimestampMs => {
                    let values = timestamps.milliseconds.clone().unwrap_or_default();
                    Arc::new(Int64Array::try_new(values, valid.clone())?)
                }
                Column::Timestamp => {
                    let nulls = NullBuffer::union(timestamps.nulls.as_ref(), valid.as_ref());
                    let values = timestamps.microseconds.clone().unwrap_or_default();
                    let array = TimestampMicrosecondArray::try_new(values, nulls)?;
                    Arc::new(array.with_data_type(Column::Timestamp.data_type(self.shape.flavor)))
                }
                Column::Tombstone => {
                    let bits = self.tombstones.as_mut().map(Bitmap::take);
                    let bits = bits.ok_or_else(missing)?;
                    Arc::new(BooleanArray::new(bits, valid.clone()))
                }
                shared => {
                    let found = self.shared.iter_mut().find(|(column, _)| *column == shared);
                    let (_, runs) = found.ok_or_else(missing)?;
                    runs.take(&shared.data_type(self.shape.flavor))?
                }
            };
            arrays.push(array);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(self.schema(), arrays, &options)
    }

    /// Milliseconds as they are, and as microseconds. What does not fit 64 bits that way is null there.
    fn finish_timestamps(&mut self) -> Timestamps {
        const LEAST: i64 = i64::MIN / 1000;
        const MOST: i64 = i64::MAX / 1000;
        let mut found = Timestamps::default();
        let Some(column) = &mut self.timestamps else { return found };
        let mut times = column.take();
        let has = |column: Column| self.shape.columns.contains(&column);
        let (want_micros, want_millis) = (has(Column::Timestamp), has(Column::TimestampMs));
        let is_null = |ms: i64| !(LEAST..=MOST).contains(&ms) | ((ms == -1) & !self.shape.flavor.spark);
        if want_micros && times.iter().fold(false, |any, &ms| any | is_null(ms)) {
            found.nulls = Some(times.iter().map(|&ms| !is_null(ms)).collect());
        }
        if want_millis {
            if want_micros {
                let mut micros = self.pool.take(times.len());
                micros.extend(times.iter().map(|ms: &i64| ms.wrapping_mul(1000)));
                found.microseconds = Some(self.pool.lend(micros).into());
            }
            found.milliseconds = Some(self.pool.lend(times).into());
        } else {
            times.iter_mut().for_each(|ms| *ms = ms.wrapping_mul(1000));
            found.microseconds = Some(self.pool.lend(times).into());
        }
        found
    }

    fn finish_headers(
        &mut self,
        buffers: &[Buffer],
        valid: Option<&NullBuffer>,
        seen: bool,
    ) -> Result<ArrayRef, ArrowError> {
        let headers = self.headers.as_mut().ok_or_else(missing)?;
        let keys =
            headers.keys.take::<GenericStringType<i32>, StringViewType>(buffers, &self.pool, true, false)?;
        let values = strings(Some(&mut headers.values), buffers, &self.pool, seen)?;
        let validity = if self.shape.flavor.spark { headers.ends.filled() } else { valid.cloned() };
        let ends = headers.ends.take(&self.pool);
        let fields = header_fields(self.shape.flavor);
        let length = keys.len();
        let structs = StructArray::try_new_with_length(fields.clone(), vec![keys, values], None, length)?;
        let field = element(DataType::Struct(fields));
        Ok(Arc::new(ListArray::try_new(field, ends, Arc::new(structs), validity)?))
    }

    fn finish_raw_keys(&mut self, valid: Option<&NullBuffer>) -> Result<ArrayRef, ArrowError> {
        let raw = self.raw_keys.as_mut().ok_or_else(missing)?;
        let keys = strings(Some(&mut raw.keys), &[], &self.pool, false)?;
        let ends = raw.ends.take(&self.pool);
        Ok(Arc::new(ListArray::try_new(element(DataType::Binary), ends, keys, valid.cloned())?))
    }
}

/// One column's values in both units, as far as wanted.
#[derive(Default)]
struct Timestamps {
    milliseconds: Option<ScalarBuffer<i64>>,
    microseconds: Option<ScalarBuffer<i64>>,
    nulls: Option<NullBuffer>,
}

fn strings(
    column: Option<&mut Strings>,
    buffers: &[Buffer],
    pool: &Arc<Pool>,
    seen: bool,
) -> Result<ArrayRef, ArrowError> {
    let column = column.ok_or_else(missing)?;
    column.take::<GenericBinaryType<i32>, BinaryViewType>(buffers, pool, false, seen)
}

/// A column of the shape has no cells: cannot be, since both come from the same list.
fn missing() -> ArrowError {
    ArrowError::SchemaError("a column without cells".into())
}
