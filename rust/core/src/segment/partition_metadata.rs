//! `partition.metadata`: the id of the topic, which outlives neither its deletion nor a new topic of its name.
//!
//! ```text
//! version: 0
//! topic_id: 7Y3Z2nFtTvWr9Q1s5wX0aA
//! ```
//!
//! Source: KIP-516; Apache Kafka, classes `PartitionMetadataFile` and `Uuid`.

use super::text::{Line, Lines};
use crate::error::{Flaw, Result};
use std::fmt;

/// The version that is written (`PartitionMetadata`); a higher one is read too, as Kafka does.
const CURRENT_VERSION: i32 = 0;

/// Base64 of RFC 4648 section 5, the alphabet that is safe in a URL.
const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Characters of 16 bytes in base64 without padding.
const ID_CHARS: usize = 22;

/// Bits of those characters over the 128 of the id.
const SPARE_BITS: u32 = 4;

/// A topic's id, a UUID. It is shown as Kafka's tools show it: 22 characters of URL-safe base64.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicId([u8; 16]);

impl TopicId {
    /// An id from its 16 bytes.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The 16 bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }

    /// Reads 22 characters of URL-safe base64, with or without `==` behind them.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.strip_suffix("==").unwrap_or(text);
        if text.len() != ID_CHARS {
            return None;
        }
        let (last, front) = text.as_bytes().split_last()?;
        let mut id = 0_u128;
        for byte in front {
            id = id << 6 | value(*byte)?;
        }
        id = id << (6 - SPARE_BITS) | value(*last)? >> SPARE_BITS;
        Some(Self(id.to_be_bytes()))
    }
}

fn value(byte: u8) -> Option<u128> {
    ALPHABET.iter().position(|known| *known == byte).map(|at| at as u128)
}

impl fmt::Display for TopicId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let id = u128::from_be_bytes(self.0);
        let text: String = (1..=ID_CHARS as u32)
            .map(|nth| {
                let bits = if nth == ID_CHARS as u32 { id << SPARE_BITS } else { id >> (128 - 6 * nth) };
                char::from(ALPHABET[(bits & 0x3f) as usize])
            })
            .collect();
        f.pad(&text)
    }
}

/// The content of a `partition.metadata` file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PartitionMetadata {
    /// The file's version, 0.
    pub version: i32,
    /// The topic's id; never all zeros.
    pub topic_id: TopicId,
}

impl PartitionMetadata {
    /// The metadata of a partition of that topic, in the version that Kafka writes.
    #[must_use]
    pub const fn new(topic_id: TopicId) -> Self {
        Self { version: CURRENT_VERSION, topic_id }
    }

    /// Reads the file. Lines behind the second one are passed over.
    ///
    /// # Errors
    /// [`Flaw::Index`] with the byte position of the line that is at fault: a line missing or malformed, a
    /// negative version, an id that is no UUID or all zeros.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        let mut lines = Lines::new(bytes);
        const VERSION: &str = "partition metadata: the first line is not a version";
        let (line, text) = field(lines.next(), "version", VERSION, bytes)?;
        let version: i32 = text.parse().map_err(|_| line.flaw(VERSION))?;
        if version < CURRENT_VERSION {
            return Err(line.flaw(VERSION));
        }
        const TOPIC_ID: &str = "partition metadata: the second line is not a topic id";
        let (line, text) = field(lines.next(), "topic_id", TOPIC_ID, bytes)?;
        let topic_id = TopicId::parse(text).ok_or_else(|| line.flaw(TOPIC_ID))?;
        if topic_id == TopicId::from_bytes([0; 16]) {
            return Err(line.flaw("partition metadata: the topic id is all zeros"));
        }
        Ok(Self { version, topic_id })
    }

    /// The file's text, as a broker writes it: without an end of line at its end.
    #[must_use]
    pub fn encode(&self) -> String {
        format!("version: {}\ntopic_id: {}", self.version, self.topic_id)
    }
}

/// The value of a line `name: value`.
fn field<'a>(
    line: Option<Line<'a>>,
    name: &str,
    what: &'static str,
    file: &[u8],
) -> Result<(Line<'a>, &'a str)> {
    let line = line.ok_or_else(|| Flaw::Index(what).at(file.len() as u64))?;
    let value = line.text(what)?.strip_prefix(name).and_then(|rest| rest.strip_prefix(':'));
    Ok((line, value.ok_or_else(|| line.flaw(what))?.trim_ascii()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // A test may panic.
mod tests {
    use super::*;

    #[test]
    fn reads_and_writes_what_a_broker_writes() {
        let text = "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ";
        let metadata = PartitionMetadata::parse(text.as_bytes()).unwrap();
        assert_eq!(metadata.topic_id.as_bytes(), &1_u128.to_be_bytes());
        assert_eq!(metadata.encode(), text);
        assert_eq!(
            PartitionMetadata::parse(b"version: 0\r\ntopic_id:  AAAAAAAAAAAAAAAAAAAAAQ==\r\n"),
            Ok(metadata)
        );
    }

    #[test]
    fn an_error_names_its_line() {
        for (text, position) in [
            ("", 0),
            ("version 0", 0),
            ("version: x\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ", 0),
            ("version: -1\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ", 0),
            ("version: 0\n", 11),
            ("version: 0\ntopic_id: ", 11),
            ("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAA", 11),
            ("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAA+Q", 11),
            ("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA", 11),
            ("version: 0\ntopic_id: \u{e4}AAAAAAAAAAAAAAAAAAAA", 11),
        ] {
            let found = PartitionMetadata::parse(text.as_bytes()).map_err(|e| e.position);
            assert_eq!(found, Err(position), "{text:?}");
        }
    }
}
