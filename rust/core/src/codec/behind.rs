//! Whether bytes stand behind a compressed stream, which Kafka's readers pass over.

use super::Codec;

const LZ4_HEADER: usize = 7;
const LZ4_CONTENT_SIZE: u8 = 0x08;
const LZ4_CONTENT_CHECKSUM: u8 = 0x04;
const LZ4_BLOCK_CHECKSUM: u8 = 0x10;
const LZ4_STORED: u32 = 1 << 31;

impl Codec {
    /// Whether `input`, which decompresses to `output`, holds more than the one stream that Kafka's writer makes of it.
    /// (zstd and raw snappy are refused then, so there is nothing to tell.)
    #[must_use]
    pub fn has_bytes_behind(self, input: &[u8], output: &[u8]) -> bool {
        match self {
            Self::None | Self::Zstd => false,
            Self::Gzip => gzip(input, output),
            Self::Lz4 => lz4_end(input).is_some_and(|end| end != input.len()),
            Self::Snappy => snappy_left(input) != 0,
        }
    }
}

/// One member ends in the checksum and size of all output.
fn gzip(input: &[u8], output: &[u8]) -> bool {
    let mut trailer = [0; 8];
    trailer[..4].copy_from_slice(&libdeflater::crc32(output).to_le_bytes());
    trailer[4..].copy_from_slice(&(output.len() as u32).to_le_bytes());
    input.last_chunk() != Some(&trailer)
}

/// Where a frame that was read without an error ends.
fn lz4_end(input: &[u8]) -> Option<usize> {
    let flags = *input.get(4)?;
    let mut at = LZ4_HEADER + if flags & LZ4_CONTENT_SIZE != 0 { 8 } else { 0 };
    loop {
        let size = u32::from_le_bytes(*input.get(at..)?.first_chunk()?);
        at += 4;
        if size & !LZ4_STORED == 0 {
            return Some(at + if flags & LZ4_CONTENT_CHECKSUM != 0 { 4 } else { 0 });
        }
        at += (size & !LZ4_STORED) as usize + if flags & LZ4_BLOCK_CHECKSUM != 0 { 4 } else { 0 };
    }
}

/// Bytes at the end of xerial's framing, too few for a length.
fn snappy_left(input: &[u8]) -> usize {
    if input.len() < 16 || !input.starts_with(b"\x82SNAPPY\0") {
        return 0;
    }
    let mut rest = &input[16..];
    while let Some((length, tail)) = rest.split_first_chunk::<4>() {
        let skip = if *length == input[..4] { 12 } else { u32::from_be_bytes(*length) as usize };
        rest = tail.get(skip..).unwrap_or_default();
    }
    rest.len()
}

#[cfg(test)]
mod tests {
    use super::super::{Compressor, Lz4Checksum};
    use super::*;

    #[test]
    fn a_stream_by_itself_has_nothing_behind_it() {
        let data = b"one two three one two three".repeat(5000);
        for codec in [Codec::Gzip, Codec::Snappy, Codec::Lz4] {
            let mut out = Vec::new();
            Compressor::new()
                .compress(codec, Lz4Checksum::Standard, None, &data, &mut out)
                .expect("compresses");
            assert!(!codec.has_bytes_behind(&out, &data), "{codec:?}");
            out.extend_from_slice(&[7; 3]);
            assert!(codec.has_bytes_behind(&out, &data), "{codec:?}");
        }
    }
}
