//! Lines and numbers of the two small text files, with the byte position that an error needs.

use crate::error::{Error, Flaw, Result};

/// The lines of a text file. A line ends in `\n` or `\r\n`; the last one need not.
#[derive(Clone, Debug)]
pub(super) struct Lines<'a> {
    rest: &'a [u8],
    position: u64,
}

/// A line without its end, and where in the file it begins.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line<'a> {
    text: &'a [u8],
    pub(super) position: u64,
}

impl<'a> Lines<'a> {
    pub(super) const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes, position: 0 }
    }
}

impl<'a> Iterator for Lines<'a> {
    type Item = Line<'a>;

    fn next(&mut self) -> Option<Line<'a>> {
        if self.rest.is_empty() {
            return None;
        }
        let end = self.rest.iter().position(|byte| *byte == b'\n');
        let (text, taken) = end.map_or((self.rest, self.rest.len()), |end| (&self.rest[..end], end + 1));
        let line = Line { text: text.strip_suffix(b"\r").unwrap_or(text), position: self.position };
        self.rest = &self.rest[taken..];
        self.position += taken as u64;
        Some(line)
    }
}

impl<'a> Line<'a> {
    /// An error at this line.
    pub(super) const fn flaw(&self, what: &'static str) -> Error {
        Flaw::Index(what).at(self.position)
    }

    /// The line as text; bytes that are none are a malformed line.
    pub(super) fn text(&self, what: &'static str) -> Result<&'a str> {
        std::str::from_utf8(self.text).map_err(|_| self.flaw(what))
    }

    /// The whole line as a number.
    pub(super) fn number<T: std::str::FromStr>(&self, what: &'static str) -> Result<T> {
        self.text(what)?.trim_ascii().parse().map_err(|_| self.flaw(what))
    }
}
