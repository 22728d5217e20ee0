//! What a conversion left behind, counted.

/// What the target format could not carry, or what the caller asked to turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dropped {
    /// Headers.
    pub headers: u64,
    /// Timestamps other than −1, of records.
    pub timestamps: u64,
    /// Batches whose producer id, epoch and sequence are gone.
    pub producer_state: u64,
    /// Records of transactions, which are told from others no more.
    pub transactional: u64,
    /// Control batches left out.
    pub control_batches: u64,
    /// Batches without records left out.
    pub empty_batches: u64,
    /// Delete horizons of batches (KIP-534).
    pub delete_horizons: u64,
    /// Values of KIP-87 tombstones, which turned null.
    pub tombstone_values: u64,
    /// Live records with a null value, which turned into deletes on the caller's word.
    pub null_values: u64,
}

impl Dropped {
    /// Names and counts, zeros included.
    #[must_use]
    pub const fn counts(&self) -> [(&'static str, u64); 9] {
        [
            ("headers", self.headers),
            ("timestamps", self.timestamps),
            ("producer_state", self.producer_state),
            ("transactional", self.transactional),
            ("control_batches", self.control_batches),
            ("empty_batches", self.empty_batches),
            ("delete_horizons", self.delete_horizons),
            ("tombstone_values", self.tombstone_values),
            ("null_values", self.null_values),
        ]
    }

    /// Whether nothing was lost.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}
