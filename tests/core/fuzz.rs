//! The fuzz targets on stable Rust: over the committed corpus as it is, then over mutations of it for a second each
//! (`MAGICBYTE_FUZZ_SECONDS`). `make fuzz` is the real thing; this keeps every finding found.

use std::io::Read;
use std::path::Path;
use std::time::{Duration, Instant};

#[allow(unreachable_pub, reason = "the fuzz crate shows them")]
#[path = "../../rust/fuzz/src/targets/mod.rs"]
mod targets;

/// What is kept of the corpus, and every finding.
fn seeds(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("rust/fuzz");
    let packed =
        std::fs::read(folder.join("seeds").join(target).with_extension("gz")).expect("the packed corpus");
    let mut unpacked = Vec::new();
    flate2::bufread::GzDecoder::new(&packed[..]).read_to_end(&mut unpacked).expect("gzip");
    let (mut all, mut rest) = (Vec::new(), &unpacked[..]);
    while let Some((length, tail)) = rest.split_first_chunk() {
        let (input, tail) = tail.split_at(usize::from(u16::from_be_bytes(*length)));
        all.push(input.to_vec());
        rest = tail;
    }
    let findings = std::fs::read_dir(folder.join("findings").join(target));
    let findings = findings.into_iter().flatten().map(|entry| entry.expect("readable").path());
    all.extend(findings.map(|path| std::fs::read(path).expect("readable")));
    all
}

/// A small generator of numbers (xorshift64): the same inputs each time.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound.max(1) as u64) as usize
    }
}

/// Changes an input in a few places, the way libFuzzer does.
fn mutate(input: &mut Vec<u8>, other: &[u8], numbers: &mut Numbers) {
    const BYTES: [u8; 9] = [0, 1, 2, 3, 0x7f, 0x80, 0xfe, 0xff, 0x0f];
    for _ in 0..=numbers.below(4) {
        let at = numbers.below(input.len());
        let to = (at + 1 + numbers.below(16)).min(input.len());
        match numbers.below(7) {
            0 if !input.is_empty() => input[at] ^= 1 << numbers.below(8),
            1 if !input.is_empty() => input[at] = BYTES[numbers.below(BYTES.len())],
            2 if !input.is_empty() => input[at..to].fill(BYTES[numbers.below(BYTES.len())]),
            3 => drop(input.drain(at..to)),
            4 => {
                let copy = input[at..to].to_vec();
                input.splice(at..at, copy);
            }
            5 => {
                let from = numbers.below(other.len());
                let part = &other[from..(from + numbers.below(200)).min(other.len())];
                input.splice(at..to, part.iter().copied());
            }
            _ => input.truncate(at.max(12)),
        }
    }
    input.truncate(4096);
}

fn run(name: &str, input: &[u8]) {
    let (_, target) = targets::ALL.into_iter().find(|(known, _)| *known == name).expect("a target");
    if std::panic::catch_unwind(|| target(input)).is_err() {
        let hex: String = input.iter().map(|byte| format!("{byte:02x}")).collect();
        panic!("{name} fails on {hex}");
    }
}

fn fuzz(name: &str) {
    let seeds = seeds(name);
    assert!(!seeds.is_empty(), "no corpus for {name}");
    for seed in &seeds {
        run(name, seed);
    }
    let seconds = std::env::var("MAGICBYTE_FUZZ_SECONDS").ok().and_then(|text| text.parse().ok());
    let end = Instant::now() + Duration::from_secs(seconds.unwrap_or(1));
    let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
    let mut mutated = 0_u64;
    while Instant::now() < end {
        let mut input = seeds[numbers.below(seeds.len())].clone();
        let other = numbers.below(seeds.len());
        mutate(&mut input, &seeds[other], &mut numbers);
        run(name, &input);
        mutated += 1;
    }
    println!("{name}: {} inputs of the corpus, {mutated} mutated", seeds.len());
}

#[test]
fn log() {
    fuzz("log");
}

#[test]
fn formats() {
    fuzz("formats");
}

#[test]
fn decompress() {
    fuzz("decompress");
}

#[test]
fn beside() {
    fuzz("beside");
}

#[test]
fn roundtrip() {
    fuzz("roundtrip");
}
