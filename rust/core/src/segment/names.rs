//! Names of the files of a partition and of the directories of a broker.
//!
//! ```text
//! orders-0/                                     topic, '-', partition
//! orders-0.<32 hex digits>-delete/              being deleted; -future: being moved to another disk;
//!                                               -stray: of no topic that the cluster knows
//!   00000000000000000042.log                    base offset in 20 digits
//!   00000000000000000042.log.deleted            .deleted .cleaned .swap .tmp .part: left by a deletion, by the
//!                                               cleaner or by a write; its content is elsewhere or not wanted
//!   00000000000000000042-0000000003.checkpoint  KRaft snapshot: offset, leader epoch in 10 digits
//! ```
//!
//! Source: Apache Kafka, classes `LogFileUtils`, `LocalLog`, `Snapshots`, `Topic`; KIP-630.

use std::fmt;

/// Digits of a base offset in a file name.
const OFFSET_DIGITS: usize = 20;
/// Digits of a leader epoch in the name of a KRaft snapshot.
const EPOCH_DIGITS: usize = 10;
/// Bytes that a topic name can have.
const MAX_TOPIC_NAME: usize = 249;

/// What a file of a partition directory is, by its name.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SegmentFile {
    /// `<base offset>.log`: the records.
    Log {
        /// Offset that the segment begins at.
        base_offset: i64,
    },
    /// `<base offset>.index`, see [`OffsetIndex`](super::OffsetIndex).
    Index {
        /// Offset that the segment begins at.
        base_offset: i64,
    },
    /// `<base offset>.timeindex`, see [`TimeIndex`](super::TimeIndex).
    TimeIndex {
        /// Offset that the segment begins at.
        base_offset: i64,
    },
    /// `<base offset>.txnindex`, see [`TransactionIndex`](super::TransactionIndex).
    TxnIndex {
        /// Offset that the segment begins at.
        base_offset: i64,
    },
    /// `<offset>.snapshot`: the producers' state before that offset.
    Snapshot {
        /// The offset after the last one that the state knows.
        offset: i64,
    },
    /// `<end offset>-<epoch>.checkpoint`: a KRaft snapshot, record batches as in a `.log`.
    Checkpoint {
        /// The offset after the last one that the snapshot stands for.
        end_offset: i64,
        /// The leader epoch of that last offset.
        epoch: i32,
    },
    /// `leader-epoch-checkpoint`, see [`LeaderEpochCheckpoint`](super::LeaderEpochCheckpoint).
    LeaderEpochCheckpoint,
    /// `partition.metadata`, see [`PartitionMetadata`](super::PartitionMetadata).
    PartitionMetadata,
    /// A file that no reader may take for the partition's content.
    LeftOut {
        /// Why.
        reason: FileReason,
    },
    /// Any other name.
    Other,
}

/// Why a file is left out.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileReason {
    /// `.deleted`: about to be removed.
    Deleted,
    /// `.cleaned`: the cleaner's output, not finished.
    Cleaned,
    /// `.swap`: the cleaner's output, finished, while it takes the place of the old segments.
    Swap,
    /// `.tmp` and `.part`: being written.
    Unfinished,
}

impl fmt::Display for FileReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Deleted => "marked for deletion",
            Self::Cleaned => "unfinished output of the log cleaner",
            Self::Swap => "output of the log cleaner that has not taken its place yet",
            Self::Unfinished => "being written",
        })
    }
}

impl SegmentFile {
    /// What the file of that name (without its directory) is.
    #[must_use]
    pub fn parse(file_name: &str) -> Self {
        match file_name {
            "leader-epoch-checkpoint" => return Self::LeaderEpochCheckpoint,
            "partition.metadata" => return Self::PartitionMetadata,
            _ => {}
        }
        let Some((stem, suffix)) = file_name.rsplit_once('.') else {
            return Self::Other;
        };
        let number = digits(stem, OFFSET_DIGITS);
        match (suffix, number) {
            ("deleted", _) => Self::LeftOut { reason: FileReason::Deleted },
            ("cleaned", _) => Self::LeftOut { reason: FileReason::Cleaned },
            ("swap", _) => Self::LeftOut { reason: FileReason::Swap },
            ("tmp" | "part", _) => Self::LeftOut { reason: FileReason::Unfinished },
            ("log", Some(base_offset)) => Self::Log { base_offset },
            ("index", Some(base_offset)) => Self::Index { base_offset },
            ("timeindex", Some(base_offset)) => Self::TimeIndex { base_offset },
            ("txnindex", Some(base_offset)) => Self::TxnIndex { base_offset },
            ("snapshot", Some(offset)) => Self::Snapshot { offset },
            ("checkpoint", None) => kraft_snapshot(stem).unwrap_or(Self::Other),
            _ => Self::Other,
        }
    }
}

fn kraft_snapshot(stem: &str) -> Option<SegmentFile> {
    let (end_offset, epoch) = stem.split_once('-')?;
    let end_offset = digits(end_offset, OFFSET_DIGITS)?;
    let epoch = i32::try_from(digits(epoch, EPOCH_DIGITS)?).ok()?;
    Some(SegmentFile::Checkpoint { end_offset, epoch })
}

/// A number of exactly so many digits that fits 63 bits; no sign.
fn digits(text: &str, count: usize) -> Option<i64> {
    let all = text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit());
    all.then(|| text.parse().ok()).flatten()
}

/// `<base offset in 20 digits>.<suffix>`, say `segment_file_name(42, "log")`. None for a negative offset, which
/// no segment has.
#[must_use]
pub fn segment_file_name(base_offset: i64, suffix: &str) -> Option<String> {
    (base_offset >= 0).then(|| format!("{base_offset:0OFFSET_DIGITS$}.{suffix}"))
}

/// The name of a KRaft snapshot file. None for negative numbers.
#[must_use]
pub fn snapshot_file_name(end_offset: i64, epoch: i32) -> Option<String> {
    let legal = end_offset >= 0 && epoch >= 0;
    legal.then(|| format!("{end_offset:0OFFSET_DIGITS$}-{epoch:0EPOCH_DIGITS$}.checkpoint"))
}

/// Is that a legal topic name: 1 to 249 of `a-z A-Z 0-9 . _ -`, and neither `.` nor `..`
/// (`Topic.validate`)?
#[must_use]
pub fn is_topic_name(name: &str) -> bool {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    (1..=MAX_TOPIC_NAME).contains(&name.len()) && name.bytes().all(legal) && name != "." && name != ".."
}

/// A topic and the number of one of its partitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicPartition<'a> {
    /// The topic's name.
    pub topic: &'a str,
    /// The partition's number, from 0.
    pub partition: i32,
}

impl<'a> TopicPartition<'a> {
    /// Reads `<topic>-<partition>`: the last `-` parts them, for a topic's name can have its own. A partition
    /// with a sign or a zero before its number is none: a broker never writes it, and two directories could
    /// stand for one partition.
    #[must_use]
    pub fn parse(dir_name: &'a str) -> Option<Self> {
        let (topic, number) = dir_name.rsplit_once('-')?;
        let partition: i32 = number.parse().ok()?;
        let canonical = number.bytes().all(|byte| byte.is_ascii_digit())
            && (number.len() == 1 || !number.starts_with('0'));
        (canonical && is_topic_name(topic)).then_some(Self { topic, partition })
    }
}

impl fmt::Display for TopicPartition<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.topic, self.partition)
    }
}

/// What a directory of a broker's log directory is, by its name.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DirName<'a> {
    /// A partition.
    Partition(TopicPartition<'a>),
    /// A partition that no reader may count.
    LeftOut {
        /// Which partition. Its topic is cut short where the name would have passed 255 bytes.
        partition: TopicPartition<'a>,
        /// Why.
        reason: DirReason,
    },
    /// Any other name.
    Other,
}

/// Why a partition directory is left out.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DirReason {
    /// `-delete`: about to be removed.
    Delete,
    /// `-future`: a copy on its way to another disk of the broker; the partition is still elsewhere.
    Future,
    /// `-stray`: of no topic that the cluster knows.
    Stray,
}

impl fmt::Display for DirReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Delete => "marked for deletion",
            Self::Future => "unfinished copy of a partition that is being moved",
            Self::Stray => "of no topic that the cluster knows",
        })
    }
}

impl<'a> DirName<'a> {
    /// What the directory of that name (without its parent) is.
    #[must_use]
    pub fn parse(dir_name: &'a str) -> Self {
        if let Some(partition) = TopicPartition::parse(dir_name) {
            return Self::Partition(partition);
        }
        Self::left_out(dir_name).unwrap_or(Self::Other)
    }

    /// `<topic>-<partition>.<unique id>-<reason>`.
    fn left_out(dir_name: &'a str) -> Option<Self> {
        let (rest, word) = dir_name.rsplit_once('-')?;
        let reason = match word {
            "delete" => DirReason::Delete,
            "future" => DirReason::Future,
            "stray" => DirReason::Stray,
            _ => return None,
        };
        let (name, unique) = rest.rsplit_once('.')?;
        let partition = TopicPartition::parse(name)?;
        let plain =
            !unique.is_empty() && unique.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        plain.then_some(Self::LeftOut { partition, reason })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // A test may panic.
mod tests {
    use super::*;

    fn partition(topic: &str, partition: i32) -> TopicPartition<'_> {
        TopicPartition { topic, partition }
    }

    #[test]
    fn files() {
        for (name, expected) in [
            ("00000000000000000042.log", SegmentFile::Log { base_offset: 42 }),
            ("09223372036854775807.log", SegmentFile::Log { base_offset: i64::MAX }),
            ("09223372036854775808.log", SegmentFile::Other),
            ("99999999999999999999.log", SegmentFile::Other),
            ("0000000000000000042.log", SegmentFile::Other),
            ("000000000000000000042.log", SegmentFile::Other),
            ("+0000000000000000042.log", SegmentFile::Other),
            ("-0000000000000000042.log", SegmentFile::Other),
            ("0000000000000000\u{0664}42.log", SegmentFile::Other),
            ("00000000000000000042.index", SegmentFile::Index { base_offset: 42 }),
            ("00000000000000000042.timeindex", SegmentFile::TimeIndex { base_offset: 42 }),
            ("00000000000000000042.txnindex", SegmentFile::TxnIndex { base_offset: 42 }),
            ("00000000000000000042.snapshot", SegmentFile::Snapshot { offset: 42 }),
            ("00000000000000000042.LOG", SegmentFile::Other),
            (
                "00000000000000000042-0000000003.checkpoint",
                SegmentFile::Checkpoint { end_offset: 42, epoch: 3 },
            ),
            ("00000000000000000042-9999999999.checkpoint", SegmentFile::Other),
            ("00000000000000000042.checkpoint", SegmentFile::Other),
            ("bootstrap.checkpoint", SegmentFile::Other),
            ("leader-epoch-checkpoint", SegmentFile::LeaderEpochCheckpoint),
            ("partition.metadata", SegmentFile::PartitionMetadata),
            ("00000000000000000042.log.deleted", SegmentFile::LeftOut { reason: FileReason::Deleted }),
            ("00000000000000000042.index.cleaned", SegmentFile::LeftOut { reason: FileReason::Cleaned }),
            ("00000000000000000042.log.swap", SegmentFile::LeftOut { reason: FileReason::Swap }),
            ("leader-epoch-checkpoint.tmp", SegmentFile::LeftOut { reason: FileReason::Unfinished }),
            (
                "00000000000000000042-0000000003-7.checkpoint.part",
                SegmentFile::LeftOut { reason: FileReason::Unfinished },
            ),
            ("quorum-state", SegmentFile::Other),
            ("", SegmentFile::Other),
            (".log", SegmentFile::Other),
        ] {
            assert_eq!(SegmentFile::parse(name), expected, "{name}");
        }
    }

    #[test]
    fn directories() {
        let long = "a".repeat(249);
        for (name, expected) in [
            ("orders-0", Some(partition("orders", 0))),
            ("my-orders-12", Some(partition("my-orders", 12))),
            ("__consumer_offsets-49", Some(partition("__consumer_offsets", 49))),
            ("a.b-2147483647", Some(partition("a.b", i32::MAX))),
            ("--0", Some(partition("-", 0))),
            (&format!("{long}-1"), Some(partition(&long, 1))),
            (&format!("{long}a-1"), None),
            ("orders-2147483648", None),
            ("orders-00", None),
            ("orders-+1", None),
            ("orders-", None),
            ("-0", None),
            ("..-0", None),
            (".-0", None),
            ("ord/ers-0", None),
            ("\u{e4}-0", None),
            ("orders", None),
            ("", None),
        ] {
            assert_eq!(TopicPartition::parse(name), expected, "{name}");
            if let Some(parsed) = expected {
                assert_eq!(
                    (parsed.to_string(), DirName::parse(name)),
                    (name.to_owned(), DirName::Partition(parsed))
                );
            }
        }
    }

    #[test]
    fn directories_that_are_left_out() {
        let id = "0123456789abcdef0123456789abcdef";
        for (word, reason) in
            [("delete", DirReason::Delete), ("future", DirReason::Future), ("stray", DirReason::Stray)]
        {
            let name = format!("my.orders-3.{id}-{word}");
            let expected = DirName::LeftOut { partition: partition("my.orders", 3), reason };
            assert_eq!(DirName::parse(&name), expected);
            let topic = format!("orders-{word}");
            assert_eq!(DirName::parse(&format!("{topic}-0")), DirName::Partition(partition(&topic, 0)));
            assert_eq!(DirName::parse(&topic), DirName::Other);
        }
        assert_eq!(DirName::parse("orders-0.-delete"), DirName::Other);
        assert_eq!(DirName::parse(&format!("orders-0.{id}-gone")), DirName::Other);
        assert_eq!(DirName::parse("lost+found"), DirName::Other);
    }

    #[test]
    fn written_names_are_read() {
        assert_eq!(segment_file_name(42, "log").as_deref(), Some("00000000000000000042.log"));
        let last = segment_file_name(i64::MAX, "index").unwrap();
        assert_eq!(SegmentFile::parse(&last), SegmentFile::Index { base_offset: i64::MAX });
        assert_eq!(
            (segment_file_name(-1, "log"), snapshot_file_name(1, -1), snapshot_file_name(-1, 1)),
            (None, None, None)
        );
        let name = snapshot_file_name(i64::MAX, i32::MAX).unwrap();
        assert_eq!(
            SegmentFile::parse(&name),
            SegmentFile::Checkpoint { end_offset: i64::MAX, epoch: i32::MAX }
        );
    }
}
