//! Walks the entries of a log: mixed formats, ends of every kind, and on past damage.
//!
//! A [`Walker`] is handed windows of the log and says what stands at the front: an entry, or damage with its range.
//! It does no I/O and keeps no bytes, so that a 10 GB segment is read through a window of a megabyte.
//!
//! What ends a log without being damage (all three leave what came before untouched):
//! - nothing left;
//! - a *torn tail*: an entry whose size and magic are sound but whose end is not there (a write cut short);
//! - a *zero tail*: zeros to the end (a preallocated segment).
//!
//! A *hole* is something else: bytes that are no entry, with sound entries behind them. [`Mode::FailFast`] stops at
//! it with an error; the other modes look for the next entry whose checksum holds and go on there.

use std::ops::Range;

use crate::bytes::field;
use crate::entry::Entry;
use crate::error::{Error, Flaw};
use crate::format::Dialect;
use crate::frame::{Frame, LOOK, frame};
use crate::head::Head;
use crate::limits::Limits;
use crate::prefetch::prefetch_head;

/// What to do at damage; the words are Spark's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Mode {
    /// Stop with an error.
    #[default]
    FailFast,
    /// Leave it out and go on.
    DropMalformed,
    /// Leave it out, say so in its place, and go on.
    Permissive,
}

impl Mode {
    /// By Spark's name, in any case.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Some(match name.to_ascii_uppercase().as_str() {
            "FAILFAST" => Self::FailFast,
            "DROPMALFORMED" => Self::DropMalformed,
            "PERMISSIVE" => Self::Permissive,
            _ => return None,
        })
    }
}

/// How to walk.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// What magic 2 means, or the one format to take.
    pub dialect: Dialect,
    /// Whether checksums are compared.
    pub check_crc: bool,
    /// What to do at damage.
    pub mode: Mode,
    /// Bounds.
    pub limits: Limits,
    /// Whether zeros may fill the whole log: true for a file, which may be preallocated; false for bytes in hand.
    pub preallocated: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            dialect: Dialect::Kafka,
            check_crc: true,
            mode: Mode::FailFast,
            limits: Limits::default(),
            preallocated: false,
        }
    }
}

/// A stretch of a log that is no entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The bytes, by their positions in the log.
    pub range: Range<u64>,
    /// What is wrong where it begins.
    pub flaw: Flaw,
}

impl Damage {
    /// As an error at the place where it begins.
    #[must_use]
    pub const fn error(&self) -> Error {
        self.flaw.at(self.range.start)
    }

    /// Whether it is an end that healthy logs have too: a torn or a zero tail.
    #[must_use]
    pub const fn is_tail(&self) -> bool {
        matches!(self.flaw, Flaw::TornTail { .. } | Flaw::ZeroTail { .. })
    }
}

/// What stands at the front of the window.
#[derive(Debug)]
pub enum Step<'a> {
    /// An entry whose checksum holds, or was not asked for. The walker stands behind it.
    Entry(Entry<'a>),
    /// Damage. In [`Mode::FailFast`], or when it is a tail, this was the last step.
    Damage(Damage),
    /// The window must hold so many bytes from [`Walker::position`] on, or all that are left.
    More(u64),
    /// Nothing left.
    End,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Entries,
    /// Zeros since this position: a tail, if nothing else comes.
    Zeros(u64),
    /// Damage since `from`; looking for the next sound entry.
    Lost {
        from: u64,
        flaw: Flaw,
        try_first: Option<u64>,
        budget: u64,
    },
    /// An entry over the limit begins at `from` and, if it is whole, ends at `next`, where the walker looks.
    Over {
        from: u64,
        next: u64,
        flaw: Flaw,
    },
    /// The last entry begins at `from` and is torn, but how far it goes is not known yet.
    Torn {
        from: u64,
        need: u64,
    },
    Done,
}

/// Walks a log window by window.
#[derive(Clone, Debug)]
pub struct Walker {
    options: Options,
    position: u64,
    state: State,
    seen: bool,
}

/// Checksum work that a search for the next sound entry may spend, per byte searched and to begin with. A hostile
/// log can make every byte look like the head of a large entry.
const BUDGET_PER_BYTE: u64 = 8;
const BUDGET: u64 = 64 << 20;
/// How much one step of that search does before it lets its caller see to other things (Ctrl-C, say): bytes of
/// checksums, and for each byte searched as much as [`WORK_PER_BYTE`] of them take.
const WORK: u64 = 32 << 20;
const WORK_PER_BYTE: u64 = 32;

impl Walker {
    /// Begins at `position`, where an entry begins.
    #[must_use]
    pub const fn new(options: Options, position: u64) -> Self {
        Self { options, position, state: State::Entries, seen: false }
    }

    /// Where the window must begin.
    #[inline]
    #[must_use]
    pub const fn position(&self) -> u64 {
        self.position
    }

    /// Goes back to `position`, where an entry begins that was handed out before.
    pub(crate) const fn rewind(&mut self, position: u64) {
        self.position = position;
        self.state = State::Entries;
    }

    /// Whether an entry is to begin at [`Walker::position`]: not within zeros or damage, nor behind the end.
    pub(crate) fn at_entry(&self) -> bool {
        self.state == State::Entries
    }

    /// Passes over an entry of which only the header was looked at.
    pub(crate) const fn pass(&mut self, size: u64) {
        self.position += size;
        self.seen = true;
    }

    /// How it walks.
    #[must_use]
    pub const fn options(&self) -> &Options {
        &self.options
    }

    /// Whether an entry came already.
    #[must_use]
    pub const fn seen_entry(&self) -> bool {
        self.seen
    }

    /// Tells what stands at the front of `window`, which begins at [`Walker::position`]. `last` says that the log
    /// ends with the window.
    #[inline]
    pub fn step<'a>(&mut self, window: &'a [u8], last: bool) -> Step<'a> {
        self.step_where(window, last, |_| true)
    }

    /// As [`Walker::step`], but an entry that is not `wanted` comes with its checksum not compared: most of its bytes
    /// are not even fetched from memory.
    #[inline]
    pub fn step_where<'a>(
        &mut self,
        window: &'a [u8],
        last: bool,
        wanted: impl Fn(&Head) -> bool,
    ) -> Step<'a> {
        if let State::Entries = self.state {
            if window.len() < LOOK as usize && !last {
                return Step::More(LOOK);
            }
            if let Frame::Entry(entry) = frame(window, self.position, self.options.dialect) {
                match self.accept(&entry, window, wanted) {
                    Ok(()) => {
                        self.position += entry.head.size as u64;
                        self.seen = true;
                        return Step::Entry(entry);
                    }
                    Err(flaw) => {
                        return self.damaged(flaw, Some(entry.head.size as u64), window, last);
                    }
                }
            }
        }
        self.slow_step(window, last)
    }

    fn accept(&self, entry: &Entry<'_>, window: &[u8], wanted: impl Fn(&Head) -> bool) -> Result<(), Flaw> {
        self.options.limits.batch(entry.head.size as u64)?;
        if !wanted(&entry.head) {
            prefetch_head(window, entry.head.size);
            return Ok(());
        }
        if self.options.check_crc { entry.check_crc_in(window) } else { Ok(()) }
    }

    #[inline(never)]
    fn slow_step<'a>(&mut self, window: &'a [u8], last: bool) -> Step<'a> {
        match self.state {
            State::Entries => self.no_entry(window, last),
            State::Zeros(from) => self.zeros(from, window, last),
            State::Lost { .. } => self.search(window, last),
            State::Over { from, next, flaw } => self.over(from, next, flaw, window, last),
            State::Torn { from, need } => self.torn(from, need, window, last),
            State::Done => Step::End,
        }
    }

    fn finish<'a>(&mut self, step: Step<'a>) -> Step<'a> {
        self.state = State::Done;
        step
    }

    /// At a place where an entry should begin, and none does.
    fn no_entry<'a>(&mut self, window: &'a [u8], last: bool) -> Step<'a> {
        if window.is_empty() && last {
            return self.finish(Step::End);
        }
        let starts_with_zeros = window.iter().take(12).all(|&byte| byte == 0);
        if starts_with_zeros && (self.seen || self.options.preallocated) {
            self.state = State::Zeros(self.position);
            return self.zeros(self.position, window, last);
        }
        match frame(window, self.position, self.options.dialect) {
            Frame::Flaw(flaw) => self.damaged(flaw, None, window, last),
            Frame::Short(need) if last => {
                let torn = Flaw::TornTail { have: window.len() as u64, need };
                // A false length can look like a torn tail while sound entries stand behind it.
                self.damaged(torn, None, window, last)
            }
            Frame::Short(need) => match self.options.limits.batch(need) {
                Ok(()) => Step::More(need.max(LOOK)),
                // It is never held. Whether it ends within the log tells a torn tail from what is too large.
                Err(flaw) => {
                    let next = self.position + need;
                    self.state = State::Over { from: self.position, next, flaw };
                    self.position = next - 1;
                    Step::More(1 + LOOK)
                }
            },
            // `step` took the sound ones.
            Frame::Entry(_) => self.finish(Step::End),
        }
    }

    /// At the last byte of an entry that is over the limit, if the log goes so far.
    fn over<'a>(&mut self, from: u64, next: u64, flaw: Flaw, window: &'a [u8], last: bool) -> Step<'a> {
        let stops = self.options.mode == Mode::FailFast;
        let Some(behind) = window.get(1..) else {
            if !last {
                return Step::More(1 + LOOK);
            }
            let need = next - from;
            self.position = from + 1;
            self.state = if stops {
                State::Torn { from, need }
            } else {
                let flaw = Flaw::TornTail { have: 0, need };
                State::Lost { from, flaw, try_first: None, budget: BUDGET }
            };
            return Step::More(LOOK);
        };
        if stops {
            self.position = next;
            return self.finish(Step::Damage(Damage { range: from..next, flaw }));
        }
        if behind.is_empty() && last {
            return self.lost_until(from, next, flaw);
        }
        let mut budget = BUDGET;
        match self.probe(behind, next, last, &mut budget) {
            Probe::Sound => self.lost_until(from, next, flaw),
            Probe::Short(need) => Step::More(1 + need),
            Probe::No if behind.len() < LOOK as usize && !last => Step::More(1 + LOOK),
            Probe::No => {
                self.position = from + 1;
                self.state = State::Lost { from, flaw, try_first: None, budget };
                Step::More(LOOK)
            }
        }
    }

    /// Within a torn entry that is over the limit: only its end is still to be found.
    fn torn<'a>(&mut self, from: u64, need: u64, window: &'a [u8], last: bool) -> Step<'a> {
        self.position += window.len() as u64;
        if !last {
            return Step::More(1);
        }
        let flaw = Flaw::TornTail { have: self.position - from, need };
        self.finish(Step::Damage(Damage { range: from..self.position, flaw }))
    }

    fn zeros<'a>(&mut self, from: u64, window: &'a [u8], last: bool) -> Step<'a> {
        let count = window.iter().take_while(|&&byte| byte == 0).count();
        self.position += count as u64;
        let all = count == window.len();
        if all && last {
            let flaw = Flaw::ZeroTail { bytes: self.position - from };
            return self.finish(Step::Damage(Damage { range: from..self.position, flaw }));
        }
        if all {
            return Step::More(LOOK);
        }
        // Something stands behind the zeros, so they were no tail.
        let flaw = Flaw::SizeTooSmall { size: 0, minimum: 14 };
        if self.options.mode == Mode::FailFast {
            let range = from..self.position;
            return self.finish(Step::Damage(Damage { range, flaw }));
        }
        // The next entry may itself begin with zeros: the high bytes of its offset and size.
        self.position = self.position.saturating_sub(12).max(from + 1);
        self.state = State::Lost { from, flaw, try_first: None, budget: BUDGET };
        Step::More(LOOK)
    }

    /// Damage begins at the walker's position. `size`: what the entry there says it takes, if it is framed.
    #[inline(never)]
    fn damaged<'a>(&mut self, flaw: Flaw, size: Option<u64>, window: &'a [u8], last: bool) -> Step<'a> {
        let from = self.position;
        let end = from + window.len() as u64;
        let tail = matches!(flaw, Flaw::TornTail { .. });
        if self.options.mode == Mode::FailFast {
            let to = size.map_or(end, |size| from + size);
            self.position = to;
            return self.finish(Step::Damage(Damage { range: from..to, flaw }));
        }
        debug_assert!(!tail || last);
        self.position = from + 1;
        let try_first = size.map(|size| from + size);
        self.state = State::Lost { from, flaw, try_first, budget: BUDGET };
        self.search(window.get(1..).unwrap_or_default(), last)
    }

    /// Looks for the next sound entry at or behind the walker's position.
    fn search<'a>(&mut self, window: &'a [u8], last: bool) -> Step<'a> {
        let State::Lost { from, flaw, try_first, mut budget } = self.state else {
            return self.finish(Step::End);
        };
        // An entry with a wrong checksum but a true length: the next one stands right behind it, and what looks
        // like an entry inside it is a record's value.
        if let Some(next) = try_first {
            let skip = usize::try_from(next - self.position).unwrap_or(usize::MAX);
            if window.len() <= skip && last {
                return self.lost_until(from, next.max(self.position), flaw);
            }
            // So few bytes tell nothing while there are more.
            let behind = window.get(skip..).filter(|rest| last || rest.len() >= LOOK as usize);
            match behind.map(|rest| self.probe(rest, next, last, &mut budget)) {
                Some(Probe::Sound) => return self.lost_until(from, next, flaw),
                Some(Probe::Short(need)) => return Step::More(skip as u64 + need),
                None => return Step::More(skip as u64 + LOOK),
                Some(Probe::No) => {}
            }
        }
        let mut work = 0;
        for at in 0..window.len() {
            let rest = &window[at..];
            if work >= WORK || (rest.len() < LOOK as usize && !last) {
                self.position += at as u64;
                self.state = State::Lost { from, flaw, try_first: None, budget };
                return Step::More(LOOK);
            }
            budget = budget.saturating_add(BUDGET_PER_BYTE);
            let before = budget;
            let probe = self.probe(rest, self.position + at as u64, last, &mut budget);
            work += WORK_PER_BYTE + (before - budget);
            match probe {
                Probe::No => {}
                Probe::Sound => return self.lost_until(from, self.position + at as u64, flaw),
                Probe::Short(need) => {
                    self.position += at as u64;
                    self.state = State::Lost { from, flaw, try_first: None, budget };
                    return Step::More(need);
                }
            }
        }
        self.position += window.len() as u64;
        self.state = State::Lost { from, flaw, try_first: None, budget };
        if !last {
            return Step::More(LOOK);
        }
        let range = from..self.position;
        let flaw = match flaw {
            Flaw::TornTail { need, .. } => Flaw::TornTail { have: range.end - range.start, need },
            other => other,
        };
        self.finish(Step::Damage(Damage { range, flaw }))
    }

    /// The damage ends at `next`, where a sound entry begins, or the log does.
    fn lost_until<'a>(&mut self, from: u64, next: u64, flaw: Flaw) -> Step<'a> {
        self.position = next;
        self.state = State::Entries;
        let flaw = match flaw {
            // Sound entries follow, so the length was false and this was no tail.
            Flaw::TornTail { need, .. } if need > 0 => Flaw::SizeTooLarge { size: need as i64 },
            Flaw::TornTail { .. } => Flaw::Hole { bytes: next - from },
            other => other,
        };
        Step::Damage(Damage { range: from..next, flaw })
    }

    /// Whether a sound entry stands at the front of `rest`. Its checksum decides, whether or not the reader was
    /// told to compare checksums: there is no other proof.
    fn probe(&self, rest: &[u8], position: u64, last: bool, budget: &mut u64) -> Probe {
        // No log holds a negative offset, and only a record's value is likely to look like one.
        if rest.first().is_none_or(|&byte| byte >= 0x80) || field::<8>(rest, 8).is_none() {
            return Probe::No;
        }
        match frame(rest, position, self.options.dialect) {
            Frame::Entry(entry) => {
                let size = entry.head.size as u64;
                if self.options.limits.batch(size).is_err() || size > *budget {
                    return Probe::No;
                }
                *budget -= size;
                if entry.check_crc().is_ok() { Probe::Sound } else { Probe::No }
            }
            Frame::Short(need) if !last => {
                let fits = need <= *budget && self.options.limits.batch(need).is_ok();
                if fits { Probe::Short(need.max(LOOK)) } else { Probe::No }
            }
            _ => Probe::No,
        }
    }
}

enum Probe {
    Sound,
    No,
    Short(u64),
}

/// The entries of a log that is in memory as a whole.
#[derive(Clone, Debug)]
pub struct Log<'a> {
    bytes: &'a [u8],
    walker: Walker,
}

impl<'a> Log<'a> {
    /// All of `bytes`.
    #[must_use]
    pub const fn new(bytes: &'a [u8], options: Options) -> Self {
        Self { bytes, walker: Walker::new(options, 0) }
    }

    /// The walker, for its position.
    #[must_use]
    pub const fn walker(&self) -> &Walker {
        &self.walker
    }
}

impl<'a> Iterator for Log<'a> {
    type Item = Result<Entry<'a>, Damage>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let at = usize::try_from(self.walker.position()).unwrap_or(usize::MAX);
            let window = self.bytes.get(at..).unwrap_or_default();
            match self.walker.step(window, true) {
                Step::Entry(entry) => return Some(Ok(entry)),
                Step::Damage(damage) => return Some(Err(damage)),
                Step::More(_) => {}
                Step::End => return None,
            }
        }
    }
}
