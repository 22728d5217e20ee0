//! The strict pass and the digest, in steps short enough for Ctrl-C.

use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use magicbyte::verify::{Beside, Line, Row, broken_row};
use magicbyte::{Damage, Digest, Entries, Next, Source};
use pyo3::prelude::*;
use pyo3::sync::MutexExt;

use crate::arguments;
use crate::block::Bytestream;
use crate::error::Failure;
use crate::gate::detached;
use crate::part::{Limits, Part};
use crate::reader::Plan;

/// Bytes of the log that one step looks at.
const STEP: u64 = 8 << 20;
/// Rows that one step hands over at most.
const ROWS: usize = 4096;

/// Segment, ending of the file's name, position, kind, severity, message.
type Found = (usize, &'static str, u64, &'static str, &'static str, String);

/// Epoch, last sequence, last offset, first offset of the open transaction.
type Producer = (i16, i32, Option<i64>, Option<i64>);

/// SHA-256 in hex, records, offsets of the first and the last.
type Summed = (String, u64, Option<(i64, i64)>);

struct Pass {
    plan: Option<Arc<Plan>>,
    entries: Option<Entries<Bytestream>>,
    verifier: magicbyte::verify::Verifier,
    rows: Vec<LedgerRow>,
}

/// Verifies the segments of one partition, one after the other.
#[pyclass(frozen, module = "magicbyte._core")]
pub(crate) struct Verifier {
    pass: Mutex<Pass>,
    options: magicbyte::Options,
}

impl Verifier {
    /// Who waits for the lock lets go of the interpreter: the one who has it may want to look for Ctrl-C.
    fn pass(&self, py: Python<'_>) -> MutexGuard<'_, Pass> {
        self.pass.lock_py_attached(py).unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl Verifier {
    #[new]
    #[pyo3(signature = (*, format="kafka", limits=None, outline=false))]
    fn new(format: &str, limits: Option<&Limits>, outline: bool) -> PyResult<Self> {
        let options = arguments::options(format, true, "PERMISSIVE", limits)?;
        let make = magicbyte::verify::Verifier::new;
        let verifier =
            (if outline { magicbyte::verify::Verifier::for_outline } else { make })(options.limits);
        let pass = Mutex::new(Pass { plan: None, entries: None, verifier, rows: Vec::new() });
        Ok(Self { pass, options })
    }

    /// Begins a segment; `last` says that none follows. Without a part, what another has looked at is to be told by
    /// `replay`.
    #[pyo3(signature = (part=None, base_offset=None, last=true, index=None, time_index=None, txn_index=None))]
    #[expect(clippy::too_many_arguments, reason = "options by keyword")]
    fn begin(
        &self,
        py: Python<'_>,
        part: Option<&Part>,
        base_offset: Option<i64>,
        last: bool,
        index: Option<Bytes>,
        time_index: Option<Bytes>,
        txn_index: Option<Bytes>,
    ) -> PyResult<()> {
        let files = Beside {
            index: index.as_deref(),
            time_index: time_index.as_deref(),
            txn_index: txn_index.as_deref(),
        };
        detached(py, || {
            let mut pass = self.pass.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(part) = part {
                let plan = Arc::new(Plan::of(vec![part.clone()], self.options));
                pass.entries = Some(plan.open(0)?);
                pass.plan = Some(plan);
            }
            pass.verifier.begin(base_offset, last, &files);
            Ok::<_, Failure>(())
        })??;
        Ok(())
    }

    /// Goes on with the segment: (position reached, whether its end was, rows if `rows`).
    #[pyo3(signature = (rows=false))]
    fn step(&self, py: Python<'_>, rows: bool) -> PyResult<(u64, bool, Vec<LedgerRow>)> {
        Ok(detached(py, || {
            let mut pass = self.pass.lock().unwrap_or_else(PoisonError::into_inner);
            pass.step(rows, &self.options)
        })??)
    }

    /// What came together for another to judge, since the last call.
    fn outline(&self, py: Python<'_>) -> PyResult<Vec<u8>> {
        detached(py, || {
            let mut pass = self.pass.lock().unwrap_or_else(PoisonError::into_inner);
            let mut bytes = Vec::new();
            pass.verifier.take_outline().iter().for_each(|line| line.encode(&mut bytes));
            bytes
        })
    }

    /// What another has looked at, of the segment that was begun.
    fn replay(&self, py: Python<'_>, outline: Bytes) -> PyResult<()> {
        detached(py, || {
            let lines = Line::decode(&outline).map_err(|error| Failure::corrupt(error, None))?;
            self.pass.lock().unwrap_or_else(PoisonError::into_inner).verifier.replay(lines);
            Ok::<_, Failure>(())
        })??;
        Ok(())
    }

    /// The end of a segment that was told by `replay`.
    fn end(&self, py: Python<'_>) -> PyResult<()> {
        detached(py, || self.pass.lock().unwrap_or_else(PoisonError::into_inner).verifier.end())
    }

    /// (epoch, first offset, last offset) of the stretches under one leader epoch.
    fn epochs(&self, py: Python<'_>) -> Vec<(i32, i64, i64)> {
        let pass = self.pass(py);
        pass.verifier.epochs().iter().map(|run| (run.epoch, run.first, run.last)).collect()
    }

    /// What the log says of its producers so far: id → (epoch, last sequence, last offset, open since).
    fn producers(&self, py: Python<'_>) -> HashMap<i64, Producer> {
        let pass = self.pass(py);
        let states = pass.verifier.producers();
        states
            .map(|it| (it.producer_id, (it.epoch, it.last_sequence, it.last_offset, it.open_since)))
            .collect()
    }

    /// The greatest offset so far.
    #[getter]
    fn last_offset(&self, py: Python<'_>) -> Option<i64> {
        self.pass(py).verifier.last()
    }

    /// The end of the partition.
    fn finish(&self, py: Python<'_>) -> PyResult<()> {
        detached(py, || self.pass.lock().unwrap_or_else(PoisonError::into_inner).verifier.finish())
    }

    /// (segment, file's ending, position, kind, severity, message) of the defects kept.
    fn defects(&self, py: Python<'_>) -> Vec<Found> {
        let pass = self.pass(py);
        let found = |d: &magicbyte::verify::Defect| {
            let names = (d.file.suffix(), d.kind.name(), d.severity.name());
            (d.segment, names.0, d.position, names.1, names.2, d.message.clone())
        };
        pass.verifier.findings().list().iter().map(found).collect()
    }

    /// (kind, severity, how many) of all defects.
    fn counts(&self, py: Python<'_>) -> Vec<(&'static str, &'static str, u64)> {
        let pass = self.pass(py);
        let counts = pass.verifier.findings().counts();
        counts.map(|(kind, severity, count)| (kind.name(), severity.name(), count)).collect()
    }

    /// Entries whose checksum holds.
    #[getter]
    fn batches(&self, py: Python<'_>) -> u64 {
        self.pass(py).verifier.batches()
    }

    /// Sound records.
    #[getter]
    fn records(&self, py: Python<'_>) -> u64 {
        self.pass(py).verifier.records()
    }
}

impl Pass {
    fn step(
        &mut self,
        wants_rows: bool,
        options: &magicbyte::Options,
    ) -> Result<(u64, bool, Vec<LedgerRow>), Failure> {
        let Some(entries) = &mut self.entries else { return Ok((0, true, Vec::new())) };
        let until = entries.position().saturating_add(STEP);
        let mut ended = false;
        while !ended && entries.position() < until && self.rows.len() < ROWS {
            let path = || self.plan.as_ref().and_then(|plan| plan.path(0));
            let damage = match entries.next() {
                Ok(Next::Entry(entry)) => {
                    let row = self.verifier.entry(&entry);
                    if wants_rows {
                        self.rows.push(LedgerRow(row));
                    }
                    None
                }
                Ok(Next::Damage(damage)) => Some(damage),
                Ok(Next::End) => {
                    ended = true;
                    None
                }
                Err(error) => return Err(Failure { error: error.into(), path: path() }),
            };
            if let Some(damage) = damage {
                if wants_rows {
                    let row = self.plan.as_ref().and_then(|plan| broken(plan, &damage, options));
                    self.rows.extend(row.map(LedgerRow));
                }
                self.verifier.damage(damage);
            }
        }
        let position = entries.position();
        if ended {
            self.verifier.end();
            self.entries = None;
        }
        Ok((position, ended, std::mem::take(&mut self.rows)))
    }
}

/// The row of an entry with a wrong checksum: its header is read once more, from where it is.
fn broken(plan: &Plan, damage: &Damage, options: &magicbyte::Options) -> Option<Row> {
    let mut source = plan.source(0).ok()?;
    source.fill(damage.range.start, 128).ok()?;
    let (window, begins, _) = source.window();
    let at = usize::try_from(damage.range.start.checked_sub(begins)?).ok()?;
    broken_row(damage, window.get(at..)?, options)
}

/// A row of the ledger: one batch, or one entry of a message set.
#[pyclass(frozen, module = "magicbyte")]
pub(crate) struct LedgerRow(Row);

#[pymethods]
impl LedgerRow {
    /// Byte position in the log.
    #[getter]
    const fn position(&self) -> u64 {
        self.0.position
    }

    /// Bytes, with offset and size.
    #[getter]
    const fn size(&self) -> usize {
        self.0.head.size
    }

    /// The magic byte.
    #[getter]
    const fn magic(&self) -> i8 {
        self.0.head.format.traits().magic
    }

    /// The codec's name; None for one that the format does not have.
    #[getter]
    fn codec(&self) -> Option<&'static str> {
        self.0.head.codec().map(magicbyte::Codec::name)
    }

    /// First offset.
    #[getter]
    const fn first_offset(&self) -> i64 {
        self.0.first_offset
    }

    /// Last offset.
    #[getter]
    const fn last_offset(&self) -> i64 {
        self.0.last_offset
    }

    /// Sound records.
    #[getter]
    const fn records(&self) -> u32 {
        self.0.records
    }

    /// Milliseconds; -1 for none.
    #[getter]
    const fn max_timestamp(&self) -> i64 {
        self.0.head.max_timestamp
    }

    /// -1 for none, as in all that follow.
    #[getter]
    const fn partition_leader_epoch(&self) -> i32 {
        self.0.head.leader_epoch
    }

    /// The producer.
    #[getter]
    const fn producer_id(&self) -> i64 {
        self.0.head.producer_id
    }

    /// Its epoch.
    #[getter]
    const fn producer_epoch(&self) -> i16 {
        self.0.head.producer_epoch
    }

    /// Sequence of the first record.
    #[getter]
    const fn base_sequence(&self) -> i32 {
        self.0.head.base_sequence
    }

    /// Part of a transaction.
    #[getter]
    const fn transactional(&self) -> bool {
        self.0.head.is_transactional()
    }

    /// Control records.
    #[getter]
    const fn control(&self) -> bool {
        self.0.head.is_control()
    }

    /// The stored checksum.
    #[getter]
    const fn crc(&self) -> u32 {
        self.0.head.crc
    }

    /// Whether it holds.
    #[getter]
    const fn crc_ok(&self) -> bool {
        self.0.crc_ok
    }

    /// Whether all its records can be read.
    #[getter]
    const fn readable(&self) -> bool {
        self.0.readable
    }

    fn __repr__(&self) -> String {
        let (row, head) = (&self.0, &self.0.head);
        format!(
            "LedgerRow(position={}, size={}, magic={}, first_offset={}, last_offset={}, records={}, crc_ok={})",
            row.position,
            head.size,
            head.format.traits().magic,
            row.first_offset,
            row.last_offset,
            row.records,
            if row.crc_ok { "True" } else { "False" }
        )
    }
}

/// SHA-256 of the records of one partition: (sha256 in hex, records, (first offset, last offset) or None).
///
/// `advance` is told the bytes that were read since it was told before. Raises `CorruptRecordError` at damage: a digest of
/// a part would prove nothing.
#[pyfunction]
#[pyo3(signature = (parts, *, format="kafka", check_crc=true, limits=None, advance=None))]
pub(crate) fn digest(
    py: Python<'_>,
    parts: Vec<PyRef<'_, Part>>,
    format: &str,
    check_crc: bool,
    limits: Option<&Limits>,
    advance: Option<Bound<'_, PyAny>>,
) -> PyResult<Summed> {
    let options = arguments::options(format, check_crc, "FAILFAST", limits)?;
    let parts: Vec<Part> = parts.iter().map(|part| Part::clone(part)).collect();
    let mut digest = Digest::new(options.limits);
    for part in parts {
        let offsets = part.first_offset.unwrap_or(i64::MIN)
            ..=part.end_offset.map_or(i64::MAX, |end| end.saturating_sub(1));
        let plan = Plan::of(vec![part], options);
        let mut entries = plan.open(0)?;
        let mut told = entries.position();
        let mut more = true;
        while more {
            more = detached(py, || some(&plan, &mut entries, &offsets, &mut digest))??;
            if let Some(advance) = &advance {
                advance.call1((entries.position().saturating_sub(told),))?;
                told = entries.position();
            }
        }
    }
    let hex = digest.sha256().iter().map(|byte| format!("{byte:02x}")).collect();
    Ok((hex, digest.records(), digest.offsets()))
}

/// Digests a stretch; whether there is more.
fn some(
    plan: &Plan,
    entries: &mut Entries<Bytestream>,
    offsets: &RangeInclusive<i64>,
    digest: &mut Digest,
) -> Result<bool, Failure> {
    let until = entries.position().saturating_add(STEP);
    while entries.position() < until {
        let failed = match entries.next() {
            Ok(Next::Entry(entry)) => digest.add_within(&entry, offsets.clone()).err(),
            Ok(Next::Damage(damage)) if damage.is_tail() => None,
            Ok(Next::Damage(damage)) => Some(damage.error()),
            Ok(Next::End) => return Ok(false),
            Err(error) => return Err(Failure { error: error.into(), path: plan.path(0) }),
        };
        if let Some(error) = failed {
            return Err(Failure::corrupt(error, plan.path(0)));
        }
    }
    Ok(true)
}
