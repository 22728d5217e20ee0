//! Bounds: an entry that is never held is told the same however it is read, and tiny things in great numbers are refused.

use std::io;

use magicbyte::{
    BatchFields, Codec, Damage, Encoder, Entries, Flaw, Format, Limits, Log, Mode, NewRecord, Next, Options,
    Source,
};

/// Windows of no more than is asked for.
struct Windows<'a>(&'a [u8], usize, usize);

impl Source for Windows<'_> {
    fn fill(&mut self, position: u64, need: u64) -> io::Result<()> {
        assert!(need < 1000, "{need} bytes wanted at once");
        self.1 = (position as usize).min(self.0.len());
        self.2 = (self.1 + need as usize).min(self.0.len());
        Ok(())
    }

    fn window(&self) -> (&[u8], u64, bool) {
        (&self.0[self.1..self.2], self.1 as u64, self.2 == self.0.len())
    }
}

type Met = Result<u64, Damage>;

fn both(log: &[u8], options: Options) -> (Vec<Met>, Vec<Met>) {
    let whole = Log::new(log, options).map(|item| item.map(|entry| entry.position)).collect();
    let mut entries = Entries::new(Windows(log, 0, 0), options, 0);
    let mut windowed = Vec::new();
    loop {
        match entries.next().expect("no I/O") {
            Next::Entry(entry) => windowed.push(Ok(entry.position)),
            Next::Damage(damage) => windowed.push(Err(damage)),
            Next::End => return (whole, windowed),
        }
    }
}

fn batch(offset: i64, value: &[u8]) -> Vec<u8> {
    let record = NewRecord { offset, value: Some(value), ..NewRecord::default() };
    let mut out = Vec::new();
    Encoder::new().encode(Format::V2, &BatchFields::default(), [record], &mut out).expect("carried");
    out
}

/// The value of a record in the large entry is itself a sound batch: it must not be taken for one of the log.
#[test]
fn an_entry_over_the_limit_is_the_same_in_every_window() {
    let small = batch(0, b"before");
    let large = batch(1, &[batch(77, b"inside"), vec![b'x'; 1500]].concat());
    let limits = Limits { batch: 1000, ..Limits::default() };
    let flaw = Flaw::Limit { what: "batch", limit: 1000 };
    let (from, to) = (small.len() as u64, (small.len() + large.len()) as u64);
    for mode in [Mode::FailFast, Mode::DropMalformed, Mode::Permissive] {
        let options = Options { mode, limits, ..Options::default() };
        let stops = mode == Mode::FailFast;

        // Behind it stands a sound entry.
        let log = [&small[..], &large, &batch(2, b"after")].concat();
        let (whole, windowed) = both(&log, options);
        assert_eq!(whole, windowed, "{mode:?}");
        let damage = Damage { range: from..to, flaw };
        assert_eq!(whole[..2], [Ok(0), Err(damage.clone())]);
        assert_eq!(whole.get(2).cloned(), if stops { None } else { Some(Ok(to)) });

        // It is the last one.
        let log = [&small[..], &large].concat();
        let (whole, windowed) = both(&log, options);
        assert_eq!(whole, windowed, "{mode:?}");
        assert_eq!(whole, [Ok(0), Err(damage)]);

        // It is cut short: a torn tail, however large it would have been.
        let torn = &log[..log.len() - 1];
        let (whole, windowed) = both(torn, options);
        if stops {
            assert_eq!(whole, windowed);
            let flaw = Flaw::TornTail { have: to - from - 1, need: to - from };
            assert_eq!(whole, [Ok(0), Err(Damage { range: from..to - 1, flaw })]);
        } else {
            // A search is not told where a torn entry's values end, and finds what is inside.
            assert_eq!(whole, windowed);
        }
    }
}

/// Seven bytes a record, thirty million of them: 200 KB compressed.
#[test]
fn tiny_records_in_great_numbers_are_over_the_limit() {
    let limits = Limits { decompressed: 64 << 20, ..Limits::default() };
    for count in [1 << 19, 1 << 20, (1 << 20) + 1] {
        let fields = BatchFields { codec: Codec::Lz4, ..BatchFields::default() };
        let records = (0..count).map(|offset| NewRecord { offset, timestamp: 0, ..NewRecord::default() });
        let mut log = Vec::new();
        Encoder::new().encode(Format::V2, &fields, records, &mut log).expect("carried");
        let entry = Log::new(&log, Options::default()).next().expect("one").expect("sound");
        let (mut buffer, mut decompressor) = Default::default();
        let payload = entry.open(&mut decompressor, &limits, &mut buffer).expect("within the limit");
        let mut sink = Count(0);
        match payload.decode(&limits, &mut sink) {
            Ok(found) => assert_eq!((i64::from(found), sink.0, count <= 1 << 20), (count, count, true)),
            Err(error) => {
                let what = "records and headers of a batch";
                assert_eq!((error.flaw, error.records), (Flaw::Limit { what, limit: 64 << 20 }, 0));
                assert_eq!((sink.0, count > 1 << 20), (0, true), "handed out before they were counted");
            }
        }
    }
}

struct Count(i64);

impl<'a> magicbyte::Sink<'a> for Count {
    fn record(&mut self, _record: &magicbyte::Record<'a>) -> bool {
        self.0 += 1;
        false
    }

    fn header(&mut self, _key: &'a [u8], _value: Option<&'a [u8]>) {}
}
