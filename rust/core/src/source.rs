//! Where a log's bytes come from, and the loop that reads entries out of them.

use std::io;

use crate::entry::Entry;
use crate::frame;
use crate::head::Head;
use crate::log::{Damage, Options, Step, Walker};

/// Hands out windows of a log. Implementations do the I/O; the core does none.
pub trait Source {
    /// Makes the window begin at or before `position` and reach `need` bytes beyond it, or to the log's end.
    fn fill(&mut self, position: u64, need: u64) -> io::Result<()>;

    /// The window's bytes, where they begin in the log, and whether the log ends with them.
    fn window(&self) -> (&[u8], u64, bool);

    /// The window as a buffer that Arrow can share, for views; `None` has the viewed bytes copied.
    #[cfg(feature = "arrow")]
    fn buffer(&self) -> Option<arrow_buffer::Buffer> {
        None
    }
}

/// Bytes in hand are one window.
impl Source for &[u8] {
    fn fill(&mut self, _position: u64, _need: u64) -> io::Result<()> {
        Ok(())
    }

    fn window(&self) -> (&[u8], u64, bool) {
        (self, 0, true)
    }
}

/// A buffer in hand is one window, which views may point into.
#[cfg(feature = "arrow")]
impl Source for &arrow_buffer::Buffer {
    fn fill(&mut self, _position: u64, _need: u64) -> io::Result<()> {
        Ok(())
    }

    fn window(&self) -> (&[u8], u64, bool) {
        (self, 0, true)
    }

    fn buffer(&self) -> Option<arrow_buffer::Buffer> {
        Some((*self).clone())
    }
}

/// What comes next in a log.
#[derive(Debug)]
pub enum Next<'a> {
    /// An entry.
    Entry(Entry<'a>),
    /// Damage, or a tail.
    Damage(Damage),
    /// The end.
    End,
}

/// Reads the entries of one [`Source`].
#[derive(Debug)]
pub struct Entries<S> {
    source: S,
    walker: Walker,
}

impl<S: Source> Entries<S> {
    /// Begins at `position`, where an entry begins.
    pub const fn new(source: S, options: Options, position: u64) -> Self {
        Self { source, walker: Walker::new(options, position) }
    }

    /// The source, whose window holds the entry that came last.
    pub const fn source(&self) -> &S {
        &self.source
    }

    /// The source, to be closed or used again.
    pub fn into_source(self) -> S {
        self.source
    }

    /// Where the next entry should begin.
    pub const fn position(&self) -> u64 {
        self.walker.position()
    }

    /// Goes back to `position`, where the entry that came last begins.
    pub const fn rewind(&mut self, position: u64) {
        self.walker.rewind(position);
    }

    /// The next entry's header, without a look at its records: neither their checksum nor their bytes are read, where
    /// the source can spare that. `None`: [`Entries::next`] has to tell what comes, because it is no entry at a
    /// glance, or ends behind the log's end, or is one of those that are `wanted` whole.
    pub fn next_head(&mut self, wanted: impl Fn(&Head) -> bool) -> io::Result<Option<Head>> {
        let position = self.walker.position();
        if !self.walker.at_entry() {
            return Ok(None);
        }
        let options = *self.walker.options();
        let head = frame::peek(self.ahead(position, frame::LOOK)?, options.dialect);
        let Some(head) = head.filter(|head| !wanted(head)) else { return Ok(None) };
        let size = head.size as u64;
        if options.limits.batch(size).is_err() {
            return Ok(None);
        }
        // Its last byte has to be there. The next header stands behind it.
        let last = position + size - 1;
        if self.ahead(last, 1 + frame::LOOK)?.is_empty() {
            return Ok(None);
        }
        self.walker.pass(size);
        Ok(Some(head))
    }

    /// Passes over the entries that are not `wanted`, as a seek would: see [`Entries::next_head`].
    pub fn pass_over(&mut self, wanted: impl Fn(&Head) -> bool) -> io::Result<()> {
        while self.next_head(&wanted)?.is_some() {}
        Ok(())
    }

    /// The bytes from `position` on: `need` of them, or all that are left.
    fn ahead(&mut self, position: u64, need: u64) -> io::Result<&[u8]> {
        let place = |source: &S| {
            let (window, begins, last) = source.window();
            let at = position.checked_sub(begins).and_then(|at| usize::try_from(at).ok())?;
            let ahead = window.len().saturating_sub(at);
            (last || ahead as u64 >= need).then_some(at)
        };
        let mut at = place(&self.source);
        if at.is_none() {
            self.source.fill(position, need)?;
            at = place(&self.source);
        }
        let (window, ..) = self.source.window();
        Ok(at.and_then(|at| window.get(at..)).unwrap_or_default())
    }

    /// The next entry.
    #[expect(
        clippy::should_implement_trait,
        reason = "an entry borrows the window, which Iterator cannot say"
    )]
    pub fn next(&mut self) -> io::Result<Next<'_>> {
        self.next_where(|_| true)
    }

    /// The next entry; one that is not `wanted` comes with its checksum not compared.
    pub fn next_where(&mut self, wanted: impl Fn(&Head) -> bool) -> io::Result<Next<'_>> {
        let found: Option<(Head, u64)> = loop {
            let position = self.walker.position();
            let (window, begins, last) = self.source.window();
            let at = position.checked_sub(begins).and_then(|at| usize::try_from(at).ok());
            let ahead = at.and_then(|at| window.get(at..));
            let step = match ahead {
                Some(ahead) => self.walker.step_where(ahead, last, &wanted),
                // The window is elsewhere. Behind the end of the log it is empty.
                None if last && position >= begins => self.walker.step(&[], true),
                None => Step::More(1),
            };
            match step {
                Step::Entry(entry) => break Some((entry.head, entry.position)),
                Step::Damage(damage) => return Ok(Next::Damage(damage)),
                Step::End => break None,
                Step::More(need) => {
                    let position = self.walker.position();
                    self.source.fill(position, need)?;
                }
            }
        };
        let Some((head, position)) = found else { return Ok(Next::End) };
        let (window, begins, _) = self.source.window();
        let at = (position - begins) as usize;
        Ok(Next::Entry(Entry { position, bytes: &window[at..at + head.size], head }))
    }
}
