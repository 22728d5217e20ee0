//! Reads parts of logs: as records, as batches, as Arrow columns.

use std::collections::HashSet;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use magicbyte::arrow::{Column, Flavor, Shape};
use magicbyte::log::Options;
use magicbyte::{Damage, Entries, Head, HeaderCondition, Isolation, Judge, Selection};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::arguments;
use crate::block::Bytestream;
use crate::error::Failure;
use crate::iterators::{BatchIterator, RecordIterator};
use crate::part::{From, Limits, Part};
use crate::scan::Scan;
use crate::transactions::Own;

/// What a reader passed over: path, position, kind, size, message.
pub(crate) type Finding = (Option<String>, u64, &'static str, u64, String);

/// What a finding is called that tells of the last stable offset.
const UNKNOWN_TRANSACTION: &str = "unknown_transaction";

/// Findings in the order in which they were met, each once: a hostile log has as many as it has bytes, so that looking
/// through them for each new one would take hours.
#[derive(Debug, Default)]
struct Findings {
    list: Vec<Finding>,
    seen: HashSet<(Option<String>, u64, &'static str)>,
}

/// What is to be read and how. Shared by all iterators of one reader.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) parts: Vec<Part>,
    pub(crate) options: Options,
    control: bool,
    timestamps: Option<Range<i64>>,
    headers: Arc<[HeaderCondition]>,
    pub(crate) map: bool,
    isolation: Isolation,
    past_lso: bool,
    /// Whether the states of transactions are wanted, whatever the isolation.
    states: bool,
    own: Arc<Own>,
    findings: Arc<Mutex<Findings>>,
}

impl Plan {
    /// Everything of some parts.
    pub(crate) fn of(parts: Vec<Part>, options: Options) -> Self {
        Self {
            parts,
            options,
            control: true,
            timestamps: None,
            headers: Arc::default(),
            map: false,
            isolation: Isolation::ReadUncommitted,
            past_lso: false,
            states: false,
            own: Arc::default(),
            findings: Arc::default(),
        }
    }

    /// What was passed over so far.
    pub(crate) fn findings(&self) -> Vec<Finding> {
        self.findings.lock().unwrap_or_else(PoisonError::into_inner).list.clone()
    }

    /// Opens a part.
    pub(crate) fn open(&self, part: usize) -> Result<Entries<Bytestream>, Failure> {
        let it = &self.parts[part];
        let mut options = self.options;
        // A file may be preallocated, and then is zeros as a whole.
        options.preallocated = matches!(it.source, From::Path(_));
        Ok(Entries::new(self.source(part)?, options, it.start))
    }

    /// The bytes of a part.
    pub(crate) fn source(&self, part: usize) -> Result<Bytestream, Failure> {
        let it = &self.parts[part];
        match &it.source {
            From::Bytes(bytes) => Ok(Bytestream::whole(bytes.clone(), it.end)),
            From::Path(path) => Bytestream::open(path, it.start, it.end, self.map)
                .map_err(|error| Failure { error: error.into(), path: self.path(part) }),
        }
    }

    pub(crate) fn path(&self, part: usize) -> Option<Arc<Path>> {
        match &self.parts.get(part)?.source {
            From::Path(path) => Some(path.as_path().into()),
            From::Bytes(_) => None,
        }
    }

    pub(crate) fn selection(&self, part: usize) -> Selection {
        let it = &self.parts[part];
        Selection {
            offsets: it.first_offset.unwrap_or(i64::MIN)..it.end_offset.unwrap_or(i64::MAX),
            timestamps: self.timestamps.clone(),
            control: self.control,
            headers: Arc::clone(&self.headers),
        }
    }

    pub(crate) fn note(&self, part: usize, damage: &Damage) {
        let size = damage.range.end.saturating_sub(damage.range.start);
        let path = self.path(part).map(|path| path.display().to_string());
        self.found((path, damage.range.start, damage.flaw.kind().name(), size, damage.flaw.to_string()));
    }

    /// Who rules on the batches of a part, where transactions matter.
    pub(crate) fn judge(&self, part: usize) -> Result<Option<Judge>, Failure> {
        if self.isolation == Isolation::ReadUncommitted && !self.states {
            return Ok(None);
        }
        let known = match &self.parts[part].transactions {
            Some(given) => given.0.get()?,
            None => self.own.of(&self.parts, part, self.options).get()?,
        };
        known.findings.iter().for_each(|finding| self.found(finding.clone()));
        let transactions = Arc::clone(&known.transactions);
        Ok(Some(Judge { transactions, isolation: self.isolation, past_lso: self.past_lso }))
    }

    /// Tells that a part ends at a batch, because the transactions from there on are not decided.
    pub(crate) fn left_behind(&self, part: usize, judge: &Judge, head: &Head, position: u64) {
        let path = self.path(part).map(|path| path.display().to_string());
        let bytes = judge.transactions.unstable().map_or(0, |it| it.bytes);
        self.found((path, position, UNKNOWN_TRANSACTION, bytes, judge.left_behind(head)));
    }

    fn found(&self, finding: Finding) {
        let mut findings = self.findings.lock().unwrap_or_else(PoisonError::into_inner);
        // Each iterator of a reader comes by the same places.
        if findings.seen.insert((finding.0.clone(), finding.1, finding.2)) {
            findings.list.push(finding);
        }
    }
}

/// Reads parts of logs, one after the other.
#[pyclass(frozen, module = "magicbyte._core")]
pub(crate) struct Reader(Arc<Plan>);

#[pymethods]
impl Reader {
    #[new]
    #[pyo3(signature = (parts, *, format="kafka", check_crc=true, mode="FAILFAST", limits=None,
        isolation="read_uncommitted", past_lso=false, control=false, timestamps=None, headers=None, mmap=false))]
    #[expect(clippy::too_many_arguments, reason = "options by keyword")]
    fn new(
        parts: Vec<PyRef<'_, Part>>,
        format: &str,
        check_crc: bool,
        mode: &str,
        limits: Option<&Limits>,
        isolation: &str,
        past_lso: bool,
        control: bool,
        timestamps: Option<(Option<i64>, Option<i64>)>,
        headers: Option<Vec<arguments::HeaderCondition>>,
        mmap: bool,
    ) -> PyResult<Self> {
        let isolation = arguments::isolation(isolation)?;
        let options = arguments::options(format, check_crc, mode, limits)?;
        let range = |(from, to): (Option<i64>, Option<i64>)| from.unwrap_or(i64::MIN)..to.unwrap_or(i64::MAX);
        Ok(Self(Arc::new(Plan {
            parts: parts.iter().map(|part| Part::clone(part)).collect(),
            options,
            control,
            timestamps: timestamps.filter(|times| *times != (None, None)).map(range),
            headers: headers
                .unwrap_or_default()
                .into_iter()
                .map(arguments::header)
                .collect::<PyResult<_>>()?,
            map: mmap,
            isolation,
            past_lso,
            states: false,
            own: Arc::default(),
            findings: Arc::default(),
        })))
    }

    /// Iterates the records of all parts.
    fn records(&self) -> RecordIterator {
        RecordIterator::new(Arc::clone(&self.0))
    }

    /// Iterates the batches of all parts.
    fn batches(&self) -> BatchIterator {
        BatchIterator::new(Arc::clone(&self.0))
    }

    /// The records of all parts as Arrow columns.
    #[pyo3(signature = (columns=None, *, views=false, spark=false, batch_rows=65536, batch_bytes=4 << 20))]
    fn scan(
        &self,
        columns: Option<Vec<String>>,
        views: bool,
        spark: bool,
        batch_rows: usize,
        batch_bytes: usize,
    ) -> PyResult<Scan> {
        let columns = match columns {
            None => Column::DEFAULT.to_vec(),
            Some(names) => names.iter().map(|name| column(name)).collect::<PyResult<_>>()?,
        };
        if batch_rows == 0 || batch_bytes == 0 {
            return Err(PyValueError::new_err("batch_rows and batch_bytes must be above 0"));
        }
        let shape = Shape { columns, flavor: Flavor { views, spark }, rows: batch_rows, bytes: batch_bytes };
        let it = &self.0;
        // Views point into what they are of, so files are mapped: that is what was asked for.
        let map = it.map || views;
        let states = shape.columns.contains(&Column::TransactionState);
        let plan = Arc::new(Plan {
            parts: it.parts.clone(),
            options: it.options,
            control: it.control,
            timestamps: it.timestamps.clone(),
            headers: Arc::clone(&it.headers),
            map,
            isolation: it.isolation,
            past_lso: it.past_lso,
            states,
            own: Arc::clone(&it.own),
            findings: Arc::clone(&it.findings),
        });
        Ok(Scan::new(plan, shape))
    }

    /// What was passed over so far: (path, position, kind, size, message).
    #[getter]
    fn findings(&self) -> Vec<Finding> {
        self.0.findings()
    }
}

fn column(name: &str) -> PyResult<Column> {
    Column::from_name(name).ok_or_else(|| {
        let known: Vec<_> = Column::ALL.iter().map(|column| column.name()).collect();
        PyValueError::new_err(format!("unknown column {name:?}; known are {}", known.join(", ")))
    })
}
