//! One segment after another, step by step, into a segment that is written: what cleaning and rewriting share.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use magicbyte::log::Options;
use magicbyte::segment::{AbortedTxn, Producers, SegmentWriter, TransactionIndex};
use magicbyte::{ConvertError, Entries, Entry, Flaw, Head, Log, Next};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::block::Bytestream;
use crate::encode::refused;
use crate::error::Failure;
use crate::hops::Hops;

/// Bytes of input, or of output, after which a step ends.
const STEP: u64 = 16 << 20;
pub(crate) const PIECE: usize = 4 << 20;
/// Batches up to this size are read whole by a survey.
const SMALL: usize = 128;

/// Why a step ended.
pub(crate) enum Stop {
    Read(Failure),
    Write(PyErr),
}

impl From<Stop> for PyErr {
    fn from(stop: Stop) -> Self {
        match stop {
            Stop::Read(failure) => failure.into(),
            Stop::Write(error) => error,
        }
    }
}

/// `.index`, `.timeindex`, `.txnindex` (empty: there should be none), and the largest timestamp, −1 for none.
pub(crate) type Closed<'py> = (Bound<'py, PyBytes>, Bound<'py, PyBytes>, Bound<'py, PyBytes>, i64);

pub(crate) fn out_of_turn() -> PyErr {
    PyRuntimeError::new_err("the passes are out of order, or one of them failed")
}

/// Records at most, the largest timestamp, the first and the last offset; −1 for none.
pub(crate) type Surveyed = (u64, i64, i64, i64);

/// Reads the headers of a segment, or whole entries where those say more, and shows them.
pub(crate) fn survey(
    path: PathBuf,
    options: Options,
    mut show: impl FnMut(&Entry<'_>) -> Result<(), magicbyte::Error>,
) -> Result<Surveyed, Failure> {
    let at: Arc<std::path::Path> = path.as_path().into();
    let failed = |error: std::io::Error| Failure { error: error.into(), path: Some(Arc::clone(&at)) };
    let corrupt = |error| Failure::corrupt(error, Some(Arc::clone(&at)));
    let source = Hops::open(&path).map_err(failed)?;
    let mut entries = Entries::new(source, Options { preallocated: true, ..options }, 0);
    let (mut records, mut newest, mut first, mut last) = (0_u64, -1, -1, -1);
    loop {
        let position = entries.position();
        let small = |head: &Head| head.is_control() || head.size <= SMALL;
        let head = match entries.next_head(small).map_err(failed)? {
            Some(head) => {
                show(&Entry { position, bytes: &[], head }).map_err(corrupt)?;
                head
            }
            None => match entries.next().map_err(failed)? {
                Next::Entry(entry) => {
                    show(&entry).map_err(corrupt)?;
                    entry.head
                }
                Next::Damage(damage) if damage.is_tail() => continue,
                Next::Damage(damage) => return Err(corrupt(damage.error())),
                Next::End => return Ok((records, newest, first, last)),
            },
        };
        records = records.saturating_add(match head.count {
            Some(count) => u64::from(count.unsigned_abs()),
            None if head.codec_id() == 0 => 1,
            // A wrapper does not tell; no record of a message set is smaller than this when it is not compressed.
            None => u64::from(u32::MAX),
        });
        newest = newest.max(head.max_timestamp);
        if first < 0 {
            first = head.base_offset;
        }
        last = last.max(head.last_offset);
    }
}

/// The segment that is read.
#[derive(Default)]
pub(crate) struct Reading {
    entries: Option<(Entries<Bytestream>, PathBuf)>,
    /// It ends the log: an entry that is not all there at its end is none, as for a broker that starts.
    tail: bool,
    /// What its `.txnindex` says, by producer and marker: of older cleanings it knows more than the data do.
    index: HashMap<(i64, i64), AbortedTxn>,
}

impl Reading {
    /// Opens a segment. What is broken of the bytes of its `.txnindex` is left out.
    pub(crate) fn open(
        &mut self,
        path: PathBuf,
        aborted: Option<&[u8]>,
        tail: bool,
        options: Options,
    ) -> PyResult<()> {
        let failed =
            |error: std::io::Error| Failure { error: error.into(), path: Some(path.as_path().into()) };
        let source = Bytestream::open(&path, 0, None, false).map_err(failed)?;
        let options = Options { preallocated: true, ..options };
        self.entries = Some((Entries::new(source, options, 0), path));
        self.tail = tail;
        let known = TransactionIndex::new(aborted.unwrap_or_default(), 0);
        let known = known.iter().map_while(Result::ok);
        self.index = known.map(|txn| ((txn.producer_id, txn.last_offset), txn)).collect();
        Ok(())
    }

    /// Shows entries, with what the index says of them, until so much is done or `show` says no: where it stands, and
    /// whether the segment ended.
    pub(crate) fn each(
        &mut self,
        mut show: impl FnMut(&Entry<'_>, Option<AbortedTxn>) -> Result<bool, ConvertError>,
    ) -> Result<(u64, bool), Stop> {
        let Some((entries, path)) = &mut self.entries else { return Err(Stop::Write(out_of_turn())) };
        let at: Arc<Path> = path.as_path().into();
        let begun = entries.position();
        loop {
            let said = match entries.next() {
                Ok(Next::Entry(entry)) => {
                    let known = self.index.get(&(entry.head.producer_id, entry.head.base_offset));
                    show(&entry, known.copied())
                }
                // A segment may have been given its full size before it was written.
                Ok(Next::Damage(damage))
                    if matches!(damage.flaw, Flaw::ZeroTail { .. }) || self.tail && damage.is_tail() =>
                {
                    Ok(true)
                }
                Ok(Next::Damage(damage)) => Err(damage.error().into()),
                Ok(Next::End) => {
                    let position = entries.position();
                    self.entries = None;
                    return Ok((position, true));
                }
                Err(error) => Err(error.into()),
            };
            let stop = match said {
                Ok(more) if more && entries.position() - begun < STEP => continue,
                Ok(_) => return Ok((entries.position(), false)),
                Err(ConvertError::Read(error)) => Stop::Read(Failure::corrupt(error, Some(at))),
                Err(ConvertError::Io(error)) => Stop::Read(Failure { error: error.into(), path: Some(at) }),
                Err(ConvertError::Write { position, error }) => {
                    Stop::Write(refused(&format!("{}: entry at byte {position}: ", at.display()), error))
                }
                Err(other) => Stop::Write(PyValueError::new_err(other.to_string())),
            };
            self.entries = None;
            return Err(stop);
        }
    }
}

/// The segment that is written.
pub(crate) struct Target {
    writer: SegmentWriter,
    newest: i64,
    options: Options,
}

impl Target {
    pub(crate) fn new(base_offset: i64, index_interval: u64, options: Options) -> Self {
        let writer = SegmentWriter::with_interval(base_offset, index_interval);
        // Our own bytes: their checksums were compared, or written, just before.
        Self { writer, newest: -1, options: Options { check_crc: false, ..options } }
    }

    /// Follows what was written of one entry; `aborted`: the transaction that it ends, if that goes into the index.
    pub(crate) fn follow(
        &mut self,
        written: &[u8],
        aborted: Option<&AbortedTxn>,
    ) -> Result<(), magicbyte::Error> {
        for written in Log::new(written, self.options) {
            let written = written.map_err(|damage| damage.error())?;
            self.newest = self.newest.max(written.head.max_timestamp);
            self.writer.append(&written, aborted)?;
        }
        Ok(())
    }

    pub(crate) fn close(self, py: Python<'_>) -> PyResult<Closed<'_>> {
        let indexes = self.writer.finish().map_err(|error| Failure::corrupt(error, None))?;
        let bytes = |bytes: &[u8]| PyBytes::new(py, bytes);
        Ok((
            bytes(&indexes.offset_index),
            bytes(&indexes.time_index),
            bytes(&indexes.transaction_index),
            self.newest,
        ))
    }
}

/// The transaction that an entry ends: as the index has it, else as the entries before it tell.
pub(crate) fn ended(
    followed: &mut Producers,
    entry: &Entry<'_>,
    known: Option<AbortedTxn>,
) -> Result<Option<AbortedTxn>, magicbyte::Error> {
    let told = followed.append(entry)?;
    Ok(known.or(told))
}
