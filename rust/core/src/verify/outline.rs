//! What the order of a log needs to know of an entry, in a form that travels: so the looking, which is the work, is done
//! segment by segment wherever there is a core, and the order of the partition is judged once, over what was told.
//!
//! ```text
//! line   => end of damage:  0 uint8, position uint64
//!         | entry:          flags uint8 (1, …), position uint64, first int64, last int64, leaderEpoch int32,
//!                           producerId int64, producerEpoch int16, baseSequence int32, lastSequence int32,
//!                           number of keys uint32, their hashes [uint64]                          little-endian
//! ```

use crate::batch::control::ControlType;
use crate::error::{Flaw, Result};
use crate::head::Head;
use crate::verify::look::Seen;

const ENTRY: u8 = 1;
const REWRITTEN: u8 = 2;
const NULL_KEY: u8 = 4;
const TRANSACTIONAL: u8 = 8;
const CONTROL: u8 = 16;
const ABORTS: u8 = 32;
const COMMITS: u8 = 64;
const EMPTY: u8 = 128;

/// A line of a segment's outline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// A sound entry.
    Entry(Told),
    /// Damage up to this position.
    Damage(u64),
}

/// What is told of an entry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Told {
    pub(super) position: u64,
    pub(super) first: i64,
    pub(super) last: i64,
    pub(super) leader_epoch: i32,
    pub(super) producer_id: i64,
    pub(super) producer_epoch: i16,
    pub(super) base_sequence: i32,
    pub(super) last_sequence: i32,
    pub(super) rewritten: bool,
    pub(super) null_key: bool,
    pub(super) transactional: bool,
    pub(super) control: bool,
    /// A cleaner left no record of it: so its transaction was decided long ago.
    pub(super) empty: bool,
    /// A marker: whether it aborts.
    pub(super) ends: Option<bool>,
    /// Hashes of keys, as long as they are asked for.
    pub(super) keys: Vec<u64>,
}

impl Told {
    pub(super) fn of(position: u64, head: &Head, seen: &mut Seen) -> Self {
        Self {
            position,
            first: seen.first,
            last: seen.last,
            leader_epoch: head.leader_epoch,
            producer_id: head.producer_id,
            producer_epoch: head.producer_epoch,
            base_sequence: head.base_sequence,
            last_sequence: head.sequence(head.last_offset),
            rewritten: seen.rewritten,
            null_key: seen.null_key,
            transactional: head.is_transactional(),
            control: head.is_control(),
            empty: head.count == Some(0),
            ends: match seen.control {
                Some(ControlType::Abort) => Some(true),
                Some(ControlType::Commit) => Some(false),
                _ => None,
            },
            keys: std::mem::take(&mut seen.keys),
        }
    }

    fn flags(&self) -> u8 {
        let bit = |on: bool, bit: u8| if on { bit } else { 0 };
        ENTRY
            | bit(self.rewritten, REWRITTEN)
            | bit(self.null_key, NULL_KEY)
            | bit(self.transactional, TRANSACTIONAL)
            | bit(self.control, CONTROL)
            | bit(self.empty, EMPTY)
            | bit(self.ends == Some(true), ABORTS)
            | bit(self.ends == Some(false), COMMITS)
    }
}

impl Line {
    /// Appends the line to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Damage(end) => {
                out.push(0);
                out.extend(end.to_le_bytes());
            }
            Self::Entry(told) => {
                out.push(told.flags());
                out.extend(told.position.to_le_bytes());
                out.extend(told.first.to_le_bytes());
                out.extend(told.last.to_le_bytes());
                out.extend(told.leader_epoch.to_le_bytes());
                out.extend(told.producer_id.to_le_bytes());
                out.extend(told.producer_epoch.to_le_bytes());
                out.extend(told.base_sequence.to_le_bytes());
                out.extend(told.last_sequence.to_le_bytes());
                out.extend((told.keys.len() as u32).to_le_bytes());
                out.extend(told.keys.iter().flat_map(|key| key.to_le_bytes()));
            }
        }
    }

    /// The lines in `bytes`.
    ///
    /// # Errors
    ///
    /// Bytes that are no lines of ours.
    pub fn decode(bytes: &[u8]) -> Result<Vec<Self>> {
        let mut lines = Vec::new();
        let mut rest = bytes;
        while !rest.is_empty() {
            let at = (bytes.len() - rest.len()) as u64;
            lines.push(
                Self::next(&mut rest).ok_or_else(|| Flaw::Index("outline: a line is cut short").at(at))?,
            );
        }
        Ok(lines)
    }

    fn next(rest: &mut &[u8]) -> Option<Self> {
        let [flags] = take(rest)?;
        let position = u64::from_le_bytes(take(rest)?);
        if flags & ENTRY == 0 {
            return Some(Self::Damage(position));
        }
        let has = |bit: u8| flags & bit != 0;
        let mut told = Told {
            position,
            first: i64::from_le_bytes(take(rest)?),
            last: i64::from_le_bytes(take(rest)?),
            leader_epoch: i32::from_le_bytes(take(rest)?),
            producer_id: i64::from_le_bytes(take(rest)?),
            producer_epoch: i16::from_le_bytes(take(rest)?),
            base_sequence: i32::from_le_bytes(take(rest)?),
            last_sequence: i32::from_le_bytes(take(rest)?),
            rewritten: has(REWRITTEN),
            null_key: has(NULL_KEY),
            transactional: has(TRANSACTIONAL),
            control: has(CONTROL),
            empty: has(EMPTY),
            ends: if has(ABORTS) { Some(true) } else { has(COMMITS).then_some(false) },
            keys: Vec::new(),
        };
        let keys = u32::from_le_bytes(take(rest)?) as usize;
        let (hashes, behind) = rest.split_at_checked(keys.checked_mul(8)?)?;
        told.keys = hashes.as_chunks().0.iter().map(|hash| u64::from_le_bytes(*hash)).collect();
        *rest = behind;
        Some(Self::Entry(told))
    }
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (first, behind) = rest.split_first_chunk()?;
    *rest = behind;
    Some(*first)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // A test may panic.
mod tests {
    use super::*;

    #[test]
    fn lines_come_back() {
        let told = Told {
            position: 77,
            first: -5,
            last: i64::MAX,
            leader_epoch: 3,
            producer_id: 9,
            producer_epoch: -1,
            base_sequence: 4,
            last_sequence: i32::MAX,
            rewritten: true,
            control: true,
            ends: Some(false),
            keys: vec![1, u64::MAX],
            ..Told::default()
        };
        let aborts =
            Told { ends: Some(true), null_key: true, transactional: true, empty: true, ..Told::default() };
        let lines = vec![Line::Entry(told), Line::Damage(99), Line::Entry(aborts)];
        let mut bytes = Vec::new();
        lines.iter().for_each(|line| line.encode(&mut bytes));
        assert_eq!(Line::decode(&bytes).unwrap(), lines);
        for cut in 1..bytes.len() {
            if let Ok(some) = Line::decode(&bytes[..cut]) {
                assert_eq!(some, lines[..some.len()]);
            }
        }
        let mut false_count = Vec::new();
        lines[2].encode(&mut false_count);
        let end = false_count.len();
        false_count[end - 4..].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(Line::decode(&false_count).is_err());
    }
}
