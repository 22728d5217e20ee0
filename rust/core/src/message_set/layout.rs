//! Where the fields of a message-set entry are.
//!
//! ```text
//! offset      int64    0
//! size        int32    8   from here on
//! crc         uint32  12   CRC-32 of what follows
//! magic       int8    16
//! attributes  int8    17
//! timestamp   int64   18   not in v0
//! key         int32 length and bytes; kip82a: varint length
//! headers     kip82a, where attribute bit 4 is set: varint length and bytes
//! value       int32 length and bytes; kip82a: varint length
//! ```
//! With a codec in the attributes the message is a wrapper: its value is a compressed message set.

use crate::bytes::field;
use crate::format::Format;
use crate::head::{Head, TimestampType, attributes};

pub(crate) const OFFSET: usize = 0;
pub(crate) const SIZE: usize = OFFSET + 8;
pub(crate) const CRC: usize = SIZE + 4;
pub(crate) const MAGIC: usize = CRC + 4;
pub(crate) const ATTRIBUTES: usize = MAGIC + 1;
pub(crate) const TIMESTAMP: usize = ATTRIBUTES + 1;
/// Bytes before the key's length in v0.
pub(crate) const V0_HEADER: usize = TIMESTAMP;
/// Bytes before the key's length in all later message sets.
pub(crate) const V1_HEADER: usize = TIMESTAMP + 8;
/// Bytes of offset and size, which every entry begins with.
pub const OVERHEAD: usize = CRC;

/// Reads the header of a message. `None` where `bytes` do not hold all of it.
pub(crate) fn read_head(bytes: &[u8], format: Format) -> Option<Head> {
    let offset = i64::from_be_bytes(field(bytes, OFFSET)?);
    let size = i32::from_be_bytes(field(bytes, SIZE)?);
    let attributes = i16::from(i8::from_be_bytes(field(bytes, ATTRIBUTES)?));
    let timed = format.traits().timestamps;
    let timestamp = if timed { i64::from_be_bytes(field(bytes, TIMESTAMP)?) } else { -1 };
    Some(Head {
        format,
        size: OVERHEAD + usize::try_from(size).ok()?,
        body: if timed { V1_HEADER } else { V0_HEADER },
        crc_from: MAGIC,
        crc: u32::from_be_bytes(field(bytes, CRC)?),
        base_offset: offset,
        last_offset: offset,
        attributes,
        timestamp_type: match (timed, attributes & attributes::LOG_APPEND_TIME != 0) {
            (false, _) => TimestampType::None,
            (true, false) => TimestampType::CreateTime,
            (true, true) => TimestampType::LogAppendTime,
        },
        base_timestamp: timestamp,
        max_timestamp: timestamp,
        leader_epoch: -1,
        producer_id: -1,
        producer_epoch: -1,
        base_sequence: -1,
        count: None,
    })
}
