//! Records straight into their columns, through pointers, in the one pass that decodes them.
//!
//! Memory is asked for once a batch, not once a string: a *budget* says how many bytes of records the columns have
//! room for, what is written is paid from it before (usual records of v2 together, others one by one), and only a budget
//! that is spent leads to the vectors. Short strings are copied in moves of constant size that may write too much, which
//! the next string overwrites. Records of v2 of the usual kind are parsed here, too (`run.rs`). Against rows that are
//! gathered first, as `fill.rs` does for views and rarer columns, columns of A and B are half as fast again.

#![allow(unsafe_code, reason = "columns are written half as fast again without a check for each string")]

use super::builder::{Builder, Origin};
use super::cells::{Ends, Strings};
use crate::head::Head;
use crate::limits::Limits;
use crate::record::{Record, Sink};

mod run;
#[cfg(test)]
mod tests;

/// Strings up to this long are copied in one piece of constant size.
const PIECE: usize = 32;
/// And up to twice this long in two that overlap.
const LONG: usize = 64;
/// What a record costs beside its strings. No format has records shorter than half of it, so a batch costs no more
/// than three times its bytes.
const RECORD: usize = 8;
/// What a header costs beside its strings; none takes fewer bytes.
const HEADER: usize = 2;
/// Bytes that room is made for at a time, so that one false length asks for no more than it brings.
const CHUNK: usize = 256 << 10;
/// [`Builder::way`] leads here only where they are, and none goes away in the middle of a batch.
const SEEN: &str = "columns that are there";

/// The rows without a value, by their distance from where the pen began.
#[derive(Debug, Default)]
pub(crate) struct Nulls {
    key: Vec<u32>,
    value: Vec<u32>,
    header_key: Vec<u32>,
    header_value: Vec<u32>,
}

/// The columns that are written here.
pub(crate) struct Parts<'b> {
    pub(crate) nulls: &'b mut Nulls,
    pub(crate) offsets: &'b mut Vec<i64>,
    pub(crate) timestamps: &'b mut Vec<i64>,
    /// Keys and values.
    pub(crate) strings: Option<(&'b mut Strings, &'b mut Strings)>,
    /// Ends of each row's headers, their keys and values.
    pub(crate) headers: Option<(&'b mut Ends, &'b mut Strings, &'b mut Strings)>,
}

/// Where a column of strings is written.
#[derive(Clone, Copy)]
struct Pen {
    /// Start of the column's bytes, or of its views.
    data: *mut u8,
    /// The end of row `n` goes to `ends[n + 1]`; views have none.
    ends: *mut i32,
    nulls: *mut u32,
}

/// How far a column of strings is.
#[derive(Clone, Copy, Default)]
struct Tip {
    /// Bytes that are filled.
    filled: usize,
    /// Rows since the pen began that have no value.
    nulls: usize,
}

/// How far all columns are.
#[derive(Clone, Copy)]
struct Tips {
    budget: usize,
    row: usize,
    header: usize,
    key: Tip,
    value: Tip,
    header_key: Tip,
    header_value: Tip,
}

/// Where everything goes.
///
/// Invariant, with `tips.budget`: each pen has room for `budget + PIECE` bytes behind `filled`; `offsets`, `timestamps`,
/// `list_ends`, `key` and `value` have room for `budget / RECORD` rows behind `row`; the pens of the headers have room for
/// `budget / HEADER` rows behind `header`; and `nulls` have room for as many as there are rows.
#[derive(Clone, Copy)]
struct Pens {
    offsets: *mut i64,
    timestamps: *mut i64,
    list_ends: *mut i32,
    key: Pen,
    value: Pen,
    header_key: Pen,
    header_value: Pen,
    /// Where rows and headers began.
    row: usize,
    header: usize,
    /// What views point into.
    origin: Origin,
}

/// Takes the records of one batch.
pub(crate) struct Direct<'b, 'a, const STRINGS: bool, const HEADERS: bool, const VIEWS: bool> {
    builder: &'b mut Builder,
    takes_all: bool,
    bytes: &'a [u8],
    pens: Pens,
    tips: Tips,
}

impl Pen {
    const NONE: Self =
        Self { data: std::ptr::null_mut(), ends: std::ptr::null_mut(), nulls: std::ptr::null_mut() };

    /// A pen behind the rows that `column` has, with room for `bytes` and `rows` more.
    fn new(column: &mut Strings, nulls: &mut Vec<u32>, bytes: usize, rows: usize) -> (Self, Tip) {
        nulls.clear();
        nulls.reserve(rows);
        let nulls = nulls.as_mut_ptr();
        let column = match column {
            Strings::Copied(column) => column,
            Strings::Viewed(column) => {
                column.views.values.reserve(rows);
                let data = column.views.values.as_mut_ptr().cast();
                return (Self { data, ends: std::ptr::null_mut(), nulls }, Tip::default());
            }
        };
        let filled = column.data.len();
        // The room's start is `filled` bytes behind the memory's.
        let room = column.data.room(bytes + PIECE, usize::MAX).as_mut_ptr();
        column.ends.0.values.reserve(rows);
        let ends = column.ends.0.values.as_mut_ptr();
        (Self { data: room.wrapping_sub(filled), ends, nulls }, Tip { filled, nulls: 0 })
    }

    /// Counts what was written to the rows `from..to` as the column's.
    ///
    /// # Safety
    /// The pen was made by [`Pen::new`] of this column and these nulls, and has written all of these rows and nulls.
    unsafe fn put_down(tip: Tip, column: &mut Strings, nulls: &mut Vec<u32>, from: usize, to: usize) {
        // SAFETY: all vectors have the capacity, and all of their elements are written.
        let valid = unsafe {
            nulls.set_len(tip.nulls);
            match column {
                Strings::Copied(column) => {
                    column.data.advance(tip.filled - column.data.len());
                    column.ends.0.values.set_len(to + 1);
                    &mut column.valid
                }
                Strings::Viewed(column) => {
                    column.views.values.set_len(to);
                    &mut column.valid
                }
            }
        };
        let rows = to - from;
        match tip.nulls {
            0 => valid.extend_run(true, rows),
            nulls if nulls == rows => valid.extend_run(false, rows),
            _ => {
                let mut next = nulls.iter().map(|&row| row as usize).peekable();
                valid.extend((0..rows).map(|row| next.next_if_eq(&row).is_none()));
            }
        }
    }

    /// Ends a row.
    ///
    /// # Safety
    /// There must be room for the row.
    #[inline(always)]
    unsafe fn end(&self, row: usize, filled: usize) {
        // SAFETY: the caller's.
        unsafe { self.ends.wrapping_add(row + 1).write(filled as i32) };
    }

    /// Writes a row's view.
    ///
    /// # Safety
    /// There must be room for the row, in a column of views.
    #[inline(always)]
    unsafe fn view(&self, row: usize, view: u128) {
        // SAFETY: the caller's.
        unsafe { self.data.cast::<u128>().wrapping_add(row).write(view) };
    }

    /// Ends a row without a value, `from` being the row where the pen began.
    ///
    /// # Safety
    /// There must be room for the row.
    #[inline(always)]
    unsafe fn null<const VIEWS: bool>(&self, row: usize, from: usize, tip: &mut Tip) {
        // SAFETY: the caller's; there are no more nulls than rows.
        unsafe {
            if VIEWS {
                self.view(row, 0);
            } else {
                self.end(row, tip.filled);
            }
            self.nulls.wrapping_add(tip.nulls).write((row - from) as u32);
        }
        tip.nulls += 1;
    }

    /// Writes a row that may be null.
    ///
    /// # Safety
    /// There must be room for the row and its string.
    unsafe fn write<const VIEWS: bool>(
        &self,
        rows: (usize, usize),
        tip: &mut Tip,
        string: Option<&[u8]>,
        origin: Origin,
    ) {
        // SAFETY: the caller's.
        unsafe {
            let Some(string) = string else { return self.null::<VIEWS>(rows.0, rows.1, tip) };
            if VIEWS {
                return self.view(rows.0, origin.view(string));
            }
            std::ptr::copy_nonoverlapping(string.as_ptr(), self.data.wrapping_add(tip.filled), string.len());
            tip.filled += string.len();
            self.end(rows.0, tip.filled);
        }
    }
}

impl<'b, 'a, const STRINGS: bool, const HEADERS: bool, const VIEWS: bool>
    Direct<'b, 'a, STRINGS, HEADERS, VIEWS>
{
    /// Takes records whose strings lie in `bytes`; about `count` of them. [`Builder::way`] says which sort fits.
    pub(crate) fn new(builder: &'b mut Builder, bytes: &'a [u8], count: usize) -> Self {
        let cost = bytes.len() + RECORD * count.min(bytes.len());
        let (pens, tips) = begin::<STRINGS, HEADERS>(builder, cost.min(CHUNK));
        Self { takes_all: builder.takes_all(), builder, bytes, pens, tips }
    }

    /// Counts all that was written as the columns'.
    pub(crate) fn finish(self) {
        end::<STRINGS, HEADERS>(self.builder, &self.pens, &self.tips);
    }

    /// Pays for what is written next.
    fn pay(&mut self, cost: usize) {
        if cost > self.tips.budget {
            end::<STRINGS, HEADERS>(self.builder, &self.pens, &self.tips);
            (self.pens, self.tips) = begin::<STRINGS, HEADERS>(self.builder, cost.max(CHUNK));
        }
        self.tips.budget -= cost;
    }
}

impl<'a, const STRINGS: bool, const HEADERS: bool, const VIEWS: bool> Sink<'a>
    for Direct<'_, 'a, STRINGS, HEADERS, VIEWS>
{
    const RUNS: bool = true;

    #[inline]
    fn record(&mut self, record: &Record<'a>) -> bool {
        if !self.takes_all
            && !self.builder.wants(record.offset, record.timestamp, record.untimed, record.headers)
        {
            return false;
        }
        let length = |string: Option<&[u8]>| if STRINGS { string.map_or(0, <[u8]>::len) } else { 0 };
        self.pay(RECORD + length(record.key) + length(record.value));
        let (pens, tips) = (&self.pens, &mut self.tips);
        let row = tips.row;
        if record.untimed {
            self.builder.untimed.push(row);
        }
        // SAFETY: what was paid is room in each column: see `Pens`.
        unsafe {
            pens.offsets.wrapping_add(row).write(record.offset);
            pens.timestamps.wrapping_add(row).write(record.timestamp);
            if STRINGS {
                pens.key.write::<VIEWS>((row, pens.row), &mut tips.key, record.key, pens.origin);
                pens.value.write::<VIEWS>((row, pens.row), &mut tips.value, record.value, pens.origin);
            }
            if HEADERS {
                // Of the row before; the last row's is written in the end.
                pens.list_ends.wrapping_add(row).write(tips.header as i32);
            }
        }
        tips.row += 1;
        HEADERS
    }

    #[inline]
    fn header(&mut self, key: &'a [u8], value: Option<&'a [u8]>) {
        if !HEADERS {
            return;
        }
        self.pay(HEADER + key.len() + value.map_or(0, <[u8]>::len));
        let (pens, tips) = (&self.pens, &mut self.tips);
        // SAFETY: what was paid is room in both columns: see `Pens`.
        unsafe {
            let rows = (tips.header, pens.header);
            pens.header_key.write::<VIEWS>(rows, &mut tips.header_key, Some(key), pens.origin);
            pens.header_value.write::<VIEWS>(rows, &mut tips.header_value, value, pens.origin);
        }
        tips.header += 1;
    }

    #[inline(always)]
    fn run(&mut self, head: &Head, limits: &Limits, records: &'a [u8], count: u32) -> (u32, usize) {
        debug_assert!(records.is_empty() || self.bytes.as_ptr_range().contains(&records.as_ptr()));
        if self.takes_all {
            run::run::<STRINGS, HEADERS, VIEWS>(&self.pens, &mut self.tips, head, limits, records, count)
        } else {
            (0, 0)
        }
    }
}

fn columns(builder: &mut Builder) -> Parts<'_> {
    builder.parts().unwrap_or_else(|| unreachable!("{SEEN}"))
}

/// Makes room for `budget`.
fn begin<const STRINGS: bool, const HEADERS: bool>(builder: &mut Builder, budget: usize) -> (Pens, Tips) {
    let (rows, headers) = (budget / RECORD, budget / HEADER);
    let (row, header) = builder.place();
    let origin = builder.origin;
    let Parts { nulls, offsets, timestamps, strings, headers: lists } = columns(builder);
    let room = |column: &mut Vec<i64>| {
        column.reserve(rows);
        column.as_mut_ptr()
    };
    let mut pens = Pens {
        offsets: room(offsets),
        timestamps: room(timestamps),
        list_ends: std::ptr::null_mut(),
        key: Pen::NONE,
        value: Pen::NONE,
        header_key: Pen::NONE,
        header_value: Pen::NONE,
        row,
        header,
        origin,
    };
    let none = Tip::default();
    let mut tips = Tips { budget, row, header, key: none, value: none, header_key: none, header_value: none };
    if STRINGS {
        let (key, value) = strings.unwrap_or_else(|| unreachable!("{SEEN}"));
        (pens.key, tips.key) = Pen::new(key, &mut nulls.key, budget, rows);
        (pens.value, tips.value) = Pen::new(value, &mut nulls.value, budget, rows);
    }
    if HEADERS {
        let (ends, keys, values) = lists.unwrap_or_else(|| unreachable!("{SEEN}"));
        ends.0.values.reserve(rows);
        pens.list_ends = ends.0.values.as_mut_ptr();
        (pens.header_key, tips.header_key) = Pen::new(keys, &mut nulls.header_key, budget, headers);
        (pens.header_value, tips.header_value) = Pen::new(values, &mut nulls.header_value, budget, headers);
    }
    (pens, tips)
}

/// Counts what was written since `begin` as the columns'.
fn end<const STRINGS: bool, const HEADERS: bool>(builder: &mut Builder, pens: &Pens, tips: &Tips) {
    let Parts { nulls, offsets, timestamps, strings, headers } = columns(builder);
    // SAFETY: each record since `begin` wrote its row of both, which `begin` had reserved.
    unsafe {
        offsets.set_len(tips.row);
        timestamps.set_len(tips.row);
    }
    if let Some((key, value)) = strings.filter(|_| STRINGS) {
        // SAFETY: made by `begin` of these columns, and written by each record since.
        unsafe {
            Pen::put_down(tips.key, key, &mut nulls.key, pens.row, tips.row);
            Pen::put_down(tips.value, value, &mut nulls.value, pens.row, tips.row);
        }
    }
    if let Some((ends, keys, values)) = headers.filter(|_| HEADERS) {
        // SAFETY: the vector holds one more than there are rows, `begin` reserved as many more, and each record wrote
        // the end of the one before.
        unsafe {
            pens.list_ends.wrapping_add(tips.row).write(tips.header as i32);
            ends.0.values.set_len(tips.row + 1);
        }
        // SAFETY: made by `begin` of these columns, and written by each header since.
        unsafe {
            Pen::put_down(tips.header_key, keys, &mut nulls.header_key, pens.header, tips.header);
            Pen::put_down(tips.header_value, values, &mut nulls.header_value, pens.header, tips.header);
        }
    }
    builder.count_to(tips.row);
}
