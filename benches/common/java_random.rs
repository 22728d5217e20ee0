//! `java.util.SplittableRandom`, so that the files are the same bytes as those that a Java program builds with
//! Kafka's own writer from the same seed.

/// The generator of Java 8 and later, with its fixed gamma.
pub(crate) struct JavaRandom {
    seed: u64,
}

const GOLDEN_GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

impl JavaRandom {
    pub(crate) const fn new(seed: u64) -> Self {
        Self { seed }
    }

    const fn next_seed(&mut self) -> u64 {
        self.seed = self.seed.wrapping_add(GOLDEN_GAMMA);
        self.seed
    }

    /// `nextLong()`.
    pub(crate) const fn next_long(&mut self) -> i64 {
        let z = self.next_seed();
        let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) as i64
    }

    const fn next_int(&mut self) -> u32 {
        let z = self.next_seed();
        let z = (z ^ (z >> 33)).wrapping_mul(0x62a9_d9ed_7997_05f5);
        ((z ^ (z >> 28)).wrapping_mul(0xcb24_d0a5_c88c_35b3) >> 32) as u32
    }

    /// `nextInt(bound)`.
    pub(crate) const fn below(&mut self, bound: u32) -> u32 {
        let first = self.next_int();
        if bound.is_power_of_two() {
            return first & (bound - 1);
        }
        let mut candidate = first >> 1;
        loop {
            let value = candidate % bound;
            // Java's int overflow turns away the candidates of the last, incomplete run.
            if candidate + (bound - 1) - value <= i32::MAX as u32 {
                return value;
            }
            candidate = self.next_int() >> 1;
        }
    }
}
