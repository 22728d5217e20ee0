//! Records with everything copied out, for comparing.

use std::path::Path;

use magicbyte::{
    Buffer, Decompressor, Dialect, Entry, Flaw, Format, Head, Header, Limits, Log, NewHeaders, NewRecord,
    Options, Record, Sink,
};
use serde_json::Value;

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Owned {
    pub(crate) offset: i64,
    pub(crate) timestamp: i64,
    pub(crate) attributes: i8,
    pub(crate) key: Option<Vec<u8>>,
    pub(crate) value: Option<Vec<u8>>,
    pub(crate) tombstone: Option<bool>,
    pub(crate) headers: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

impl Owned {
    pub(crate) fn headers(&self) -> Vec<Header<'_>> {
        self.headers.iter().map(|(key, value)| Header { key, value: value.as_deref() }).collect()
    }

    pub(crate) fn new_record<'a>(&'a self, headers: &'a [Header<'a>]) -> NewRecord<'a> {
        NewRecord {
            offset: self.offset,
            timestamp: self.timestamp,
            attributes: self.attributes,
            key: self.key.as_deref(),
            value: self.value.as_deref(),
            tombstone: self.tombstone,
            headers: NewHeaders::List(headers),
        }
    }
}

#[derive(Default)]
struct Collect(Vec<Owned>);

impl<'a> Sink<'a> for Collect {
    fn record(&mut self, r: &Record<'a>) -> bool {
        self.0.push(Owned {
            offset: r.offset,
            timestamp: r.timestamp,
            attributes: r.attributes,
            key: r.key.map(<[u8]>::to_vec),
            value: r.value.map(<[u8]>::to_vec),
            tombstone: r.tombstone,
            headers: Vec::new(),
        });
        true
    }

    fn header(&mut self, key: &'a [u8], value: Option<&'a [u8]>) {
        let header = (key.to_vec(), value.map(<[u8]>::to_vec));
        self.0.last_mut().expect("a record came before").headers.push(header);
    }

    fn discard(&mut self) {
        self.0.pop();
    }
}

/// The records of an entry, the offset they count from, and the flaw that ended them.
pub(crate) fn records(entry: &Entry<'_>) -> (Vec<Owned>, i64, Option<Flaw>) {
    let (mut buffer, mut decompressor, limits) = (Buffer::new(), Decompressor::new(), Limits::default());
    let mut sink = Collect::default();
    match entry.open(&mut decompressor, &limits, &mut buffer) {
        Ok(payload) => {
            let flaw = payload.decode(&limits, &mut sink).err().map(|error| error.flaw);
            (sink.0, payload.base_offset(), flaw)
        }
        Err(error) => (sink.0, 0, Some(error.flaw)),
    }
}

/// All of a log: headers, without places and sizes, which padding and compression move, and records.
pub(crate) fn read(bytes: &[u8], dialect: Dialect) -> (Vec<Head>, Vec<Owned>) {
    let (mut heads, mut all) = (Vec::new(), Vec::new());
    for item in Log::new(bytes, Options { dialect, ..Options::default() }) {
        let entry = item.unwrap_or_else(|damage| panic!("{}", damage.error()));
        let (mut records, _, flaw) = records(&entry);
        assert_eq!(flaw, None, "at {}", entry.position);
        if entry.head.count.is_none() {
            // A message's attributes are its batch's, and the head has them.
            records.iter_mut().for_each(|record| record.attributes = 0);
        }
        let mut head = Head { size: 0, body: 0, crc_from: 0, crc: 0, ..entry.head };
        if head.format == Format::Kip82a {
            // A writer sets it only where there are headers.
            head.attributes &= !magicbyte::head::attributes::HAS_HEADERS;
        }
        heads.push(head);
        all.extend(records);
    }
    (heads, all)
}

pub(crate) fn lines(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).expect("readable");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

pub(crate) fn unhex(text: &str) -> Vec<u8> {
    (0..text.len() / 2).map(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).expect("hex")).collect()
}
