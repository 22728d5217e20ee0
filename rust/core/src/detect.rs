//! Which formats some bytes can be of, by what their checksums allow.
//!
//! Magic 0, 1 and 3 name their format. Magic 2 is shared by four, of which the checksum leaves two: CRC-32C is of v2
//! or KIP-82's draft B, CRC-32 of KIP-87 or draft A. Of two such formats only whoever wrote the bytes can say which.

use crate::entry::Entry;
use crate::format::{Dialect, Format};
use crate::frame::{Frame, frame};

/// All formats that entries of these bytes can be of, in the order of [`Format`]: of all entries together, as a log
/// may mix v0, v1 and v3 with one meaning of magic 2. Empty where no sound entry stands at the front.
///
/// The walk ends at the first thing that is no sound entry; a log's tail does not count against it.
#[must_use]
pub fn detect(bytes: &[u8]) -> Vec<Format> {
    let mut dialects = vec![Dialect::Kafka, Dialect::Kip82b, Dialect::Kip87, Dialect::Kip82a];
    let (mut others, mut magic_two, mut rest) = (Vec::new(), false, bytes);
    loop {
        let able: Vec<Dialect> =
            dialects.iter().copied().filter(|dialect| sound(rest, *dialect).is_some()).collect();
        let Some(head) = able.first().and_then(|dialect| sound(rest, *dialect)).map(|entry| entry.head)
        else {
            break;
        };
        if head.format.traits().magic == 2 {
            (dialects, magic_two) = (able, true);
        } else if !others.contains(&head.format) {
            others.push(head.format);
        }
        rest = rest.get(head.size..).unwrap_or_default();
    }
    if magic_two {
        others.extend(dialects.iter().filter_map(|dialect| dialect.format(2)));
    }
    others.sort_unstable();
    others
}

/// The entry at the front, if its checksum holds.
fn sound(bytes: &[u8], dialect: Dialect) -> Option<Entry<'_>> {
    match frame(bytes, 0, dialect) {
        Frame::Entry(entry) => entry.check_crc().is_ok().then_some(entry),
        _ => None,
    }
}
