//! Where the fields of a batch header are.
//!
//! ```text
//! v2, kip82b (KIP-98)                                    v3 (KIP-931)
//! baseOffset           int64     0                       int64
//! batchLength          int32     8   from here on        uvarint   from here on
//! partitionLeaderEpoch int32    12                       int32
//! magic                int8     16                       int8
//! crc                  uint32   17   CRC-32C of:         uint32    CRC-32C of:
//! attributes           int16    21                       int16
//! lastOffsetDelta      int32    23                       varint
//! baseTimestamp        int64    27                       varlong
//! maxTimestamp         int64    35                       varlong   minus baseTimestamp, modulo 2^64
//! producerId           int64    43                       int64
//! producerEpoch        int16    51                       int16
//! baseSequence         int32    53                       int32
//! count                int32    57                       int32
//! records                       61
//! ```
//! The checksum leaves out the fields that a broker writes on arrival, baseOffset and partitionLeaderEpoch.

use crate::bytes::{Reader, field};
use crate::error::Flaw;
use crate::format::Format;
use crate::head::{Head, TimestampType, attributes};
use crate::varint::{
    read_uvarint, read_varint, read_varlong, uvarint_len, write_uvarint, write_varint, write_varlong,
};

pub(crate) const BASE_OFFSET: usize = 0;
pub(crate) const LENGTH: usize = BASE_OFFSET + 8;
pub(crate) const LEADER_EPOCH: usize = LENGTH + 4;
pub(crate) const MAGIC: usize = LEADER_EPOCH + 4;
pub(crate) const CRC: usize = MAGIC + 1;
pub(crate) const ATTRIBUTES: usize = CRC + 4;
pub(crate) const LAST_OFFSET_DELTA: usize = ATTRIBUTES + 2;
pub(crate) const BASE_TIMESTAMP: usize = LAST_OFFSET_DELTA + 4;
pub(crate) const MAX_TIMESTAMP: usize = BASE_TIMESTAMP + 8;
pub(crate) const PRODUCER_ID: usize = MAX_TIMESTAMP + 8;
pub(crate) const PRODUCER_EPOCH: usize = PRODUCER_ID + 8;
pub(crate) const BASE_SEQUENCE: usize = PRODUCER_EPOCH + 2;
pub(crate) const COUNT: usize = BASE_SEQUENCE + 4;
/// Bytes of a v2 batch header.
pub const V2_HEADER: usize = COUNT + 4;

const fn timestamp_type(attributes: i16) -> TimestampType {
    if attributes & attributes::LOG_APPEND_TIME != 0 {
        TimestampType::LogAppendTime
    } else {
        TimestampType::CreateTime
    }
}

/// Reads the fixed header of a v2 or kip82b batch. `None` where `bytes` do not hold all of it.
pub(crate) fn read_fixed(bytes: &[u8], format: Format) -> Option<Head> {
    let h: &[u8; V2_HEADER] = bytes.first_chunk()?;
    let int32 = |at: usize| field(h, at).map(i32::from_be_bytes);
    let int64 = |at: usize| field(h, at).map(i64::from_be_bytes);
    let attributes = i16::from_be_bytes(field(h, ATTRIBUTES)?);
    let base_offset = int64(BASE_OFFSET)?;
    Some(Head {
        format,
        size: 12 + int32(LENGTH)? as usize,
        body: V2_HEADER,
        crc_from: ATTRIBUTES,
        crc: u32::from_be_bytes(field(h, CRC)?),
        base_offset,
        last_offset: base_offset.wrapping_add(i64::from(int32(LAST_OFFSET_DELTA)?)),
        attributes,
        timestamp_type: timestamp_type(attributes),
        base_timestamp: int64(BASE_TIMESTAMP)?,
        max_timestamp: int64(MAX_TIMESTAMP)?,
        leader_epoch: int32(LEADER_EPOCH)?,
        producer_id: int64(PRODUCER_ID)?,
        producer_epoch: i16::from_be_bytes(field(h, PRODUCER_EPOCH)?),
        base_sequence: int32(BASE_SEQUENCE)?,
        count: Some(int32(COUNT)?),
    })
}

/// Writes the fixed header of a v2 or kip82b batch. The checksum is left 0: it covers what is written here.
pub(crate) fn write_fixed(head: &Head) -> [u8; V2_HEADER] {
    let mut h = [0; V2_HEADER];
    let mut put = |at: usize, bytes: &[u8]| h[at..at + bytes.len()].copy_from_slice(bytes);
    put(BASE_OFFSET, &head.base_offset.to_be_bytes());
    put(LENGTH, &((head.size - LEADER_EPOCH) as i32).to_be_bytes());
    put(LEADER_EPOCH, &head.leader_epoch.to_be_bytes());
    put(MAGIC, &head.format.traits().magic.to_be_bytes());
    put(ATTRIBUTES, &head.attributes.to_be_bytes());
    put(LAST_OFFSET_DELTA, &last_offset_delta(head).to_be_bytes());
    put(BASE_TIMESTAMP, &head.base_timestamp.to_be_bytes());
    put(MAX_TIMESTAMP, &head.max_timestamp.to_be_bytes());
    put(PRODUCER_ID, &head.producer_id.to_be_bytes());
    put(PRODUCER_EPOCH, &head.producer_epoch.to_be_bytes());
    put(BASE_SEQUENCE, &head.base_sequence.to_be_bytes());
    put(COUNT, &head.count.unwrap_or(0).to_be_bytes());
    h
}

const fn last_offset_delta(head: &Head) -> i32 {
    head.last_offset.wrapping_sub(head.base_offset) as i32
}

/// The size that a v3 batch states: whole entry, and how many bytes its length field takes.
pub(crate) fn v3_size(bytes: &[u8]) -> Result<(u64, usize), Flaw> {
    let mut input = Reader::new(bytes.get(LENGTH..).unwrap_or_default());
    let before = input.remaining();
    let length = read_uvarint(&mut input, "batch length")?;
    let width = before - input.remaining();
    if length > i32::MAX as u32 {
        return Err(Flaw::SizeTooLarge { size: i64::from(length) });
    }
    Ok(((LENGTH + width) as u64 + u64::from(length), width))
}

/// Reads the header of a v3 batch. What is behind it need not be there.
pub(crate) fn read_v3(bytes: &[u8]) -> Result<Head, Flaw> {
    const CUT: Flaw = Flaw::PastEnd("batch header");
    let (size, width) = v3_size(bytes)?;
    let base_offset = i64::from_be_bytes(field(bytes, BASE_OFFSET).ok_or(CUT)?);
    let size = usize::try_from(size).map_err(|_| CUT)?;
    let end = size.min(bytes.len());
    let mut r = Reader::new(bytes.get(LENGTH + width..end).ok_or(CUT)?);
    let leader_epoch = r.i32().ok_or(CUT)?;
    let _magic = r.i8().ok_or(CUT)?;
    let crc = r.u32().ok_or(CUT)?;
    let crc_from = end - r.remaining();
    let attributes = r.i16().ok_or(CUT)?;
    let last_offset_delta = read_varint(&mut r, "lastOffsetDelta")?;
    let base_timestamp = read_varlong(&mut r, "baseTimestamp")?;
    let max_timestamp = base_timestamp.wrapping_add(read_varlong(&mut r, "maxTimestampDelta")?);
    let producer_id = r.i64().ok_or(CUT)?;
    let producer_epoch = r.i16().ok_or(CUT)?;
    let base_sequence = r.i32().ok_or(CUT)?;
    let count = r.i32().ok_or(CUT)?;
    Ok(Head {
        format: Format::V3,
        size,
        body: end - r.remaining(),
        crc_from,
        crc,
        base_offset,
        last_offset: base_offset.wrapping_add(i64::from(last_offset_delta)),
        attributes,
        timestamp_type: timestamp_type(attributes),
        base_timestamp,
        max_timestamp,
        leader_epoch,
        producer_id,
        producer_epoch,
        base_sequence,
        count: Some(count),
    })
}

/// Most bytes that a v3 batch header can take.
pub(crate) const V3_MAX_HEADER: usize = LENGTH + 5 + 4 + 1 + 4 + 2 + 5 + 10 + 10 + 8 + 2 + 4 + 4;

/// Appends the header of a v3 batch that has `body` bytes of records; returns the place in `out` of the checksum,
/// which is left 0: it covers what is behind it. `head.size` is not looked at.
pub(crate) fn write_v3(head: &Head, body: usize, out: &mut Vec<u8>) -> usize {
    let start = out.len();
    out.extend_from_slice(&head.base_offset.to_be_bytes());
    // The fields tell the length that goes before them.
    let fields = out.len();
    out.extend_from_slice(&head.leader_epoch.to_be_bytes());
    out.extend_from_slice(&head.format.traits().magic.to_be_bytes());
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&head.attributes.to_be_bytes());
    write_varint(last_offset_delta(head), out);
    write_varlong(head.base_timestamp, out);
    write_varlong(head.max_timestamp.wrapping_sub(head.base_timestamp), out);
    out.extend_from_slice(&head.producer_id.to_be_bytes());
    out.extend_from_slice(&head.producer_epoch.to_be_bytes());
    out.extend_from_slice(&head.base_sequence.to_be_bytes());
    out.extend_from_slice(&head.count.unwrap_or(0).to_be_bytes());
    let length = out.len() - fields + body;
    write_uvarint(length as u32, out);
    let width = uvarint_len(length as u32);
    debug_assert!(out.len() - start <= V3_MAX_HEADER);
    out[fields..].rotate_right(width);
    fields + width + 4 + 1
}
