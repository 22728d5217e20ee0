//! Header keys as Python text: a log has few distinct ones, so each is made once and used again.

use std::sync::OnceLock;

use magicbyte::header::key_text;
use pyo3::prelude::*;
use pyo3::types::PyString;

/// Places for keys; each holds the first key that falls on it, and other keys there are made anew each time.
const PLACES: usize = 64;
/// Longer keys are not remembered.
const LONGEST: usize = 64;

struct Known {
    bytes: Box<[u8]>,
    text: Py<PyString>,
}

/// Makes header keys. Read without a lock: a place is written once.
#[derive(Default)]
pub(crate) struct Keys(OnceLock<Box<[OnceLock<Known>; PLACES]>>);

impl Keys {
    /// The key as text, if it was made before.
    #[inline]
    pub(crate) fn known(&self, key: &[u8]) -> Option<&Py<PyString>> {
        let known = self.0.get()?.get(place(key))?.get()?;
        (*known.bytes == *key).then_some(&known.text)
    }

    /// The key as text, U+FFFD standing for what is not UTF-8, and whether its bytes were UTF-8.
    #[inline]
    pub(crate) fn text(&self, py: Python<'_>, key: &[u8]) -> (Py<PyString>, bool) {
        self.known(key).map_or_else(|| self.made(py, key), |text| (text.clone_ref(py), true))
    }

    #[cold]
    fn made(&self, py: Python<'_>, key: &[u8]) -> (Py<PyString>, bool) {
        let Ok(text) = std::str::from_utf8(key) else {
            return (PyString::new(py, &key_text(key)).unbind(), false);
        };
        let made = PyString::new(py, text).unbind();
        if key.len() <= LONGEST {
            let places = self.0.get_or_init(|| Box::new([const { OnceLock::new() }; PLACES]));
            let _ = places[place(key)].set(Known { bytes: key.into(), text: made.clone_ref(py) });
        }
        (made, true)
    }
}

/// Spreads keys by their length and both ends.
#[inline(always)]
fn place(key: &[u8]) -> usize {
    let word = |bytes: &[u8; 8]| u64::from_le_bytes(*bytes);
    let mixed = match (key.first_chunk(), key.last_chunk()) {
        (Some(first), Some(last)) => word(first) ^ word(last).rotate_left(29),
        _ => key.iter().fold(0, |mixed, byte| (mixed << 8) | u64::from(*byte)),
    };
    let spread = (mixed ^ key.len() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (spread >> (u64::BITS - PLACES.ilog2())) as usize
}
