//! A file of which only headers are read.

use std::io;
use std::path::Path;

use magicbyte::Source;

use crate::gate;
use crate::opened::Opened;

/// A file whose headers are read and whose records are passed over: small reads where entries are large, larger ones
/// where many headers stand close together.
pub(crate) struct Hops {
    file: Opened,
    window: Vec<u8>,
    begins: u64,
    last: bool,
    fills: u32,
}

/// Bytes read at once where entries are small.
const NEAR: usize = 64 << 10;
/// An entry's records cost less to read than a read costs, up to about this size.
const FAR: u64 = 16 << 10;

impl Hops {
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        Ok(Self { file: Opened::open(path)?, window: Vec::new(), begins: 0, last: false, fills: 0 })
    }
}

impl Source for Hops {
    fn fill(&mut self, position: u64, need: u64) -> io::Result<()> {
        self.fills = self.fills.wrapping_add(1);
        if self.fills.is_multiple_of(256) {
            // A survey of a large log takes seconds: Ctrl-C ends it.
            gate::interrupted()?;
        }
        let end = self.begins + self.window.len() as u64;
        let near = position.saturating_sub(end) < FAR;
        let there = self.file.len()?.saturating_sub(position);
        let want =
            usize::try_from(need.min(there.saturating_add(1))).map_err(|_| io::ErrorKind::OutOfMemory)?;
        let len = if near { want.max(NEAR) } else { want };
        self.window.resize(len, 0);
        let mut filled = 0;
        let mut ended = false;
        while filled < len && !ended {
            match self.file.read_at(&mut self.window[filled..], position + filled as u64) {
                Ok(0) => ended = true,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.window.truncate(filled);
        self.begins = position;
        self.last = ended;
        Ok(())
    }

    fn window(&self) -> (&[u8], u64, bool) {
        (&self.window, self.begins, self.last)
    }
}
