//! Records with everything copied out, for comparing.

use magicbyte::{Buffer, Decompressor, Entry, Error, Limits, Record, Sink, TimestampType};

/// A record as a reader hands it out.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Row {
    pub offset: i64,
    /// As stored.
    pub timestamp: i64,
    /// As a consumer sees it.
    pub seen: i64,
    pub timestamp_type: i8,
    pub attributes: i8,
    pub key: Option<Vec<u8>>,
    pub value: Option<Vec<u8>>,
    pub tombstone: Option<bool>,
    pub headers: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

struct Collect<'e> {
    entry: &'e Entry<'e>,
    rows: Vec<Row>,
}

impl<'a> Sink<'a> for Collect<'_> {
    fn record(&mut self, record: &Record<'a>) -> bool {
        let head = &self.entry.head;
        assert!(record.size > 0);
        self.rows.push(Row {
            offset: record.offset,
            timestamp: record.timestamp,
            seen: record.effective_timestamp(head),
            timestamp_type: match record.timestamp_type(head) {
                TimestampType::None => -1,
                TimestampType::CreateTime => 0,
                TimestampType::LogAppendTime => 1,
            },
            attributes: record.attributes,
            key: record.key.map(<[u8]>::to_vec),
            value: record.value.map(<[u8]>::to_vec),
            tombstone: record.tombstone,
            headers: Vec::new(),
        });
        true
    }

    fn header(&mut self, key: &'a [u8], value: Option<&'a [u8]>) {
        let header = (key.to_vec(), value.map(<[u8]>::to_vec));
        self.rows.last_mut().expect("a record came before").headers.push(header);
    }

    fn discard(&mut self) {
        self.rows.pop().expect("a record came before");
    }
}

/// The sound records of an entry, and how reading it ended.
pub fn rows(entry: &Entry<'_>, limits: &Limits) -> (Vec<Row>, Result<(), Error>) {
    let (mut buffer, mut decompressor) = (Buffer::new(), Decompressor::new());
    let mut sink = Collect { entry, rows: Vec::new() };
    let opened = match entry.open(&mut decompressor, limits, &mut buffer) {
        Ok(payload) => payload,
        Err(error) => {
            assert_eq!((error.position, error.records), (entry.position, 0));
            return (Vec::new(), Err(error));
        }
    };
    // Counts from the wire reserve nothing that the bytes could not hold.
    assert!(opened.count_hint() <= opened.bytes().len().max(1));
    let done = opened.decode(limits, &mut sink);
    let count = match &done {
        Ok(count) => *count,
        Err(error) => {
            assert_eq!(error.position, entry.position);
            error.records
        }
    };
    assert_eq!(sink.rows.len(), count as usize, "the count is not that of the records: {done:?}");
    (sink.rows, done.map(|_| ()))
}
