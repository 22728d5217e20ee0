//! Arguments that several calls share, checked once and in words that name the argument.

use magicbyte::log::Options;
use magicbyte::{Dialect, HeaderTest, Isolation, Mode};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::part::Limits;

/// A format's name.
pub(crate) fn dialect(name: &str) -> PyResult<Dialect> {
    Dialect::from_name(name).ok_or_else(|| {
        let known = Dialect::NAMES.join(", ");
        PyValueError::new_err(format!("unknown format {name:?}; known are {known}"))
    })
}

/// A mode's name.
pub(crate) fn mode(name: &str) -> PyResult<Mode> {
    Mode::from_name(name).ok_or_else(|| {
        let known = "FAILFAST, DROPMALFORMED, PERMISSIVE";
        PyValueError::new_err(format!("unknown mode {name:?}; known are {known}"))
    })
}

/// An isolation level's name.
pub(crate) fn isolation(name: &str) -> PyResult<Isolation> {
    Isolation::from_name(name).ok_or_else(|| {
        let known = "read_uncommitted, read_committed";
        PyValueError::new_err(format!("unknown isolation {name:?}; known are {known}"))
    })
}

/// How to walk a log.
pub(crate) fn options(
    format: &str,
    check_crc: bool,
    mode_name: &str,
    limits: Option<&Limits>,
) -> PyResult<Options> {
    Ok(Options {
        dialect: dialect(format)?,
        check_crc,
        mode: mode(mode_name)?,
        limits: limits.map_or_else(magicbyte::Limits::default, |limits| limits.0),
        preallocated: false,
    })
}

/// A condition on headers, as Python hands it over: key, test, value.
pub(crate) type HeaderCondition = (Vec<u8>, String, Option<Vec<u8>>);

/// A condition on headers.
pub(crate) fn header((key, test, value): HeaderCondition) -> PyResult<magicbyte::HeaderCondition> {
    let test = match test.as_str() {
        "present" => HeaderTest::Present,
        "absent" => HeaderTest::Absent,
        "is" => HeaderTest::Is(value),
        "is not" => HeaderTest::IsNot(value),
        other => {
            let known = "present, absent, is, is not";
            return Err(PyValueError::new_err(format!("unknown test {other:?}; known are {known}")));
        }
    };
    Ok(magicbyte::HeaderCondition { key, test })
}
