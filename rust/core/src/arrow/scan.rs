//! Reads logs into record batches.

use std::fmt;
use std::io;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_buffer::Buffer as ArrowBuffer;
use arrow_schema::ArrowError;

use super::builder::Builder;
use crate::codec::{Buffer, Codec, Decompressor};
use crate::entry::Entry;
use crate::error::Error;
use crate::head::Head;
use crate::limits::Limits;
use crate::log::{Damage, Mode};
use crate::source::{Entries, Next, Source};
use crate::transactions::{Judge, Ruling};

/// Why a read ended.
#[non_exhaustive]
#[derive(Debug)]
pub enum ReadError {
    /// The bytes could not be had.
    Io(io::Error),
    /// The bytes are not what they should be.
    Corrupt(Error),
    /// The columns could not be built.
    Arrow(ArrowError),
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => error.fmt(f),
            Self::Corrupt(error) => error.fmt(f),
            Self::Arrow(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ReadError {}

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Where a pull ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pulled {
    /// The record batch is full; the log goes on.
    Full,
    /// The log's end.
    End,
    /// A batch that the judge stops at. It is not read, and nothing behind it is.
    Behind {
        /// Its header.
        head: Head,
        /// Where it begins in the log.
        position: u64,
        /// Whether it is the first that the judge was asked about.
        first: bool,
    },
}

/// Reads entries into a [`Builder`]. One for many logs, so that small ones share record batches.
#[derive(Debug)]
pub struct Columnar {
    builder: Builder,
    decompressor: Decompressor,
    buffer: Buffer,
    limits: Limits,
    mode: Mode,
    judge: Option<Judge>,
    ruled: bool,
    /// Damage and tails met so far.
    pub found: Vec<Damage>,
}

impl Columnar {
    /// Columns by `builder`, bounded by `limits`.
    #[must_use]
    pub fn new(builder: Builder, limits: Limits, mode: Mode) -> Self {
        Self {
            builder,
            decompressor: Decompressor::new(),
            buffer: Buffer::new(),
            limits,
            mode,
            judge: None,
            ruled: false,
            found: Vec::new(),
        }
    }

    /// The columns.
    pub const fn builder(&mut self) -> &mut Builder {
        &mut self.builder
    }

    /// Has batches of transactions ruled on from here on: each partition has its own judge. Without one, all are taken,
    /// and the column `transactionState` is null.
    pub fn set_judge(&mut self, judge: Option<Judge>) {
        self.judge = judge;
        self.ruled = false;
    }

    /// Reads until the record batch is full or the log ends. After an error, the rows before it are still there to
    /// be taken with [`Columnar::take`].
    pub fn pull<S: Source>(&mut self, entries: &mut Entries<S>) -> Result<Pulled, ReadError> {
        let origin = if self.builder.wants_views() { entries.source().buffer() } else { None };
        loop {
            if self.builder.is_full() {
                return Ok(Pulled::Full);
            }
            let selection = self.builder.selection();
            // A judge wants to see all of them.
            if self.judge.is_none() && selection.is_ranged() {
                entries.pass_over(|head| selection.overlaps(head))?;
            }
            let position = entries.position();
            match entries.next_where(|head| selection.overlaps(head))? {
                Next::End => return Ok(Pulled::End),
                Next::Damage(damage) => {
                    let error = damage.error();
                    self.damage(damage, error)?;
                }
                Next::Entry(entry) => {
                    if let Some(judge) = &self.judge {
                        let first = !std::mem::replace(&mut self.ruled, true);
                        match judge.rule(&entry.head) {
                            Ruling::Take(state) => self.builder.set_transaction_state(Some(state)),
                            Ruling::LeaveOut => continue,
                            Ruling::Stop => {
                                return Ok(Pulled::Behind {
                                    head: entry.head,
                                    position: entry.position,
                                    first,
                                });
                            }
                        }
                    }
                    // Beyond what one record batch may hold: hand out what there is, then read it again.
                    if self.builder.rows() > 0 && !self.builder.has_room(self.need(&entry)) {
                        entries.rewind(position);
                        return Ok(Pulled::Full);
                    }
                    self.entry(&entry, origin.as_ref())?;
                }
            }
        }
    }

    /// Bytes that an entry's records may take.
    fn need(&self, entry: &Entry<'_>) -> usize {
        match entry.head.codec() {
            Some(Codec::None) | None => entry.head.size,
            Some(_) => {
                // Not known before it is decompressed, but rarely over this.
                let limit = usize::try_from(self.limits.decompressed).unwrap_or(usize::MAX);
                limit.min(i32::MAX as usize / 2)
            }
        }
    }

    fn damage(&mut self, damage: Damage, error: Error) -> Result<(), ReadError> {
        let is_tail = damage.is_tail();
        let (position, size) = (damage.range.start, damage.range.end - damage.range.start);
        self.found.push(damage);
        match self.mode {
            _ if is_tail => Ok(()),
            Mode::FailFast => Err(ReadError::Corrupt(error)),
            Mode::DropMalformed => Ok(()),
            Mode::Permissive => {
                let text = format!("{}: {size} bytes at {position}: {}", error.kind().name(), error.flaw);
                self.builder.damage(position, &text);
                Ok(())
            }
        }
    }

    fn entry(&mut self, entry: &Entry<'_>, origin: Option<&ArrowBuffer>) -> Result<(), ReadError> {
        if !self.builder.selection().may_hold(&entry.head) {
            return Ok(());
        }
        let done = match (self.builder.wants_views(), entry.is_compressed()) {
            (false, _) => {
                let opened = entry.open(&mut self.decompressor, &self.limits, &mut self.buffer);
                opened.and_then(|payload| self.builder.fill(entry, &payload, &self.limits))
            }
            (true, false) => self.view(entry, origin),
            (true, true) => self.view_decompressed(entry),
        };
        done.or_else(|error| {
            let range = entry.position..entry.position + entry.head.size as u64;
            self.damage(Damage { range, flaw: error.flaw }, error)
        })
    }

    /// Views of an entry where it lies.
    fn view(&mut self, entry: &Entry<'_>, origin: Option<&ArrowBuffer>) -> Result<(), Error> {
        // Views reach 4 GiB: a larger mapping is handed on in slices, and a batch begins in the first half of one.
        const REACH: usize = 1 << 30;
        if let Some(buffer) = origin {
            let at = entry.bytes.as_ptr() as usize - buffer.as_ptr() as usize;
            let slice = at / REACH * REACH;
            let begins = buffer.as_ptr() as usize + slice;
            let end = (slice + 2 * REACH).min(buffer.len());
            if !self.builder.is_origin(begins) {
                self.builder.set_origin(&buffer.slice_with_length(slice, end - slice));
            }
            let payload = entry.payload(&[], None)?;
            return self.builder.fill(entry, &payload, &self.limits);
        }
        let copy = ArrowBuffer::from(entry.bytes.to_vec());
        let owned = Entry { bytes: &copy, ..*entry };
        self.builder.set_origin(&copy);
        let payload = owned.payload(&[], None)?;
        self.builder.fill(&owned, &payload, &self.limits)
    }

    /// Views of what an entry decompresses to, which the record batch then owns.
    fn view_decompressed(&mut self, entry: &Entry<'_>) -> Result<(), Error> {
        let mut own = Buffer::new();
        let cut = entry.decompress(&mut self.decompressor, &self.limits, &mut own)?;
        let bytes = Arc::new(own);
        self.builder.set_origin(&bytes::Bytes::from_owner(Shared(Arc::clone(&bytes))).into());
        let payload = entry.payload(&bytes, cut)?;
        self.builder.fill(entry, &payload, &self.limits)
    }

    /// Takes the rows read so far, `None` where there are none.
    pub fn take(&mut self) -> Result<Option<RecordBatch>, ReadError> {
        if self.builder.rows() == 0 {
            return Ok(None);
        }
        self.builder.finish().map(Some).map_err(ReadError::Arrow)
    }
}

struct Shared(Arc<Buffer>);

impl AsRef<[u8]> for Shared {
    fn as_ref(&self) -> &[u8] {
        self.0.as_slice()
    }
}
