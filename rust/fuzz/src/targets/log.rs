//! Any bytes as a log: walked in every mode, in one window and in many, verified, surveyed for transactions, digested.

use std::io;
use std::sync::Arc;

use magicbyte::verify::{Verifier, verify};
use magicbyte::{
    Damage, Digest, Entry, Isolation, Judge, Log, Mode, Options, Ruling, SegmentOf, Source, Survey, detect,
};
use magicbyte::{Entries, Next};

use super::rows::{Row, rows};
use super::{DIALECTS, LIMITS, control, mended};

/// One thing that the walk met.
#[derive(Clone, Debug, PartialEq)]
enum Met {
    Entry { from: u64, size: usize },
    Damage(Damage),
}

/// See the module.
pub fn run(data: &[u8]) {
    let Some((bytes, [choice, flags])) = control(data) else { return };
    let dialect = DIALECTS[usize::from(choice & 7)];
    let mut limits = LIMITS;
    if flags & 8 != 0 {
        limits.batch = 300;
    }
    let whole;
    let bytes = if flags & 1 != 0 {
        whole = mended(bytes, dialect);
        &whole[..]
    } else {
        bytes
    };
    let options = Options {
        dialect,
        check_crc: flags & 2 == 0,
        mode: Mode::FailFast,
        limits,
        preallocated: flags & 4 != 0,
    };
    walk(bytes, options, usize::from(choice >> 3));
    let _ = detect(bytes);
    strict(bytes, options);
    transactions(bytes, options);
}

fn walk(bytes: &[u8], options: Options, piece: usize) {
    let end = bytes.len() as u64;
    let in_mode = |mode| met(bytes, Options { mode, ..options });
    let (stopping, dropping, permissive) =
        (in_mode(Mode::FailFast), in_mode(Mode::DropMalformed), in_mode(Mode::Permissive));
    assert_eq!(dropping, permissive, "the two modes differ in what is shown alone");
    // Entries and damage lie side by side, and nothing is left between or behind them.
    let mut at = 0;
    for met in &permissive {
        let range = match met {
            Met::Entry { from, size } => *from..*from + *size as u64,
            Met::Damage(damage) => damage.range.clone(),
        };
        assert_eq!(range.start, at, "a gap or an overlap: {permissive:?}");
        assert!(range.end > range.start, "nothing: {permissive:?}");
        at = range.end;
    }
    assert_eq!(at, end, "bytes that nobody spoke of: {permissive:?}");
    // The mode that stops has met the same until there.
    for (index, (strict, lenient)) in stopping.iter().zip(&permissive).enumerate() {
        match (strict, lenient) {
            (Met::Damage(strict), Met::Damage(lenient)) => {
                assert_eq!(strict.range.start, lenient.range.start);
                assert!(strict.range.end <= end);
                assert_eq!(index + 1, stopping.len(), "goes on behind damage");
            }
            _ => assert_eq!(strict, lenient),
        }
    }
    if stopping.len() < permissive.len() {
        assert!(matches!(stopping.last(), Some(Met::Damage(_))), "stopped without a word");
    }
    // A reader of small windows meets the same.
    for (mode, want) in
        [(Mode::FailFast, &stopping), (Mode::DropMalformed, &dropping), (Mode::Permissive, &permissive)]
    {
        let have = windowed(bytes, Options { mode, ..options }, piece);
        assert_eq!(have.len(), want.len(), "{have:?} {want:?}");
        for (have, want) in have.iter().zip(want) {
            match (have, want, mode) {
                // Where it stops, it has not looked further than its window.
                (Met::Damage(have), Met::Damage(want), Mode::FailFast) => {
                    assert_eq!(have.range.start, want.range.start);
                }
                _ => assert_eq!(have, want),
            }
        }
    }
}

fn met(bytes: &[u8], options: Options) -> Vec<Met> {
    let step = |item: Result<Entry<'_>, Damage>| match item {
        Ok(entry) => {
            let from = entry.position as usize;
            assert_eq!(entry.bytes, &bytes[from..from + entry.head.size]);
            assert!(!options.check_crc || entry.check_crc().is_ok());
            Met::Entry { from: entry.position, size: entry.head.size }
        }
        Err(damage) => Met::Damage(damage),
    };
    Log::new(bytes, options).map(step).collect()
}

/// Hands out windows no larger than they must be, and a few bytes of another size each time.
struct Windows<'a> {
    bytes: &'a [u8],
    from: usize,
    to: usize,
    piece: usize,
}

impl Source for Windows<'_> {
    fn fill(&mut self, position: u64, need: u64) -> io::Result<()> {
        let end = self.bytes.len();
        let from = usize::try_from(position).unwrap_or(usize::MAX).min(end);
        let to = from.saturating_add(usize::try_from(need).unwrap_or(usize::MAX)).saturating_add(self.piece);
        (self.from, self.to) = (from, to.min(end));
        self.piece = (self.piece * 7 + 3) & 31;
        Ok(())
    }

    fn window(&self) -> (&[u8], u64, bool) {
        (&self.bytes[self.from..self.to], self.from as u64, self.to == self.bytes.len())
    }
}

fn windowed(bytes: &[u8], options: Options, piece: usize) -> Vec<Met> {
    let source = Windows { bytes, from: 0, to: piece.min(bytes.len()), piece };
    let mut entries = Entries::new(source, options, 0);
    let mut all = Vec::new();
    loop {
        match entries.next().expect("no I/O") {
            Next::Entry(entry) => {
                all.push(Met::Entry { from: entry.position, size: entry.head.size });
            }
            Next::Damage(damage) => all.push(Met::Damage(damage)),
            Next::End => return all,
        }
    }
}

fn entries(bytes: &[u8], options: Options) -> impl Iterator<Item = Entry<'_>> {
    Log::new(bytes, options).filter_map(Result::ok)
}

/// Verifier and digest read the records that the reader reads.
fn strict(bytes: &[u8], options: Options) {
    let options = Verifier::options(options);
    let report = verify(bytes, options);
    let (mut count, mut sound, mut data) = (0, 0, 0);
    let mut digest = Digest::new(options.limits);
    for entry in entries(bytes, options) {
        count += 1;
        let (read, whole) = rows(&entry, &options.limits);
        sound += read.len() as u64;
        let added = digest.add(&entry);
        assert_eq!(added.is_ok(), whole.is_ok() || entry.head.is_control(), "{added:?} {whole:?}");
        if whole.is_ok() && !entry.head.is_control() {
            data += read.len() as u64;
        }
    }
    assert_eq!(report.batches(), count);
    assert_eq!(report.records(), sound, "{:?}", report.findings());
    assert_eq!(digest.records(), data);
    if count == 0 {
        assert_ne!(report.ok(), Some(true), "nothing was checked");
    }
    let errors = report.findings().errors();
    assert_eq!(report.ok(), if errors > 0 { Some(false) } else { (sound > 0).then_some(true) });
}

/// What is committed is a part of all; without a transaction, both are the same.
fn transactions(bytes: &[u8], options: Options) {
    let options = Options { mode: Mode::DropMalformed, ..options };
    let mut survey = Survey::new();
    let of = SegmentOf { last: true, ..SegmentOf::default() };
    survey.segment(bytes, options, of).expect("no I/O");
    let known = Arc::new(survey.finish());
    let uncommitted: Vec<Row> =
        entries(bytes, options).flat_map(|entry| rows(&entry, &options.limits).0).collect();
    for past_lso in [false, true] {
        let transactions = Arc::clone(&known);
        let judge = Judge { transactions, isolation: Isolation::ReadCommitted, past_lso };
        let mut committed = Vec::new();
        // The survey believes headers of batches that the reader then finds damaged.
        let mut any = Log::new(bytes, options).any(|item| item.is_err());
        for entry in entries(bytes, options) {
            any |= entry.head.is_transactional();
            match judge.rule(&entry.head) {
                Ruling::Take(_) => committed.extend(rows(&entry, &options.limits).0),
                Ruling::LeaveOut => {}
                Ruling::Stop => {
                    assert!(!judge.left_behind(&entry.head).is_empty());
                    break;
                }
            }
        }
        let mut rest = uncommitted.iter();
        assert!(committed.iter().all(|row| rest.any(|other| other == row)), "not a part of all");
        if !any {
            assert_eq!(committed, uncommitted);
        }
    }
}
