//! The files beside a segment, for the planner in Python.

use bytes::Bytes;
use magicbyte::segment;
use pyo3::prelude::*;

use crate::error::Failure;

fn failed(error: magicbyte::Error) -> PyErr {
    Failure::corrupt(error, None).into()
}

/// A `.index` file: where in its segment offsets are.
#[pyclass(frozen, module = "magicbyte._core")]
pub(crate) struct OffsetIndex {
    data: Bytes,
    base_offset: i64,
}

#[pymethods]
impl OffsetIndex {
    #[new]
    const fn new(data: Bytes, base_offset: i64) -> Self {
        Self { data, base_offset }
    }

    fn __len__(&self) -> usize {
        segment::OffsetIndex::new(&self.data, self.base_offset).len()
    }

    /// (offset, position) in order.
    fn entries(&self) -> Vec<(i64, i32)> {
        let index = segment::OffsetIndex::new(&self.data, self.base_offset);
        index.iter().map(|entry| (entry.offset, entry.position)).collect()
    }

    /// The last entry at or below an offset, or (base offset, 0).
    fn lookup(&self, offset: i64) -> (i64, i32) {
        let entry = segment::OffsetIndex::new(&self.data, self.base_offset).lookup(offset);
        (entry.offset, entry.position)
    }

    /// Raises `CorruptRecordError` where the file is not sound as a whole.
    fn check(&self) -> PyResult<()> {
        segment::OffsetIndex::new(&self.data, self.base_offset)
            .flaw()
            .map_or(Ok(()), |error| Err(failed(error)))
    }
}

/// A `.timeindex` file: the largest timestamp up to an offset.
#[pyclass(frozen, module = "magicbyte._core")]
pub(crate) struct TimeIndex {
    data: Bytes,
    base_offset: i64,
}

#[pymethods]
impl TimeIndex {
    #[new]
    const fn new(data: Bytes, base_offset: i64) -> Self {
        Self { data, base_offset }
    }

    fn __len__(&self) -> usize {
        segment::TimeIndex::new(&self.data, self.base_offset).len()
    }

    /// (timestamp, offset) in order.
    fn entries(&self) -> Vec<(i64, i64)> {
        let index = segment::TimeIndex::new(&self.data, self.base_offset);
        index.iter().map(|entry| (entry.timestamp, entry.offset)).collect()
    }

    /// The last entry at or below a timestamp, or (−1, base offset). A search begins at the batch of that offset.
    fn lookup(&self, timestamp: i64) -> (i64, i64) {
        let entry = segment::TimeIndex::new(&self.data, self.base_offset).lookup(timestamp);
        (entry.timestamp, entry.offset)
    }

    /// Raises `CorruptRecordError` where the file is not sound as a whole.
    fn check(&self) -> PyResult<()> {
        segment::TimeIndex::new(&self.data, self.base_offset)
            .flaw()
            .map_or(Ok(()), |error| Err(failed(error)))
    }
}

/// The entries of a `.txnindex`: (producer id, first offset, last offset, last stable offset) of each aborted
/// transaction.
#[pyfunction]
pub(crate) fn aborted_transactions(data: &[u8]) -> PyResult<Vec<(i64, i64, i64, i64)>> {
    let index = segment::TransactionIndex::new(data, 0);
    let entry = |found: magicbyte::Result<segment::AbortedTxn>| {
        let txn = found.map_err(failed)?;
        Ok((txn.producer_id, txn.first_offset, txn.last_offset, txn.last_stable_offset))
    };
    index.iter().map(entry).collect()
}

/// The entries of a `leader-epoch-checkpoint`: (epoch, start offset).
#[pyfunction]
pub(crate) fn leader_epochs(data: &[u8]) -> PyResult<Vec<(i32, i64)>> {
    let checkpoint = segment::LeaderEpochCheckpoint::parse(data).map_err(failed)?;
    Ok(checkpoint.entries().iter().map(|entry| (entry.epoch, entry.start_offset)).collect())
}

type ProducerState = (i64, i16, i32, i64, Option<i64>);

/// (producer id, epoch, last sequence, last offset, first offset of the open transaction) of the bytes of a `.snapshot`.
///
/// Raises `CorruptRecordError` for a wrong checksum and what is no snapshot.
#[pyfunction]
pub(crate) fn producer_snapshot(data: &[u8]) -> PyResult<Vec<ProducerState>> {
    let snapshot = segment::ProducerSnapshot::parse(data).map_err(failed)?;
    let state = |it: &segment::ProducerStateEntry| {
        (it.producer_id, it.producer_epoch, it.last_sequence, it.last_offset, it.current_txn_first_offset)
    };
    Ok(snapshot.entries.iter().map(state).collect())
}

/// What a file name in a partition directory says: kind, base offset, and for a file that is left out, why.
#[pyfunction]
pub(crate) fn segment_name(file_name: &str) -> (&'static str, Option<i64>, Option<String>) {
    use segment::SegmentFile as Name;
    match Name::parse(file_name) {
        Name::Log { base_offset } => ("log", Some(base_offset), None),
        Name::Index { base_offset } => ("index", Some(base_offset), None),
        Name::TimeIndex { base_offset } => ("timeindex", Some(base_offset), None),
        Name::TxnIndex { base_offset } => ("txnindex", Some(base_offset), None),
        Name::Snapshot { offset } => ("snapshot", Some(offset), None),
        Name::Checkpoint { end_offset, .. } => ("checkpoint", Some(end_offset), None),
        Name::LeaderEpochCheckpoint => ("leader-epoch-checkpoint", None, None),
        Name::PartitionMetadata => ("partition.metadata", None, None),
        Name::LeftOut { reason } => ("left_out", None, Some(reason.to_string())),
        _ => ("other", None, None),
    }
}

/// (topic, partition) of a partition directory's name, or None.
#[pyfunction]
pub(crate) fn topic_partition(dir_name: &str) -> Option<(String, i32)> {
    segment::TopicPartition::parse(dir_name).map(|found| (found.topic.to_string(), found.partition))
}
