//! Keys, and what is best of each, in a table of bounded size.
//!
//! A slot holds 16 bytes of hash instead of the key, as in Kafka's cleaner. Kafka takes MD5; here it is SipHash under
//! two secret keys that are drawn anew for each table: nobody can make two keys that pass for one.

use std::hash::{BuildHasher, RandomState};

/// A record's rank among those of its key: version first, then offset. The highest one wins.
pub(super) type Rank = (i64, i64);

#[derive(Clone, Copy)]
struct Slot {
    hash: (u64, u64),
    offset: i64,
}

const FREE: Slot = Slot { hash: (0, 0), offset: i64::MIN };

/// Kafka's `log.cleaner.io.buffer.load.factor`, in percent.
const FULL: u64 = 90;
const SLOT: usize = std::mem::size_of::<Slot>();

/// Open addressing; never grows.
pub(super) struct Keys {
    slots: Vec<Slot>,
    /// Beside the slots, only where ranks have versions.
    versions: Vec<i64>,
    len: usize,
    most: usize,
    hashers: (RandomState, RandomState),
}

impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keys").field("len", &self.len).field("most", &self.most).finish_non_exhaustive()
    }
}

impl Keys {
    /// A table within `memory` bytes (at least a slot for one key), no larger than `expected` keys need.
    pub(super) fn new(memory: usize, expected: u64, versioned: bool) -> Self {
        let slot = if versioned { SLOT + size_of::<i64>() } else { SLOT };
        let wanted = expected.saturating_mul(100) / FULL + 2;
        let slots = usize::try_from(wanted).unwrap_or(usize::MAX).min((memory / slot).max(2));
        let most = (slots as u64 * FULL / 100).max(1) as usize;
        Self {
            slots: vec![FREE; slots],
            versions: if versioned { vec![0; slots] } else { Vec::new() },
            len: 0,
            most,
            hashers: (RandomState::new(), RandomState::new()),
        }
    }

    pub(super) const fn len(&self) -> usize {
        self.len
    }

    pub(super) fn clear(&mut self) {
        self.slots.fill(FREE);
        self.len = 0;
    }

    /// The key's slot, or the free one where it belongs. The table is never full, so there is one.
    fn find(&self, key: &[u8]) -> (usize, (u64, u64)) {
        let hash = (self.hashers.0.hash_one(key), self.hashers.1.hash_one(key));
        // The high half of a product spreads the hash over any number of slots.
        let mut at = ((u128::from(hash.0) * self.slots.len() as u128) >> 64) as usize;
        loop {
            let slot = &self.slots[at];
            if slot.offset == FREE.offset || slot.hash == hash {
                return (at, hash);
            }
            at += 1;
            if at == self.slots.len() {
                at = 0;
            }
        }
    }

    fn rank(&self, at: usize) -> Option<Rank> {
        let offset = self.slots[at].offset;
        (offset != FREE.offset).then(|| (self.versions.get(at).copied().unwrap_or(0), offset))
    }

    pub(super) fn get(&self, key: &[u8]) -> Option<Rank> {
        self.rank(self.find(key).0)
    }

    /// Takes a key's rank in, if it is higher than what is there. False: the table has no room for another key.
    pub(super) fn put(&mut self, key: &[u8], rank: Rank) -> bool {
        let (at, hash) = self.find(key);
        match self.rank(at) {
            None if self.len == self.most => return false,
            None => self.len += 1,
            Some(there) if there >= rank => return true,
            Some(_) => {}
        }
        self.slots[at] = Slot { hash, offset: rank.1 };
        if let Some(version) = self.versions.get_mut(at) {
            *version = rank.0;
        }
        true
    }
}
