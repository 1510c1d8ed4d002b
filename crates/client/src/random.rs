//! Pseudo-random numbers from a seed (SplitMix64): member ids and the spread of retries.

use std::time::Duration;

#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// `duration`, up to a fifth longer or shorter.
    pub(crate) fn around(&mut self, duration: Duration) -> Duration {
        duration * (800 + (self.next() % 401) as u32) / 1000
    }

    /// A random id in the form of Kafka's: URL-safe base 64 of a version 4 UUID.
    pub(crate) fn kafka_uuid(&mut self) -> String {
        const DIGITS: &[u8; 64] =
            b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
        let mut uuid = (u128::from(self.next()) << 64) | u128::from(self.next());
        uuid = uuid & !(0xf << 76) | (0x4 << 76);
        uuid = uuid & !(0x3 << 62) | (0x2 << 62);
        // 22 digits of 6 bits hold 132 bits: the last four are zero.
        let digit = |at: u32| match at {
            21 => (uuid << 4) as usize & 63,
            _ => (uuid >> (122 - 6 * at)) as usize & 63,
        };
        (0..22).map(|at| char::from(DIGITS[digit(at)])).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_look_like_kafkas_and_differ() {
        let mut random = Random::new(1);
        let (one, two) = (random.kafka_uuid(), random.kafka_uuid());
        assert_eq!(one.len(), 22);
        assert!(one.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_'));
        assert_ne!(one, two);
        assert_eq!(Random::new(1).kafka_uuid(), one);
        // The last digit carries two bits only.
        assert!(one.ends_with(['A', 'Q', 'g', 'w']));
    }

    #[test]
    fn spread_stays_near() {
        let mut random = Random::new(3);
        for _ in 0..100 {
            let spread = random.around(Duration::from_millis(1000)).as_millis();
            assert!((800..=1200).contains(&spread), "{spread}");
        }
    }
}
