//! How errors of the core become Python's: one crossing.

use std::path::Path;
use std::sync::Arc;

use magicbyte::arrow::ReadError;
use pyo3::exceptions::{PyMemoryError, PyOSError, PyRuntimeError};
use pyo3::prelude::*;

pyo3::import_exception!(magicbyte.errors, CorruptRecordError);
pyo3::import_exception!(magicbyte.errors, IllegalStateError);
pyo3::import_exception!(magicbyte.errors, UnsupportedCodecError);

/// Why a read ended, and of which file.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) error: ReadError,
    pub(crate) path: Option<Arc<Path>>,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.path {
            Some(path) => write!(f, "{}: {}", path.display(), self.error),
            None => self.error.fmt(f),
        }
    }
}

impl std::error::Error for Failure {}

impl Failure {
    pub(crate) fn corrupt(error: magicbyte::Error, path: Option<Arc<Path>>) -> Self {
        Self { error: ReadError::Corrupt(error), path }
    }
}

impl From<Failure> for PyErr {
    fn from(failure: Failure) -> Self {
        let text = failure.to_string();
        let path = failure.path.as_ref().map(|path| path.display().to_string());
        match failure.error {
            ReadError::Corrupt(error) => {
                CorruptRecordError::new_err((text, path, error.position, error.kind().name(), error.records))
            }
            // Ctrl-C, while a file was read.
            ReadError::Io(error) if error.get_ref().is_some_and(|inner| inner.is::<Self>()) => error.into(),
            ReadError::Io(error) => match (error.raw_os_error(), path) {
                // errno picks the subclass: FileNotFoundError, PermissionError and so on.
                (Some(code), Some(path)) => PyOSError::new_err((code, os_text(&error), path)),
                _ if error.kind() == std::io::ErrorKind::OutOfMemory => PyMemoryError::new_err(text),
                _ => PyOSError::new_err(text),
            },
            _ => PyRuntimeError::new_err(text),
        }
    }
}

/// The system's words without Rust's "(os error 2)".
fn os_text(error: &std::io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}
