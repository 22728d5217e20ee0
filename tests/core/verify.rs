//! The strict pass over the vectors: every malformed one has a defect, no sound one has an error.

use magicbyte::log::Options;
use magicbyte::verify::{Severity, verify};
use magicbyte::{Dialect, Format};
use serde_json::Value;

use crate::corpus;
use crate::owned::{lines, unhex};

fn vectors(name: &str) -> Option<Vec<(Dialect, Vec<u8>, Value)>> {
    let lines = lines(&corpus::dir("vectors")?.join(format!("{name}.jsonl")));
    let read = |value: Value| {
        let format = Format::from_name(value["dialect"].as_str().expect("a dialect")).expect("a format");
        let dialect = match Dialect::of(format) {
            Dialect::Only(_) => Dialect::Kafka,
            draft => draft,
        };
        (dialect, unhex(value["hex"].as_str().expect("hex")), value)
    };
    Some(lines.into_iter().map(read).collect())
}

#[test]
fn every_malformed_vector_has_a_defect() {
    let Some(lines) = vectors("malformed") else { return };
    assert!(lines.len() >= 262);
    for (dialect, bytes, line) in lines {
        let report = verify(&bytes, Options { dialect, ..Options::default() });
        assert!(!report.findings().list().is_empty(), "{line}");
        // What Kafka refuses is never sound.
        if line["reader"] == "refuses" {
            assert_eq!(report.ok(), Some(false), "{line}");
        }
    }
}

#[test]
fn no_sound_vector_has_an_error() {
    for format in Format::ALL {
        let Some(lines) = vectors(format.name()) else { return };
        for (dialect, bytes, line) in lines {
            let report = verify(&bytes, Options { dialect, ..Options::default() });
            let found = report.findings().list();
            assert!(found.iter().all(|defect| defect.severity == Severity::Note), "{found:?} {line}");
        }
    }
}

#[test]
fn any_bytes_are_verified_without_a_panic() {
    let mut state = 1u64;
    let mut random = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize
    };
    for name in ["v0", "v1", "v2", "v3", "kip82a", "kip82b"] {
        let Some(lines) = vectors(name) else { return };
        for (dialect, bytes, _) in lines {
            for _ in 0..20 {
                let mut bytes = bytes.clone();
                for _ in 0..1 + random() % 4 {
                    let at = random() % bytes.len();
                    bytes[at] ^= 1 << (random() % 8);
                }
                let options = Options { dialect, ..Options::default() };
                let _ = verify(&bytes, options);
                // And with checksums that hold again, so that what is behind them is met.
                for entry in magicbyte::Log::new(&bytes, Options { check_crc: false, ..options }).flatten() {
                    let crc = entry.computed_crc();
                    let mut fixed = entry.bytes.to_vec();
                    let at = entry.head.crc_from - if entry.head.count.is_some() { 4 } else { 0 };
                    let at = if entry.head.count.is_some() { at } else { 12 };
                    fixed[at..at + 4].copy_from_slice(&crc.to_be_bytes());
                    let _ = verify(&fixed, options);
                }
            }
        }
    }
}
