//! Carries records from a decoder to a batch that is being written, changed as the conversion table says.

use crate::convert::dropped::Dropped;
use crate::encode::{Encoder, Open};
use crate::encode_error::{EncodeError, EncodeFlaw};
use crate::format::{Format, HeaderSupport};
use crate::head::Head;
use crate::new_record::{NewHeaders, NewRecord};
use crate::record::{Record, Sink};

/// How the records of one entry change on their way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    /// The entry that they come from.
    pub(super) head: Head,
    pub(super) to: Format,
    /// Offsets count on from here, instead of staying as they are.
    pub(super) next_offset: Option<i64>,
    /// Records with a lower offset are left out.
    pub(super) from_offset: i64,
    /// Records store what a consumer would see, because their new batch cannot tell the append time.
    pub(super) effective_timestamps: bool,
    pub(super) null_is_tombstone: bool,
}

/// The sink between the two.
pub(super) struct Carry<'c> {
    pub(super) rules: Rules,
    pub(super) open: &'c mut Open,
    pub(super) encoder: &'c mut Encoder,
    pub(super) out: &'c mut Vec<u8>,
    pub(super) dropped: &'c mut Dropped,
    /// The first record that could not be written; those behind it are not tried.
    pub(super) refused: Option<EncodeError>,
    /// How many records were seen.
    pub(super) seen: u64,
}

impl Carry<'_> {
    #[inline]
    fn carry(&mut self, record: &Record<'_>) -> Result<(), EncodeFlaw> {
        let rules = &mut self.rules;
        if record.offset < rules.from_offset {
            return Ok(());
        }
        let (from, to) = (rules.head.format, rules.to);
        let (source, target) = (from.traits(), to.traits());
        let mut new = NewRecord::from(record);
        if !(has_attributes(from) && has_attributes(to)) {
            new.attributes = 0;
        }
        if rules.effective_timestamps {
            new.timestamp = record.effective_timestamp(&rules.head);
        }
        if !target.timestamps && record.effective_timestamp(&rules.head) != -1 {
            self.dropped.timestamps += 1;
        }
        if matches!(target.headers, HeaderSupport::No) && !record.headers.is_empty() {
            self.dropped.headers += record.headers.len() as u64;
            new.headers = NewHeaders::default();
        }
        if source.tombstone_flag && !target.tombstone_flag {
            match (record.tombstone, record.value) {
                (Some(true), value) => {
                    self.dropped.tombstone_values += u64::from(value.is_some());
                    new.value = None;
                }
                (Some(false), None) if rules.null_is_tombstone => self.dropped.null_values += 1,
                // It would turn into a delete.
                (Some(false), None) => return Err(EncodeFlaw::LiveNullValue),
                // Without a flag: a message of an older format in a wrapper of this one.
                _ => {}
            }
            new.tombstone = None;
        }
        if let Some(next) = &mut rules.next_offset {
            new.offset = *next;
        }
        self.open.push(&new, self.encoder, self.out).map_err(|error| error.flaw)?;
        if rules.head.is_transactional() && !target.producer {
            self.dropped.transactional += 1;
        }
        if let Some(next) = &mut self.rules.next_offset {
            *next = next.wrapping_add(1);
        }
        Ok(())
    }
}

/// Whether a record's own attributes byte means the same in all formats that have it.
const fn has_attributes(format: Format) -> bool {
    matches!(format, Format::V2 | Format::V3)
}

impl<'a> Sink<'a> for Carry<'_> {
    #[inline]
    fn record(&mut self, record: &Record<'a>) -> bool {
        if self.refused.is_none()
            && let Err(flaw) = self.carry(record)
        {
            self.refused = Some(flaw.of(self.seen));
        }
        self.seen += 1;
        // Headers go along as they are encoded.
        false
    }

    fn header(&mut self, _key: &'a [u8], _value: Option<&'a [u8]>) {}
}
