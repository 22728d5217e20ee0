//! Who owns the bytes.
//!
//! A file is read by position into reference-counted blocks, so that it may grow, shrink or vanish meanwhile: what was
//! read stays valid, and what cannot be read any more is an error or the end, never a SIGBUS. It is mapped only where
//! the caller asks for that and gives his word that it stays as it is. Python's `bytes` are borrowed as they are,
//! other buffers are copied: read-only is not immutable.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, TryLockError};

use bytes::Bytes;
use magicbyte::Source;

use crate::gate;
use crate::opened::Opened;

/// Bytes of a block: large enough that a read costs little, small enough to stay in a core's cache.
const BLOCK: usize = 512 << 10;
/// Blocks that lie ready for the next read.
const KEEP: usize = 16;

static FREE: Mutex<Vec<Vec<u8>>> = Mutex::new(Vec::new());

/// The blocks that lie ready; `None` while another thread is at them. Nobody waits: in a forked process the thread that
/// had the lock is not there any more.
fn free() -> Option<MutexGuard<'static, Vec<Vec<u8>>>> {
    match FREE.try_lock() {
        Ok(free) => Some(free),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// A block's memory, which comes back for the next read when the last record over it is gone.
struct Block(Vec<u8>, usize);

impl Block {
    /// `len` bytes whose content is whatever an earlier block left there.
    fn of(len: usize) -> Self {
        let mut bytes = Vec::new();
        if len <= BLOCK {
            bytes = free().and_then(|mut free| free.pop()).unwrap_or_default();
        }
        if bytes.len() < len {
            bytes.resize(len.max(BLOCK), 0);
        }
        Self(bytes, len)
    }
}

impl AsRef<[u8]> for Block {
    fn as_ref(&self) -> &[u8] {
        &self.0[..self.1]
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        if self.0.len() == BLOCK
            && let Some(mut free) = free()
            && free.len() < KEEP
        {
            free.push(std::mem::take(&mut self.0));
        }
    }
}

/// Where the bytes of one log come from.
#[derive(Debug)]
pub(crate) enum Bytestream {
    /// All there: Python's bytes, or a mapped file. The second field is where they end for us.
    Whole(Bytes),
    /// A file, read by position.
    File(FileBlocks),
}

impl Bytestream {
    /// Opens a file for reading up to byte `end`.
    pub(crate) fn open(path: &Path, start: u64, end: Option<u64>, map: bool) -> io::Result<Self> {
        let file = Opened::open(path)?;
        match &file {
            Opened::File(file) if map => return Ok(Self::whole(map_file(file)?, end)),
            // Nothing to map: views are of a copy.
            Opened::Object(..) if map => return Ok(Self::whole(file.read_all(u64::MAX)?.into(), end)),
            _ => {}
        }
        Ok(Self::File(FileBlocks {
            file,
            block: Bytes::new(),
            begins: start,
            end: end.unwrap_or(u64::MAX),
            last: false,
        }))
    }

    pub(crate) fn whole(bytes: Bytes, end: Option<u64>) -> Self {
        let end = end.and_then(|end| usize::try_from(end).ok()).unwrap_or(usize::MAX).min(bytes.len());
        Self::Whole(bytes.slice(..end))
    }

    /// The window as shared bytes: slices of it keep it alive.
    pub(crate) fn shared(&self) -> &Bytes {
        match self {
            Self::Whole(bytes) => bytes,
            Self::File(file) => &file.block,
        }
    }
}

/// Maps a whole file.
#[expect(unsafe_code, reason = "mapping is unsafe by nature; it is done only where the caller asked for it")]
fn map_file(file: &File) -> io::Result<Bytes> {
    if file.metadata()?.len() == 0 {
        return Ok(Bytes::new());
    }
    // SAFETY: the caller of `mmap=True` or `views=True` gave his word that the file is neither changed nor cut while
    // it is read, which is what `Mmap::map` asks for; the interface says so.
    let map = unsafe { memmap2::Mmap::map(file)? };
    Ok(Bytes::from_owner(map))
}

impl Source for Bytestream {
    fn fill(&mut self, position: u64, need: u64) -> io::Result<()> {
        gate::interrupted()?;
        match self {
            Self::Whole(_) => Ok(()),
            Self::File(file) => file.fill(position, need),
        }
    }

    fn window(&self) -> (&[u8], u64, bool) {
        match self {
            Self::Whole(bytes) => (bytes, 0, true),
            Self::File(file) => (&file.block, file.begins, file.last),
        }
    }

    fn buffer(&self) -> Option<arrow_buffer::Buffer> {
        Some(self.shared().clone().into())
    }
}

/// A file that is read block by block.
#[derive(Debug)]
pub(crate) struct FileBlocks {
    file: Opened,
    block: Bytes,
    begins: u64,
    end: u64,
    last: bool,
}

impl FileBlocks {
    fn fill(&mut self, position: u64, need: u64) -> io::Result<()> {
        let left = self.end.saturating_sub(position);
        let want = usize::try_from(need.min(left)).map_err(|_| io::ErrorKind::OutOfMemory)?;
        // A false length may ask for much more than there is; what is really there bounds the memory.
        let there = self.file.len()?.saturating_sub(position);
        let bound = usize::try_from(there).unwrap_or(usize::MAX).saturating_add(1);
        let len = want.max(BLOCK.min(usize::try_from(left).unwrap_or(BLOCK))).min(bound.max(BLOCK));
        let mut block = Block::of(len);
        let bytes = &mut block.0[..len];
        // What was read already and is still wanted.
        let skip = position.checked_sub(self.begins).and_then(|skip| usize::try_from(skip).ok());
        let kept = skip.and_then(|skip| self.block.get(skip..)).unwrap_or_default();
        let mut filled = kept.len().min(len);
        bytes[..filled].copy_from_slice(&kept[..filled]);
        let mut ended = filled as u64 >= left;
        while filled < len && !ended {
            match self.file.read_at(&mut bytes[filled..], position + filled as u64) {
                Ok(0) => ended = true,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        block.1 = filled;
        self.last = ended || filled as u64 >= left;
        self.begins = position;
        self.block = Bytes::from_owner(block);
        Ok(())
    }
}
