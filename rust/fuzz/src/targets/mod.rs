//! What is fuzzed: five functions over any bytes. Each panics where a promise is broken.
//!
//! The last byte or bytes of an input choose how it is read, so that a real file with a byte appended is a seed.

pub mod beside;
pub mod decompress;
pub mod formats;
pub mod log;
pub mod roundtrip;
pub mod rows;

use magicbyte::{Dialect, Limits, Log, Mode, Options};

/// A target and its name.
pub type Target = (&'static str, fn(&[u8]));

/// All of them.
pub const ALL: [Target; 5] = [
    ("log", log::run),
    ("formats", formats::run),
    ("decompress", decompress::run),
    ("beside", beside::run),
    ("roundtrip", roundtrip::run),
];

/// Every way to read a log.
pub const DIALECTS: [Dialect; 8] = [
    Dialect::Kafka,
    Dialect::Kip87,
    Dialect::Kip82a,
    Dialect::Kip82b,
    Dialect::Only(magicbyte::Format::V0),
    Dialect::Only(magicbyte::Format::V1),
    Dialect::Only(magicbyte::Format::V2),
    Dialect::Only(magicbyte::Format::V3),
];

/// Bounds that keep one run short; bombs must stop here.
pub const LIMITS: Limits =
    Limits { record: 1 << 20, batch: 1 << 20, decompressed: 1 << 20, headers: 1 << 14 };

/// Splits off `N` bytes at the end, which choose how the others are read.
pub(crate) fn control<const N: usize>(data: &[u8]) -> Option<(&[u8], [u8; N])> {
    data.split_last_chunk().map(|(front, last)| (front, *last))
}

/// The bytes with the checksum of every entry made to hold: what lies behind it would hardly be reached otherwise.
pub(crate) fn mended(bytes: &[u8], dialect: Dialect) -> Vec<u8> {
    let mut out = bytes.to_vec();
    let options =
        Options { dialect, check_crc: false, mode: Mode::FailFast, limits: LIMITS, preallocated: true };
    for entry in Log::new(bytes, options).map_while(Result::ok) {
        let at = entry.position as usize + entry.head.crc_from - 4;
        out[at..at + 4].copy_from_slice(&entry.computed_crc().to_be_bytes());
    }
    out
}
