//! Batches and records as a writer takes them: those that were made, and those that were read.

use magicbyte::head::attributes;
use magicbyte::{BatchFields, Entry, Flaw, Head, NewRecord, TimestampType};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::batch::{Record, RecordBatch};
use crate::error::Failure;
use crate::new_batch::with_headers;

/// What a batch is made of.
pub(crate) struct Made {
    pub(crate) fields: BatchFields,
    pub(crate) records: Vec<Py<Record>>,
}

impl RecordBatch {
    /// The fields as a writer takes them.
    pub(crate) fn fields(&self) -> PyResult<BatchFields> {
        if let Some(made) = &self.made {
            return Ok(made.fields.clone());
        }
        let head = &self.head;
        Ok(BatchFields {
            base_offset: Some(self.base_offset()?),
            last_offset_delta: i32::try_from(self.last_offset_delta()?).ok(),
            leader_epoch: head.leader_epoch,
            codec: head
                .codec()
                .ok_or_else(|| self.corrupt(Flaw::Codec(head.codec_id()).at(self.position)))?,
            level: None,
            timestamp_type: head.timestamp_type,
            base_timestamp: Some(head.base_timestamp).filter(|_| self.is_batch()),
            max_timestamp: Some(head.max_timestamp)
                .filter(|_| self.is_batch() || head.timestamp_type == TimestampType::LogAppendTime),
            producer_id: head.producer_id,
            producer_epoch: head.producer_epoch,
            base_sequence: head.base_sequence,
            transactional: head.is_transactional(),
            control: head.is_control(),
            delete_horizon: self.delete_horizon(),
            ignore_message_attributes: self.ignore_message_attributes(),
        })
    }

    fn corrupt(&self, error: magicbyte::Error) -> PyErr {
        Failure::corrupt(error, self.path.clone()).into()
    }

    /// The bytes, of a batch that has some.
    pub(crate) fn stored(&self) -> PyResult<Entry<'_>> {
        if self.made.is_some() {
            let text = "this batch was made, not read: encode_batch gives its bytes";
            return Err(PyValueError::new_err(text));
        }
        Ok(self.entry())
    }

    /// What makes two batches equal, their records aside.
    pub(crate) fn facts(&self) -> PyResult<impl PartialEq + use<>> {
        let head = &self.head;
        let times = (self.timestamp_type(), head.base_timestamp, head.max_timestamp, self.delete_horizon());
        let producer = (head.producer_id, head.producer_epoch, head.base_sequence);
        let flags = (self.transactional(), self.control(), self.ignore_message_attributes());
        let offsets = (self.base_offset()?, self.last_offset_delta()?, head.leader_epoch);
        Ok((self.codec(), offsets, times, producer, flags))
    }
}

impl Made {
    /// The header as the fields give it, and the records where they do not.
    pub(crate) fn head(&self, py: Python<'_>) -> Head {
        let fields = &self.fields;
        let records = || self.records.iter().map(|record| record.bind(py).get());
        let first = records().next();
        let base_offset = fields.base_offset.or(first.map(|first| first.offset)).unwrap_or(0);
        let last = records().next_back().map_or(base_offset, |last| last.offset);
        let delta = fields.last_offset_delta.map(|delta| base_offset.wrapping_add(i64::from(delta)));
        let latest = records().map(|record| record.timestamp).max();
        let flag = |on: bool, mask: i16| if on { mask } else { 0 };
        Head {
            format: magicbyte::Format::V2,
            size: 0,
            body: 0,
            crc_from: 0,
            crc: 0,
            base_offset,
            last_offset: delta.unwrap_or(last),
            attributes: i16::from(fields.codec.id())
                | flag(fields.transactional, attributes::TRANSACTIONAL)
                | flag(fields.control, attributes::CONTROL)
                | flag(fields.delete_horizon, attributes::DELETE_HORIZON),
            timestamp_type: fields.timestamp_type,
            base_timestamp: fields.base_timestamp.or(first.map(|first| first.timestamp)).unwrap_or(-1),
            max_timestamp: fields.max_timestamp.or(latest).unwrap_or(-1),
            leader_epoch: fields.leader_epoch,
            producer_id: fields.producer_id,
            producer_epoch: fields.producer_epoch,
            base_sequence: fields.base_sequence,
            count: i32::try_from(self.records.len()).ok(),
        }
    }
}

impl Record {
    /// Hands this record on, to be written.
    pub(crate) fn with_new<T>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&NewRecord<'_>) -> PyResult<T>,
    ) -> PyResult<T> {
        let part = |part: &'_ Option<Py<PyBytes>>| part.as_ref().map(|bytes| bytes.bind(py).clone());
        let (key, value) = (part(&self.key), part(&self.value));
        let new = NewRecord {
            offset: self.offset,
            timestamp: self.timestamp,
            attributes: self.attributes,
            key: key.as_ref().map(|key| key.as_bytes()),
            value: value.as_ref().map(|value| value.as_bytes()),
            tombstone: self.tombstone,
            ..NewRecord::default()
        };
        with_headers(py, self.headers.get(), new, work)
    }
}
