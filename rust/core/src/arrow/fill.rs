//! From one batch's records to columns, in two steps: where everything lies, some rows at a time, then column by
//! column in short loops. Each loop keeps its few values in registers, which one loop over all columns cannot.

use super::builder::Builder;
use super::cells::{Place, Span};
use super::direct::Direct;
use crate::entry::{Entry, Payload};
use crate::error::{Error, Flaw};
use crate::limits::Limits;
use crate::record::{Record, Sink};

/// Rows that are gathered before they go to the columns: few enough to stay in the nearest cache.
const ROWS: usize = 256;

/// What a record says, and where.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    pub(crate) offset: i64,
    pub(crate) timestamp: i64,
    pub(crate) key: Span,
    pub(crate) value: Span,
    /// How many.
    pub(crate) headers: u32,
    pub(crate) tombstone: bool,
}

/// Rows on their way to the columns.
#[derive(Debug)]
pub(crate) struct Rows {
    pub(crate) rows: Vec<Row>,
    /// Keys and values of all their headers.
    pub(crate) headers: Vec<(Span, Span)>,
}

impl Rows {
    pub(crate) fn new() -> Self {
        Self { rows: Vec::with_capacity(ROWS), headers: Vec::new() }
    }

    pub(crate) fn clear(&mut self) {
        self.rows.clear();
        self.headers.clear();
    }
}

/// Takes the records of one batch.
struct Fill<'b, 'a> {
    builder: &'b mut Builder,
    rows: Rows,
    bytes: &'a [u8],
    takes_all: bool,
    wants_headers: bool,
}

impl Fill<'_, '_> {
    #[inline(never)]
    fn flush(&mut self) {
        self.builder.extend(self.bytes, &self.rows);
        self.rows.clear();
    }
}

impl<'a> Sink<'a> for Fill<'_, 'a> {
    #[inline(always)]
    fn record(&mut self, record: &Record<'a>) -> bool {
        if !self.takes_all
            && !self.builder.wants(record.offset, record.timestamp, record.untimed, record.headers)
        {
            return false;
        }
        if self.rows.rows.len() >= ROWS {
            self.flush();
        }
        if record.untimed {
            self.builder.untimed.push(self.builder.rows + self.rows.rows.len());
        }
        let base = self.bytes.as_ptr() as usize;
        self.rows.rows.push(Row {
            offset: record.offset,
            timestamp: record.timestamp,
            key: Span::of(record.key, base),
            value: Span::of(record.value, base),
            headers: record.headers.len() as u32,
            tombstone: record.tombstone.unwrap_or(record.value.is_none()),
        });
        self.wants_headers
    }

    #[inline(always)]
    fn header(&mut self, key: &'a [u8], value: Option<&'a [u8]>) {
        let base = self.bytes.as_ptr() as usize;
        self.rows.headers.push((Span::of(Some(key), base), Span::of(value, base)));
    }
}

/// See [`Builder::way`].
enum Way {
    /// [`Direct`]: all that records of the Kafka schema say,
    All,
    /// all but headers,
    Strings,
    /// or offsets and timestamps alone.
    Numbers,
    /// [`Fill`]: rarer columns and other choices.
    Gathered,
}

impl Builder {
    /// Decodes an entry's records into the columns, all of them or, where one is not sound, none.
    pub fn fill(&mut self, entry: &Entry<'_>, payload: &Payload<'_>, limits: &Limits) -> Result<(), Error> {
        if i32::try_from(payload.bytes().len()).is_err() {
            let flaw = Flaw::Limit { what: "batch in columns", limit: i32::MAX as u64 };
            return Err(flaw.at(entry.position));
        }
        // Only what is sound may be passed over.
        if payload.cut().is_none() && !self.selection().may_occur(payload.bytes()) {
            return Ok(());
        }
        self.begin(&entry.head);
        if self.wants_views() {
            self.sees_views(payload.bytes());
        }
        let decoded = self.decode(entry, payload, limits);
        match decoded {
            Ok(_) => {
                self.commit(&entry.head, payload.base_offset(), entry.position);
                Ok(())
            }
            Err(error) => {
                self.rollback();
                Err(error)
            }
        }
    }

    /// Decodes the records that the selection has. A batch whose header says that it has them all is not asked record by
    /// record, and believed only if the offsets that came agree.
    fn decode(&mut self, entry: &Entry<'_>, payload: &Payload<'_>, limits: &Limits) -> Result<u32, Error> {
        if !self.takes_all() && self.offsets.is_some() && self.selection().holds(&entry.head) {
            self.set_takes_all(true);
            let decoded = self.decode_by_way(payload, limits);
            self.set_takes_all(false);
            if self.selection_has_offsets() {
                return decoded;
            }
            self.rollback();
            self.begin(&entry.head);
        }
        self.decode_by_way(payload, limits)
    }

    fn decode_by_way(&mut self, payload: &Payload<'_>, limits: &Limits) -> Result<u32, Error> {
        match self.way() {
            Way::All if self.wants_views() => self.direct::<true, true, true>(payload, limits),
            Way::Strings if self.wants_views() => self.direct::<true, false, true>(payload, limits),
            Way::All => self.direct::<true, true, false>(payload, limits),
            Way::Strings => self.direct::<true, false, false>(payload, limits),
            Way::Numbers => self.direct::<false, false, false>(payload, limits),
            Way::Gathered => self.gather(payload, limits),
        }
    }

    fn direct<const STRINGS: bool, const HEADERS: bool, const VIEWS: bool>(
        &mut self,
        payload: &Payload<'_>,
        limits: &Limits,
    ) -> Result<u32, Error> {
        let mut direct = Direct::<STRINGS, HEADERS, VIEWS>::new(self, payload.bytes(), payload.count_hint());
        let decoded = payload.decode(limits, &mut direct);
        direct.finish();
        decoded
    }

    fn gather(&mut self, payload: &Payload<'_>, limits: &Limits) -> Result<u32, Error> {
        let rows = std::mem::replace(&mut self.gathered, Rows { rows: Vec::new(), headers: Vec::new() });
        let (takes_all, wants_headers) = (self.takes_all(), self.wants_headers());
        let mut fill = Fill { rows, bytes: payload.bytes(), takes_all, wants_headers, builder: self };
        let decoded = payload.decode(limits, &mut fill);
        if decoded.is_ok() {
            fill.flush();
        }
        let mut rows = fill.rows;
        rows.clear();
        self.gathered = rows;
        decoded
    }

    /// Which way records take to the columns.
    fn way(&self) -> Way {
        let rare = self.raw_keys.is_some() || self.tombstones.is_some() || self.sequences.is_some();
        if rare || self.offsets.is_none() || self.timestamps.is_none() {
            return Way::Gathered;
        }
        match (self.key.is_some(), self.value.is_some(), self.headers.is_some()) {
            (true, true, true) => Way::All,
            (true, true, false) => Way::Strings,
            (false, false, false) => Way::Numbers,
            _ => Way::Gathered,
        }
    }

    /// Appends rows whose strings lie in `bytes`.
    fn extend(&mut self, bytes: &[u8], gathered: &Rows) {
        let place = Place { bytes, origin: self.origin };
        let (rows, headers) = (&gathered.rows, &gathered.headers);
        self.rows += rows.len();
        if let Some(column) = &mut self.offsets {
            column.values.extend(rows.iter().map(|row| row.offset));
        }
        if let Some(column) = &mut self.timestamps {
            column.values.extend(rows.iter().map(|row| row.timestamp));
        }
        if let Some(column) = &mut self.key {
            column.extend(place, rows.iter().map(|row| row.key));
        }
        if let Some(column) = &mut self.value {
            column.extend(place, rows.iter().map(|row| row.value));
        }
        if let Some(column) = &mut self.tombstones {
            column.extend(rows.iter().map(|row| row.tombstone));
        }
        if let (Some(column), Some(head)) = (&mut self.sequences, &self.base) {
            column.values.extend(rows.iter().map(|row| head.sequence(row.offset)));
        }
        let counts = rows.iter().map(|row| row.headers);
        if let Some(column) = &mut self.headers {
            column.ends.extend(counts.clone());
            column.keys.extend(place, headers.iter().map(|(key, _)| *key));
            column.values.extend(place, headers.iter().map(|(_, value)| *value));
        }
        if let Some(column) = &mut self.raw_keys {
            column.ends.extend(counts);
            column.keys.extend(place, headers.iter().map(|(key, _)| *key));
        }
    }
}
