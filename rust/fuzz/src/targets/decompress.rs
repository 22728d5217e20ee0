//! Every codec on any bytes: output never over the limit, the same each time, and what another library says.

use std::io::Read;

use magicbyte::error::Flaw;
use magicbyte::{Buffer, Codec, Compressor, Decompressor, Lz4Checksum};

use super::control;

/// Far over what an input of a few KB usually holds, and little enough to be made often.
const MOST: usize = 1 << 20;
const CHECKSUMS: [Lz4Checksum; 3] = [Lz4Checksum::Standard, Lz4Checksum::Lenient, Lz4Checksum::Legacy];

/// See the module.
pub fn run(data: &[u8]) {
    let Some((input, [choice, size])) = control(data) else { return };
    let codec = Codec::ALL[usize::from(choice & 7) % Codec::ALL.len()];
    let lz4 = CHECKSUMS[usize::from(choice >> 3) % CHECKSUMS.len()];
    // 0 to a few hundred bytes, or a few KB.
    let small = usize::from(size) * if choice & 0x80 == 0 { 1 } else { 37 };
    let mut decompressor = Decompressor::new();
    let whole = attempt(&mut decompressor, codec, lz4, input, MOST);
    let bounded = attempt(&mut decompressor, codec, lz4, input, small);
    let again = attempt(&mut decompressor, codec, lz4, input, MOST);
    assert_eq!(whole, again, "a kept context made a difference");
    assert!(whole.0.starts_with(&bounded.0), "a lower limit gave other bytes");
    match bounded.1 {
        Ok(()) => assert_eq!(whole, bounded),
        Err(Flaw::Limit { what, limit }) => {
            assert_eq!((what, limit), ("decompressed", small as u64));
            // What says that it is larger is not looked into: there may be another defect.
            assert!(
                whole.0.len() > small || whole.1.is_err(),
                "{} bytes were no more than {small}",
                whole.0.len()
            );
        }
        Err(flaw) => assert_eq!((whole.0.len(), whole.1), (bounded.0.len(), Err(flaw))),
    }
    oracle(codec, lz4, input, &whole);
    there_and_back(&mut decompressor, codec, input, usize::from(size));
}

type Outcome = (Vec<u8>, Result<(), Flaw>);

fn attempt(
    decompressor: &mut Decompressor,
    codec: Codec,
    lz4: Lz4Checksum,
    input: &[u8],
    limit: usize,
) -> Outcome {
    let mut out = Buffer::new();
    let done = decompressor.decompress(codec, lz4, input, limit, &mut out);
    assert!(out.len() <= limit, "{} bytes over a limit of {limit}", out.len());
    assert!(out.capacity() <= limit.max(64), "{} bytes of memory for {limit}", out.capacity());
    (out.as_slice().to_vec(), done)
}

/// What another implementation makes of it.
fn oracle(codec: Codec, lz4: Lz4Checksum, input: &[u8], have: &Outcome) {
    let mut want = Vec::new();
    let most = MOST as u64 + 1;
    let sound = match codec {
        Codec::Gzip => flate2::bufread::MultiGzDecoder::new(input).take(most).read_to_end(&mut want).is_ok(),
        Codec::Snappy if !input.starts_with(b"\x82SNAPPY\0") => match snap::raw::decompress_len(input) {
            Ok(0..=MOST) => match snap::raw::Decoder::new().decompress_vec(input) {
                Ok(bytes) => {
                    want = bytes;
                    true
                }
                Err(_) => false,
            },
            Ok(_) | Err(_) => false,
        },
        Codec::Lz4 if lz4 == Lz4Checksum::Standard => match lz4::Decoder::new(input) {
            Ok(decoder) => decoder.take(most).read_to_end(&mut want).is_ok(),
            Err(_) => false,
        },
        _ => return,
    };
    if sound && have.1.is_ok() && want.len() <= MOST {
        assert!(want == have.0, "{codec:?}: {} bytes, another library has {}", have.0.len(), want.len());
    }
    // Nothing that reads whole elsewhere is refused, but for what Kafka refuses: linked lz4 blocks, and gzip members
    // of reserved flags.
    if sound && matches!(codec, Codec::Snappy) {
        assert_eq!(have.1, Ok(()), "another library reads it");
    }
}

/// What was compressed comes back, within a limit of its own size.
fn there_and_back(decompressor: &mut Decompressor, codec: Codec, input: &[u8], level: usize) {
    let mut compressor = Compressor::new();
    for checksum in CHECKSUMS {
        let mut packed = Vec::new();
        let level = codec.levels().map(|levels| (*levels.start()).max(-20) + (level % 12) as i32);
        compressor.compress(codec, checksum, level, input, &mut packed).expect("compresses");
        let read_as = if checksum == Lz4Checksum::Legacy { Lz4Checksum::Lenient } else { checksum };
        let (back, done) = attempt(decompressor, codec, read_as, &packed, input.len());
        assert_eq!((back == input, done), (true, Ok(())), "{codec:?} {checksum:?}");
        if codec != Codec::Lz4 {
            break;
        }
    }
}
