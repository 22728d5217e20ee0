//! The two checksums of Kafka's formats, computed with SIMD by crc-fast.

/// Which CRC an entry carries. Both cover everything from a fixed field to the end of the entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checksum {
    /// CRC-32 (IEEE), message sets: from `magic` to the end of the message.
    Crc32,
    /// CRC-32C (Castagnoli), record batches: from `attributes` to the end of the batch (KIP-98).
    Crc32C,
}

impl Checksum {
    /// The checksum of `bytes`.
    #[inline]
    #[must_use]
    pub fn of(self, bytes: &[u8]) -> u32 {
        match self {
            Self::Crc32 => crc_fast::crc32_iso_hdlc(bytes),
            Self::Crc32C => crc_fast::crc32_iscsi(bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The check values of the CRC catalogue for "123456789".
    #[test]
    fn check_values() {
        assert_eq!(Checksum::Crc32.of(b"123456789"), 0xcbf4_3926);
        assert_eq!(Checksum::Crc32C.of(b"123456789"), 0xe306_9283);
    }
}
