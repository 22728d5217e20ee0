//! Control records: what a control batch's records say (KIP-98, KIP-595, KIP-630, KIP-853).
//!
//! ```text
//! key                  version int16, type int16
//! value, abort/commit  version int16, coordinatorEpoch int32
//! ```

use crate::bytes::Reader;

/// The types that Kafka has so far.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControlType {
    /// 0: the transaction was aborted.
    Abort,
    /// 1: the transaction was committed.
    Commit,
    /// 2: a new leader of a KRaft quorum.
    LeaderChange,
    /// 3: head of a KRaft snapshot.
    SnapshotHeader,
    /// 4: foot of a KRaft snapshot.
    SnapshotFooter,
    /// 5: version of the KRaft protocol.
    KRaftVersion,
    /// 6: voters of the KRaft quorum.
    KRaftVoters,
    /// A type of a later Kafka.
    Unknown(i16),
}

impl ControlType {
    /// By its number in the key.
    #[must_use]
    pub const fn from_id(id: i16) -> Self {
        match id {
            0 => Self::Abort,
            1 => Self::Commit,
            2 => Self::LeaderChange,
            3 => Self::SnapshotHeader,
            4 => Self::SnapshotFooter,
            5 => Self::KRaftVersion,
            6 => Self::KRaftVoters,
            other => Self::Unknown(other),
        }
    }

    /// Its name, as Kafka's `ControlRecordType` has it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Abort => "ABORT",
            Self::Commit => "COMMIT",
            Self::LeaderChange => "LEADER_CHANGE",
            Self::SnapshotHeader => "SNAPSHOT_HEADER",
            Self::SnapshotFooter => "SNAPSHOT_FOOTER",
            Self::KRaftVersion => "KRAFT_VERSION",
            Self::KRaftVoters => "KRAFT_VOTERS",
            Self::Unknown(_) => "UNKNOWN",
        }
    }
}

/// A control record's key and, for a transaction marker, its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Control {
    /// Version of the key.
    pub version: i16,
    /// The type's number.
    pub type_id: i16,
    /// Of abort and commit: the epoch of the transaction coordinator that wrote it.
    pub coordinator_epoch: Option<i32>,
}

impl Control {
    /// Reads key and value of a record in a control batch. `None` where the key is none of a control record.
    #[must_use]
    pub fn read(key: Option<&[u8]>, value: Option<&[u8]>) -> Option<Self> {
        let mut key = Reader::new(key?);
        let (version, type_id) = (key.i16()?, key.i16()?);
        let coordinator_epoch = match ControlType::from_id(type_id) {
            ControlType::Abort | ControlType::Commit => value.and_then(|value| {
                let mut value = Reader::new(value);
                value.i16()?;
                value.i32()
            }),
            _ => None,
        };
        Some(Self { version, type_id, coordinator_epoch })
    }

    /// The type.
    #[must_use]
    pub const fn control_type(&self) -> ControlType {
        ControlType::from_id(self.type_id)
    }
}
