//! A file of this machine, or an object behind an address: both are read by position.

use std::fs::File;
use std::io;
use std::path::Path;

use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// What is read.
#[derive(Debug)]
pub(crate) enum Opened {
    /// By the operating system.
    File(File),
    /// By `magicbyte._remote`, which asks the library for that kind of address; and its size when it was opened.
    Object(Py<PyAny>, u64),
}

/// Whether a path is an address such as `s3://bucket/key`.
pub(crate) fn is_address(path: &Path) -> bool {
    path.to_str().and_then(|text| text.split_once("://")).is_some_and(|(scheme, _)| {
        let mut letters = scheme.bytes();
        letters.next().is_some_and(|first| first.is_ascii_alphabetic())
            && letters.all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
    })
}

impl Opened {
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        if is_address(path) {
            return Ok(Python::attach(|py| {
                let object = py.import("magicbyte._remote")?.getattr("Object")?.call1((path.as_os_str(),))?;
                let size = object.getattr("size")?.extract()?;
                PyResult::Ok(Self::Object(object.unbind(), size))
            })?);
        }
        let file = File::open(path)?;
        if file.metadata()?.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        Ok(Self::File(file))
    }

    /// Bytes now; of an object, when it was opened, for nobody appends to one.
    pub(crate) fn len(&self) -> io::Result<u64> {
        match self {
            Self::File(file) => Ok(file.metadata()?.len()),
            Self::Object(_, size) => Ok(*size),
        }
    }

    /// Reads some bytes; none only at the end.
    pub(crate) fn read_at(&self, bytes: &mut [u8], position: u64) -> io::Result<usize> {
        match self {
            Self::File(file) => read_at(file, bytes, position),
            Self::Object(_, size) if position >= *size => Ok(0),
            Self::Object(object, _) => Ok(Python::attach(|py| {
                let read = object.bind(py).call_method1("read_at", (position, bytes.len()))?;
                let read = read.cast::<PyBytes>()?.as_bytes();
                let count = read.len().min(bytes.len());
                bytes[..count].copy_from_slice(&read[..count]);
                PyResult::Ok(count)
            })?),
        }
    }

    /// Everything, up to `limit` bytes.
    pub(crate) fn read_all(&self, limit: u64) -> io::Result<Vec<u8>> {
        let size = usize::try_from(self.len()?.min(limit)).map_err(|_| io::ErrorKind::OutOfMemory)?;
        let mut bytes = vec![0; size];
        let mut filled = 0;
        while filled < size {
            match self.read_at(&mut bytes[filled..], filled as u64) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        bytes.truncate(filled);
        Ok(bytes)
    }
}

#[cfg(unix)]
fn read_at(file: &File, bytes: &mut [u8], position: u64) -> io::Result<usize> {
    std::os::unix::fs::FileExt::read_at(file, bytes, position)
}

#[cfg(windows)]
fn read_at(file: &File, bytes: &mut [u8], position: u64) -> io::Result<usize> {
    std::os::windows::fs::FileExt::seek_read(file, bytes, position)
}
