//! The seven record formats and what each can carry: the table that the other rooms ask.

use crate::checksum::Checksum;

/// Two ways to lay out records in a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Entries of one message each, which may wrap a compressed set of messages.
    MessageSet,
    /// Batches of records behind one header.
    Batch,
}

/// A record format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Format {
    /// Message set of Kafka ≤ 0.9.
    V0,
    /// + timestamp and relative inner offsets (KIP-31, KIP-32).
    V1,
    /// Record batch: headers (KIP-82), transactions (KIP-98), delete horizon (KIP-534).
    V2,
    /// The v3 proposal (KIP-931): a record batch with varints in its header and records without attributes.
    V3,
    /// KIP-87: v1's layout with a tombstone flag.
    Kip87,
    /// KIP-82, draft A: v1-like, with header bytes between key and value.
    Kip82a,
    /// KIP-82, draft B: a v2 batch with unsigned lengths and length-prefixed headers.
    Kip82b,
}

/// What headers a format carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderSupport {
    /// None.
    No,
    /// Headers whose values may be null.
    Nullable,
    /// Headers whose values are never null.
    NonNull,
}

/// One row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Traits {
    /// The name in the API.
    pub name: &'static str,
    /// The magic byte.
    pub magic: i8,
    /// The layout.
    pub family: Family,
    /// The least that the size field may say.
    pub min_size: u32,
    /// The checksum.
    pub checksum: Checksum,
    /// Headers.
    pub headers: HeaderSupport,
    /// Whether records have timestamps.
    pub timestamps: bool,
    /// Whether there is producer state (id, epoch, sequence), transactions and control batches.
    pub producer: bool,
    /// Whether a tombstone is a flag of its own instead of a null value.
    pub tombstone_flag: bool,
    /// The highest codec id.
    pub max_codec: u8,
}

const fn message_set(name: &'static str, magic: i8, min_size: u32) -> Traits {
    Traits {
        name,
        magic,
        family: Family::MessageSet,
        min_size,
        checksum: Checksum::Crc32,
        headers: HeaderSupport::No,
        timestamps: true,
        producer: false,
        tombstone_flag: false,
        max_codec: 3,
    }
}

const fn batch(name: &'static str, magic: i8, min_size: u32) -> Traits {
    Traits {
        name,
        magic,
        family: Family::Batch,
        min_size,
        checksum: Checksum::Crc32C,
        headers: HeaderSupport::Nullable,
        timestamps: true,
        producer: true,
        tombstone_flag: false,
        max_codec: 4,
    }
}

/// In the order of [`Format`].
const TABLE: [Traits; 7] = [
    Traits { timestamps: false, ..message_set("v0", 0, 14) },
    message_set("v1", 1, 22),
    batch("v2", 2, 49),
    batch("v3", 3, 32),
    Traits { tombstone_flag: true, ..message_set("kip87", 2, 22) },
    Traits { headers: HeaderSupport::Nullable, ..message_set("kip82a", 2, 16) },
    Traits { headers: HeaderSupport::NonNull, ..batch("kip82b", 2, 49) },
];

impl Format {
    /// All formats, in the table's order.
    pub const ALL: [Self; 7] =
        [Self::V0, Self::V1, Self::V2, Self::V3, Self::Kip87, Self::Kip82a, Self::Kip82b];

    /// Its row of the table.
    #[inline(always)]
    #[must_use]
    pub const fn traits(self) -> &'static Traits {
        &TABLE[self as usize]
    }

    /// Its name in the API.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.traits().name
    }

    /// The format of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.name() == name)
    }
}

/// How a log is to be read: three formats share magic 2, so the reader is told which one is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Dialect {
    /// v0–v3 mixed.
    #[default]
    Kafka,
    /// v0, v1, v3, and magic 2 is [`Format::Kip87`].
    Kip87,
    /// v0, v1, v3, and magic 2 is [`Format::Kip82a`].
    Kip82a,
    /// v0, v1, v3, and magic 2 is [`Format::Kip82b`].
    Kip82b,
    /// v0 to v3: that one only.
    Only(Format),
}

impl Dialect {
    /// The names that [`Dialect::from_name`] takes.
    pub const NAMES: [&'static str; 8] = ["kafka", "kip87", "kip82a", "kip82b", "v0", "v1", "v2", "v3"];

    /// By its name in the API.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "kafka" => Self::Kafka,
            _ => Self::of(Format::from_name(name)?),
        })
    }

    /// The one that reads what was written in a format.
    #[must_use]
    pub const fn of(format: Format) -> Self {
        match format {
            Format::Kip87 => Self::Kip87,
            Format::Kip82a => Self::Kip82a,
            Format::Kip82b => Self::Kip82b,
            _ => Self::Only(format),
        }
    }

    /// The format that a magic byte means here.
    #[inline]
    #[must_use]
    pub const fn format(self, magic: i8) -> Option<Format> {
        if let Self::Only(format) = self {
            return if format.traits().magic == magic { Some(format) } else { None };
        }
        Some(match (magic, self) {
            (0, _) => Format::V0,
            (1, _) => Format::V1,
            (2, Self::Kip87) => Format::Kip87,
            (2, Self::Kip82a) => Format::Kip82a,
            (2, Self::Kip82b) => Format::Kip82b,
            (2, _) => Format::V2,
            (3, _) => Format::V3,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_go_both_ways() {
        for format in Format::ALL {
            assert_eq!(Format::from_name(format.name()), Some(format));
        }
        for name in Dialect::NAMES {
            assert!(Dialect::from_name(name).is_some(), "{name}");
        }
        assert_eq!(Dialect::from_name("v4"), None);
    }

    #[test]
    fn magic_two_is_what_the_caller_says() {
        assert_eq!(Dialect::Kafka.format(2), Some(Format::V2));
        assert_eq!(Dialect::Kip82a.format(2), Some(Format::Kip82a));
        assert_eq!(Dialect::Only(Format::V1).format(2), None);
        assert_eq!(Dialect::Kafka.format(4), None);
        assert_eq!(Dialect::Kafka.format(-1), None);
    }
}
