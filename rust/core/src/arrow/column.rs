//! The one table of columns: name, Arrow type, in order. `scan`, `decode_arrow`, Spark and the command line share
//! it, and a new column joins here.

use std::sync::Arc;

use arrow_schema::{DataType, Field, Fields, TimeUnit};

use super::builder::Flavor;

/// A column of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Column {
    /// The record's key; null is null.
    Key,
    /// The record's value; null is null.
    Value,
    /// The topic's name.
    Topic,
    /// The partition's number.
    Partition,
    /// Absolute offset.
    Offset,
    /// The effective timestamp in microseconds.
    Timestamp,
    /// −1 none, 0 CreateTime, 1 LogAppendTime.
    TimestampType,
    /// Keys and values in order.
    Headers,
    /// The effective timestamp in Kafka's own milliseconds, −1 for none.
    TimestampMs,
    /// Leader epoch of the batch.
    LeaderEpoch,
    /// Producer id of the batch.
    ProducerId,
    /// Producer epoch of the batch.
    ProducerEpoch,
    /// Sequence number of the record.
    Sequence,
    /// Base offset of the batch.
    BaseOffset,
    /// Byte position of the batch in its log.
    BatchPosition,
    /// Magic of the batch.
    Magic,
    /// Name of the batch's codec.
    Codec,
    /// Whether the record is part of a transaction.
    IsTransactional,
    /// Whether it is a control record.
    IsControl,
    /// Whether it deletes its key: KIP-87's flag, or a null value.
    Tombstone,
    /// Header keys as their bytes are, UTF-8 or not.
    RawHeaderKeys,
    /// Whether the record's transaction was committed: `committed`, `aborted`, `unknown`; `none` outside of transactions.
    TransactionState,
    /// What is wrong with a damaged stretch (mode PERMISSIVE).
    CorruptRecord,
}

/// Milliseconds cannot hold what Spark's source shows, so the type is Spark's.
const ZONE: &str = "UTC";

impl Column {
    /// All, in the table's order.
    pub const ALL: [Self; 23] = [
        Self::Key,
        Self::Value,
        Self::Topic,
        Self::Partition,
        Self::Offset,
        Self::Timestamp,
        Self::TimestampType,
        Self::Headers,
        Self::TimestampMs,
        Self::LeaderEpoch,
        Self::ProducerId,
        Self::ProducerEpoch,
        Self::Sequence,
        Self::BaseOffset,
        Self::BatchPosition,
        Self::Magic,
        Self::Codec,
        Self::IsTransactional,
        Self::IsControl,
        Self::Tombstone,
        Self::RawHeaderKeys,
        Self::TransactionState,
        Self::CorruptRecord,
    ];

    /// Those of Spark's own Kafka source with `includeHeaders`.
    pub const DEFAULT: [Self; 8] = [
        Self::Key,
        Self::Value,
        Self::Topic,
        Self::Partition,
        Self::Offset,
        Self::Timestamp,
        Self::TimestampType,
        Self::Headers,
    ];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Key => "key",
            Self::Value => "value",
            Self::Topic => "topic",
            Self::Partition => "partition",
            Self::Offset => "offset",
            Self::Timestamp => "timestamp",
            Self::TimestampType => "timestampType",
            Self::Headers => "headers",
            Self::TimestampMs => "timestampMs",
            Self::LeaderEpoch => "leaderEpoch",
            Self::ProducerId => "producerId",
            Self::ProducerEpoch => "producerEpoch",
            Self::Sequence => "sequence",
            Self::BaseOffset => "baseOffset",
            Self::BatchPosition => "batchPosition",
            Self::Magic => "magic",
            Self::Codec => "codec",
            Self::IsTransactional => "isTransactional",
            Self::IsControl => "isControl",
            Self::Tombstone => "tombstone",
            Self::RawHeaderKeys => "rawHeaderKeys",
            Self::TransactionState => "transactionState",
            Self::CorruptRecord => "_corrupt_record",
        }
    }

    /// By name; Spark compares names without case, so a last try does.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        let exact = Self::ALL.into_iter().find(|column| column.name() == name);
        exact.or_else(|| Self::ALL.into_iter().find(|column| column.name().eq_ignore_ascii_case(name)))
    }

    /// Its Arrow type.
    #[must_use]
    pub fn data_type(self, flavor: Flavor) -> DataType {
        match self {
            Self::Key | Self::Value => binary(flavor),
            Self::Topic | Self::Codec | Self::TransactionState | Self::CorruptRecord => DataType::Utf8,
            Self::Partition | Self::TimestampType | Self::LeaderEpoch | Self::Sequence => DataType::Int32,
            Self::Offset | Self::TimestampMs | Self::ProducerId | Self::BaseOffset | Self::BatchPosition => {
                DataType::Int64
            }
            Self::Timestamp => DataType::Timestamp(TimeUnit::Microsecond, Some(ZONE.into())),
            Self::ProducerEpoch => DataType::Int16,
            Self::Magic => DataType::Int8,
            Self::IsTransactional | Self::IsControl | Self::Tombstone => DataType::Boolean,
            Self::Headers => list(DataType::Struct(header_fields(flavor))),
            Self::RawHeaderKeys => list(DataType::Binary),
        }
    }

    /// Its field. All are nullable, as Spark's are.
    #[must_use]
    pub fn field(self, flavor: Flavor) -> Field {
        Field::new(self.name(), self.data_type(flavor), true)
    }
}

fn binary(flavor: Flavor) -> DataType {
    if flavor.views { DataType::BinaryView } else { DataType::Binary }
}

/// The two fields of a header.
pub(crate) fn header_fields(flavor: Flavor) -> Fields {
    let text = if flavor.views { DataType::Utf8View } else { DataType::Utf8 };
    vec![Field::new("key", text, true), Field::new("value", binary(flavor), true)].into()
}

/// Spark names a list's child `element`.
pub(crate) fn element(item: DataType) -> Arc<Field> {
    Arc::new(Field::new("element", item, true))
}

fn list(item: DataType) -> DataType {
    DataType::List(element(item))
}
