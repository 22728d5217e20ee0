//! The files beside a segment, and the names of files and directories, from any bytes. What is read is written the same,
//! and the verifier and the survey take them as they come.

use magicbyte::checksum::Checksum;
use magicbyte::segment::{
    AbortedTxn, DirName, LeaderEpochCheckpoint, OffsetIndex, OffsetIndexBuilder, PartitionMetadata,
    ProducerSnapshot, SegmentFile, TimeIndex, TimeIndexBuilder, TopicPartition, TransactionIndex,
    is_topic_name, segment_file_name, snapshot_file_name,
};
use magicbyte::verify::{Beside, Verifier};
use magicbyte::{Log, Mode, Options, SegmentOf, Survey};

use super::{LIMITS, control};

/// See the module.
pub fn run(data: &[u8]) {
    let Some((bytes, base)) = control::<8>(data) else { return };
    let Some((bytes, [kind])) = control(bytes) else { return };
    let base = i64::from_be_bytes(base);
    match kind % 8 {
        0 => offsets(bytes, base),
        1 => times(bytes, base),
        2 => aborted(bytes, base),
        3 => epochs(bytes, base),
        4 => producers(bytes),
        5 => metadata(bytes),
        6 => names(bytes),
        _ => together(bytes, base),
    }
}

fn offsets(bytes: &[u8], base: i64) {
    let index = OffsetIndex::new(bytes, base);
    let entries: Vec<_> = index.iter().collect();
    assert_eq!(entries.len(), index.len());
    let mut builder = OffsetIndexBuilder::new(base);
    for (at, entry) in entries.iter().enumerate() {
        builder.append(entry.offset, entry.position).expect("it was read");
        assert_eq!(index.entry(at), Some(*entry));
        assert_eq!(index.lookup(entry.offset), *entry);
        assert!(entry.offset >= base && entry.position >= 0);
        assert!(index.lookup(entry.offset.saturating_sub(1)).position <= entry.position);
    }
    assert_eq!(builder.as_bytes(), &bytes[..entries.len() * OffsetIndex::ENTRY_SIZE]);
    let _ = (index.lookup(i64::MIN), index.lookup(i64::MAX), index.entry(usize::MAX), index.flaw());
    if entries.len() * OffsetIndex::ENTRY_SIZE == bytes.len() {
        assert_eq!(index.flaw(), None);
    }
}

fn times(bytes: &[u8], base: i64) {
    let index = TimeIndex::new(bytes, base);
    let entries: Vec<_> = index.iter().collect();
    let mut builder = TimeIndexBuilder::new(base);
    for (at, entry) in entries.iter().enumerate() {
        builder.append(entry.timestamp, entry.offset).expect("it was read");
        assert_eq!(index.entry(at), Some(*entry));
        assert_eq!(index.lookup(entry.timestamp), *entry);
    }
    assert_eq!(builder.as_bytes(), &bytes[..entries.len() * TimeIndex::ENTRY_SIZE]);
    let _ = (index.lookup(i64::MIN), index.lookup(i64::MAX), index.entry(usize::MAX), index.flaw());
}

fn aborted(bytes: &[u8], base: i64) {
    let index = TransactionIndex::new(bytes, base);
    let mut last = i64::MIN;
    let mut seen = 0;
    for (at, entry) in index.iter().enumerate() {
        let Ok(entry) = entry else {
            assert!(index.flaw().is_some());
            break;
        };
        let raw = &bytes[at * AbortedTxn::ENCODED_SIZE..][..AbortedTxn::ENCODED_SIZE];
        assert_eq!(entry.encode(), raw);
        assert!(entry.first_offset <= entry.last_offset && entry.last_offset > last);
        last = entry.last_offset;
        seen += 1;
    }
    assert!(seen <= index.len());
    if let Ok(found) = index.collect_aborted(base, base.saturating_add(1000)) {
        assert!(found.aborted.len() <= seen);
    }
}

fn epochs(bytes: &[u8], offset: i64) {
    let Ok(checkpoint) = LeaderEpochCheckpoint::parse(bytes) else { return };
    let again = LeaderEpochCheckpoint::parse(checkpoint.encode().as_bytes()).expect("it was written");
    assert_eq!(again, checkpoint);
    assert!(checkpoint.entries().len() <= bytes.len());
    for entry in checkpoint.entries() {
        assert!(checkpoint.epoch_for(entry.start_offset).is_some_and(|epoch| epoch >= entry.epoch));
        let (epoch, end) = checkpoint.end_offset(entry.epoch, i64::MAX).expect("a known epoch");
        assert!(epoch <= entry.epoch && end >= 0);
    }
    let _ = (checkpoint.epoch_for(offset), checkpoint.end_offset(offset as i32, offset));
}

fn producers(bytes: &[u8]) {
    let mut mended = bytes.to_vec();
    if mended.len() >= 6 {
        let crc = Checksum::Crc32C.of(&mended[6..]).to_be_bytes();
        mended[2..6].copy_from_slice(&crc);
    }
    let _ = ProducerSnapshot::parse(bytes);
    let Ok(snapshot) = ProducerSnapshot::parse(&mended) else { return };
    let written = snapshot.encode().expect("few enough");
    assert_eq!(written.len(), mended.len());
    assert_eq!(ProducerSnapshot::parse(&written).expect("it was written"), snapshot);
}

fn metadata(bytes: &[u8]) {
    let Ok(metadata) = PartitionMetadata::parse(bytes) else { return };
    let again = PartitionMetadata::parse(metadata.encode().as_bytes()).expect("it was written");
    assert_eq!(again, metadata);
}

fn names(bytes: &[u8]) {
    let name = String::from_utf8_lossy(bytes);
    match SegmentFile::parse(&name) {
        SegmentFile::Log { base_offset } => {
            assert_eq!(segment_file_name(base_offset, "log").as_deref(), Some(&*name));
        }
        SegmentFile::Checkpoint { end_offset, epoch } => {
            assert_eq!(snapshot_file_name(end_offset, epoch).as_deref(), Some(&*name));
        }
        _ => {}
    }
    if let Some(partition) = TopicPartition::parse(&name) {
        assert_eq!(partition.to_string(), name);
        assert!(is_topic_name(partition.topic) && partition.partition >= 0);
    }
    if is_topic_name(&name) {
        assert!(!name.contains(['/', '\\', '\0']) && name != ".." && name.len() <= 249);
    }
    if let DirName::Partition(partition) | DirName::LeftOut { partition, .. } = DirName::parse(&name) {
        assert!(name.starts_with(&partition.to_string()));
    }
}

/// A log and its indexes, all three from the same bytes.
fn together(bytes: &[u8], base: i64) {
    let Some((bytes, [a, b])) = control(bytes) else { return };
    let cut = |part: u8| bytes.len() * usize::from(part) / 255;
    let (first, second) = (cut(a.min(b)), cut(a.max(b)));
    let (log, index, txns) = (&bytes[..first], &bytes[first..second], &bytes[second..]);
    let options =
        Options { mode: Mode::Permissive, limits: LIMITS, preallocated: true, ..Options::default() };
    let mut verifier = Verifier::new(LIMITS);
    let beside = Beside { index: Some(index), time_index: Some(index), txn_index: Some(txns) };
    verifier.begin(Some(base), true, &beside);
    for item in Log::new(log, options) {
        match item {
            Ok(entry) => _ = verifier.entry(&entry),
            Err(damage) => verifier.damage(damage),
        }
    }
    verifier.end();
    verifier.finish();
    assert_eq!(verifier.ok() == Some(true), verifier.findings().errors() == 0 && verifier.records() > 0);
    let of = SegmentOf { base_offset: Some(base), index: Some(txns), last: true, ..SegmentOf::default() };
    let mut survey = Survey::new();
    let odd = survey.segment(log, options, of).expect("no I/O");
    assert!(odd.is_none_or(|odd| odd.count > 0));
    let known = survey.finish();
    assert!(known.spans() >= known.producers());
}
