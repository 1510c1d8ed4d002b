//! Chance that a seed fixes.

/// A small generator of noise: the same for the same seed.
pub(crate) struct Noise(pub(crate) u64);

impl Noise {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound.max(1) as u64) as usize
    }

    /// One of `examples` with some damage, or noise alone. Small numbers make lengths and counts that fit more often
    /// than not.
    pub(crate) fn bytes(&mut self, examples: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = examples[self.below(examples.len())].clone();
        if self.below(8) == 0 {
            bytes = vec![0; self.below(300)];
            bytes.iter_mut().for_each(|byte| *byte = self.byte());
        }
        for _ in 0..=self.below(4) {
            let at = self.below(bytes.len());
            match self.below(5) {
                _ if bytes.is_empty() => bytes.push(self.byte()),
                0 => bytes.truncate(at),
                1 => bytes.insert(at, self.byte()),
                2 => drop(bytes.remove(at)),
                3 => bytes[at] = self.byte(),
                _ => bytes[at] ^= 1 << self.below(8),
            }
        }
        bytes
    }

    fn byte(&mut self) -> u8 {
        let bound = if self.below(3) > 0 { 4 } else { 256 };
        self.below(bound) as u8
    }
}
