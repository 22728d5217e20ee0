//! What the three index files share: fixed-size entries, a preallocated tail of zeros, bytes left over.

/// `N` bytes of a fixed-size entry at a constant offset.
pub(super) fn field<const N: usize, const M: usize>(entry: &[u8; M], at: usize) -> [u8; N] {
    std::array::from_fn(|i| entry[at + i])
}

/// The entries without the zeros that a preallocated file ends in.
///
/// A broker gives an active segment's index its full size (10 MiB) at once and cuts it when the segment rolls
/// or the broker stops. One lone entry is never padding: no file is preallocated that small, and a record of
/// timestamp 0 at the base offset makes such an entry.
pub(super) fn without_padding<const N: usize>(entries: &[[u8; N]]) -> &[[u8; N]] {
    if entries.len() <= 1 {
        return entries;
    }
    let used = entries.iter().rposition(|entry| *entry != [0; N]).map_or(0, |last| last + 1);
    &entries[..used]
}

/// Byte position of an entry in its file.
pub(super) const fn position_of(index: usize, entry_size: usize) -> u64 {
    index as u64 * entry_size as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn padding_is_the_zeros_at_the_end_only() {
        assert_eq!(without_padding::<2>(&[[0, 0], [0, 1], [0, 0], [0, 0]]), &[[0, 0], [0, 1]]);
        assert!(without_padding::<2>(&[[0, 0], [0, 0]]).is_empty());
        assert_eq!(without_padding::<2>(&[[0, 0]]), &[[0, 0]]);
        assert!(without_padding::<2>(&[]).is_empty());
    }
}
