//! `.snapshot`: what a broker knows of the partition's producers before the offset in the file's name.
//!
//! ```text
//! file  => version int16 (1), crc uint32, entries [entry]                     big-endian; count int32
//! entry => producerId int64, epoch int16, lastSequence int32, lastOffset int64, offsetDelta int32,
//!          timestamp int64, coordinatorEpoch int32, currentTxnFirstOffset int64            46 bytes
//! ```
//!
//! `crc` is the CRC-32C of all that follows it. Source: KIP-98; Apache Kafka, `storage` module, class
//! `ProducerStateManager` and message schema `ProducerSnapshot.json`.

use super::entries::field;
use crate::checksum::Checksum;
use crate::error::{Flaw, Result};

const VERSION: usize = 0;
const CRC: usize = VERSION + 2;
const COUNT: usize = CRC + 4;
const ENTRIES: usize = COUNT + 4;

const PRODUCER_ID: usize = 0;
const EPOCH: usize = PRODUCER_ID + 8;
const LAST_SEQUENCE: usize = EPOCH + 2;
const LAST_OFFSET: usize = LAST_SEQUENCE + 4;
const OFFSET_DELTA: usize = LAST_OFFSET + 8;
const TIMESTAMP: usize = OFFSET_DELTA + 4;
const COORDINATOR_EPOCH: usize = TIMESTAMP + 8;
const CURRENT_TXN_FIRST_OFFSET: usize = COORDINATOR_EPOCH + 4;

/// The one version there is.
const CURRENT_VERSION: i16 = 1;

/// What a broker knows of one producer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ProducerStateEntry {
    /// The producer.
    pub producer_id: i64,
    /// Its epoch.
    pub producer_epoch: i16,
    /// Sequence number of its last record; −1 where only a transaction marker is known.
    pub last_sequence: i32,
    /// Offset of its last record; −1 where there is none.
    pub last_offset: i64,
    /// Offsets from the first to the last record of its last batch.
    pub offset_delta: i32,
    /// Greatest timestamp of its last batch or marker, in ms since 1970.
    pub timestamp: i64,
    /// Epoch of the transaction coordinator that wrote its last marker; −1 for none.
    pub coordinator_epoch: i32,
    /// First offset of its open transaction.
    pub current_txn_first_offset: Option<i64>,
}

impl ProducerStateEntry {
    /// Bytes of an entry.
    pub const ENCODED_SIZE: usize = CURRENT_TXN_FIRST_OFFSET + 8;

    fn encode(&self) -> [u8; Self::ENCODED_SIZE] {
        let mut raw = [0; Self::ENCODED_SIZE];
        raw[PRODUCER_ID..EPOCH].copy_from_slice(&self.producer_id.to_be_bytes());
        raw[EPOCH..LAST_SEQUENCE].copy_from_slice(&self.producer_epoch.to_be_bytes());
        raw[LAST_SEQUENCE..LAST_OFFSET].copy_from_slice(&self.last_sequence.to_be_bytes());
        raw[LAST_OFFSET..OFFSET_DELTA].copy_from_slice(&self.last_offset.to_be_bytes());
        raw[OFFSET_DELTA..TIMESTAMP].copy_from_slice(&self.offset_delta.to_be_bytes());
        raw[TIMESTAMP..COORDINATOR_EPOCH].copy_from_slice(&self.timestamp.to_be_bytes());
        raw[COORDINATOR_EPOCH..CURRENT_TXN_FIRST_OFFSET]
            .copy_from_slice(&self.coordinator_epoch.to_be_bytes());
        raw[CURRENT_TXN_FIRST_OFFSET..]
            .copy_from_slice(&self.current_txn_first_offset.unwrap_or(-1).to_be_bytes());
        raw
    }

    fn decode(raw: &[u8; Self::ENCODED_SIZE]) -> Self {
        let first = i64::from_be_bytes(field(raw, CURRENT_TXN_FIRST_OFFSET));
        Self {
            producer_id: i64::from_be_bytes(field(raw, PRODUCER_ID)),
            producer_epoch: i16::from_be_bytes(field(raw, EPOCH)),
            last_sequence: i32::from_be_bytes(field(raw, LAST_SEQUENCE)),
            last_offset: i64::from_be_bytes(field(raw, LAST_OFFSET)),
            offset_delta: i32::from_be_bytes(field(raw, OFFSET_DELTA)),
            timestamp: i64::from_be_bytes(field(raw, TIMESTAMP)),
            coordinator_epoch: i32::from_be_bytes(field(raw, COORDINATOR_EPOCH)),
            current_txn_first_offset: (first >= 0).then_some(first),
        }
    }
}

/// The content of a `.snapshot` file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProducerSnapshot {
    /// The producers, in the file's order.
    pub entries: Vec<ProducerStateEntry>,
}

impl ProducerSnapshot {
    /// Reads the file and compares its checksum.
    ///
    /// # Errors
    /// [`Flaw::Index`] for a file that is too short, an unknown version, a count that is not that of the bytes;
    /// [`Flaw::Crc`] for a wrong checksum. The position is that of the field.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        let Some((head, rest)) = bytes.split_first_chunk::<ENTRIES>() else {
            return Err(Flaw::Index("producer snapshot: the file is too short").at(bytes.len() as u64));
        };
        if i16::from_be_bytes(field(head, VERSION)) != CURRENT_VERSION {
            return Err(Flaw::Index("producer snapshot: the version is not 1").at(VERSION as u64));
        }
        let stored = u32::from_be_bytes(field(head, CRC));
        let computed = Checksum::Crc32C.of(&bytes[COUNT..]);
        if stored != computed {
            return Err(Flaw::Crc { stored, computed }.at(CRC as u64));
        }
        let count = i32::from_be_bytes(field(head, COUNT));
        let (entries, left) = rest.as_chunks();
        if usize::try_from(count) != Ok(entries.len()) || !left.is_empty() {
            return Err(Flaw::Index("producer snapshot: the number of entries is not that of the bytes")
                .at(COUNT as u64));
        }
        Ok(Self { entries: entries.iter().map(ProducerStateEntry::decode).collect() })
    }

    /// Bytes that [`encode`](Self::encode) gives.
    #[must_use]
    pub const fn encoded_size(&self) -> usize {
        ENTRIES + self.entries.len() * ProducerStateEntry::ENCODED_SIZE
    }

    /// The file's bytes.
    ///
    /// # Errors
    /// [`Flaw::Limit`] for more entries than the count can tell, 2^31 − 1.
    pub fn encode(&self) -> Result<Vec<u8>, Flaw> {
        let count = i32::try_from(self.entries.len())
            .map_err(|_| Flaw::Limit { what: "producers", limit: i32::MAX as u64 })?;
        let mut bytes = Vec::with_capacity(self.encoded_size());
        bytes.extend_from_slice(&CURRENT_VERSION.to_be_bytes());
        bytes.extend_from_slice(&[0; COUNT - CRC]);
        bytes.extend_from_slice(&count.to_be_bytes());
        for entry in &self.entries {
            bytes.extend_from_slice(&entry.encode());
        }
        let crc = Checksum::Crc32C.of(&bytes[COUNT..]);
        bytes[CRC..COUNT].copy_from_slice(&crc.to_be_bytes());
        Ok(bytes)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // A test may panic.
mod tests {
    use super::*;

    /// What a broker wrote for a partition without idempotent producers.
    const EMPTY: [u8; 10] = [0, 1, 0x48, 0x67, 0x4b, 0xc7, 0, 0, 0, 0];

    #[test]
    fn the_empty_snapshot_of_a_broker() {
        assert_eq!(ProducerSnapshot::parse(&EMPTY), Ok(ProducerSnapshot::default()));
        assert_eq!(ProducerSnapshot::default().encode(), Ok(EMPTY.to_vec()));
    }

    /// What Kafka 4.4.0 wrote at a clean stop: an idempotent producer of 50 records; a transactional one, its last
    /// transaction committed; one with a transaction open.
    #[test]
    fn the_snapshot_of_a_broker() {
        let hex = "0001215b95cf00000003\
            00000000000000000000000000310000000000000031000000310000018bcfe56831ffffffffffffffffffffffff\
            0000000000000001000000000014000000000000004800000006000001a1fe0017b900000000ffffffffffffffff\
            0000000000000002000000000002000000000000004c000000020000018bcfe56fd2ffffffff000000000000004a";
        let bytes: Vec<u8> =
            (0..hex.len()).step_by(2).map(|i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap()).collect();
        let entry = |producer_id, last_sequence, last_offset, offset_delta| ProducerStateEntry {
            producer_id,
            producer_epoch: 0,
            last_sequence,
            last_offset,
            offset_delta,
            timestamp: 0,
            coordinator_epoch: -1,
            current_txn_first_offset: None,
        };
        let expected = [
            ProducerStateEntry { timestamp: 1_700_000_000_049, ..entry(0, 49, 49, 49) },
            ProducerStateEntry { timestamp: 1795262781369, coordinator_epoch: 0, ..entry(1, 20, 72, 6) },
            ProducerStateEntry {
                timestamp: 1_700_000_002_002,
                current_txn_first_offset: Some(74),
                ..entry(2, 2, 76, 2)
            },
        ];
        let snapshot = ProducerSnapshot::parse(&bytes).unwrap();
        assert_eq!(snapshot.entries, expected);
        assert_eq!(snapshot.encode(), Ok(bytes));
    }

    #[test]
    fn errors_name_their_field() {
        for (at, position) in [(0, 0), (1, 0), (2, 2), (5, 2), (9, 2)] {
            let mut bytes = EMPTY;
            bytes[at] ^= 1;
            assert_eq!(ProducerSnapshot::parse(&bytes).map_err(|e| e.position), Err(position));
        }
        assert_eq!(ProducerSnapshot::parse(&EMPTY[..9]).map_err(|e| e.position), Err(9));
        for count in [1, -1, i32::MAX] {
            let mut bytes = EMPTY;
            bytes[COUNT..].copy_from_slice(&count.to_be_bytes());
            let crc = Checksum::Crc32C.of(&bytes[COUNT..]);
            bytes[CRC..COUNT].copy_from_slice(&crc.to_be_bytes());
            assert_eq!(ProducerSnapshot::parse(&bytes).map_err(|e| e.position), Err(COUNT as u64));
        }
    }
}
