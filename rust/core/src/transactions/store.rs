//! Transactions as bytes, so that one survey serves many workers.
//!
//! ```text
//! version u8 (1)
//! unstable: u8 (0 none, 1 there), then offset, producerId, records, bytes i64, flags u8
//! producers u64, each: producerId i64, spans u64, each: from, to i64, aborted u8
//! ```
//! Big-endian. Ours alone: it lives as long as one job, so another version is no version.

use std::collections::HashMap;

use super::{Span, Transactions, Unstable};
use crate::bytes::Reader;

const VERSION: u8 = 1;
const AT_LEAST: u8 = 1;
const DAMAGED: u8 = 2;
/// Bytes of a span.
const SPAN: usize = 17;

impl Transactions {
    /// As bytes, for [`Transactions::from_bytes`].
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = vec![VERSION, u8::from(self.unstable.is_some())];
        if let Some(it) = &self.unstable {
            for number in [it.offset, it.producer_id, it.records as i64, it.bytes as i64] {
                out.extend_from_slice(&number.to_be_bytes());
            }
            out.push(if it.at_least { AT_LEAST } else { 0 } | if it.damaged { DAMAGED } else { 0 });
        }
        out.extend_from_slice(&(self.producers.len() as u64).to_be_bytes());
        for (id, spans) in &self.producers {
            out.extend_from_slice(&id.to_be_bytes());
            out.extend_from_slice(&(spans.len() as u64).to_be_bytes());
            for span in spans {
                out.extend_from_slice(&span.from.to_be_bytes());
                out.extend_from_slice(&span.to.to_be_bytes());
                out.push(u8::from(span.aborted));
            }
        }
        out
    }

    /// From the bytes of [`Transactions::to_bytes`]; `None` where they are none, or hold spans out of order.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut input = Reader::new(bytes);
        if input.i8()? != VERSION as i8 {
            return None;
        }
        let unstable = match input.i8()? {
            0 => None,
            _ => {
                let (offset, producer_id) = (input.i64()?, input.i64()?);
                let (records, bytes) = (input.i64()? as u64, input.i64()? as u64);
                let flags = input.i8()? as u8;
                let (at_least, damaged) = (flags & AT_LEAST != 0, flags & DAMAGED != 0);
                Some(Unstable { offset, producer_id, records, bytes, at_least, damaged })
            }
        };
        let mut producers = HashMap::new();
        for _ in 0..input.i64()? {
            let id = input.i64()?;
            let count = usize::try_from(input.i64()?).ok().filter(|&n| n <= input.remaining() / SPAN)?;
            let mut spans: Vec<Span> = Vec::with_capacity(count);
            for _ in 0..count {
                let span = Span { from: input.i64()?, to: input.i64()?, aborted: input.i8()? != 0 };
                let rises = spans.last().is_none_or(|last| last.to < span.from);
                if span.from > span.to || !rises {
                    return None;
                }
                spans.push(span);
            }
            producers.insert(id, spans);
        }
        (input.remaining() == 0).then_some(Self { producers, unstable })
    }
}
