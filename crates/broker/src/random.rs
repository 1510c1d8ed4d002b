//! The broker's only source of randomness: topic, member and cluster ids come from it, so a seed
//! fixes them all. It is for names that must differ, not for secrets.

use uuid::Uuid;

/// A splitmix64 generator.
#[derive(Debug)]
pub(crate) struct Random {
    state: u64,
}

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A version 4 UUID.
    pub(crate) fn uuid(&mut self) -> Uuid {
        let high = u128::from(self.next());
        let low = u128::from(self.next());
        uuid::Builder::from_random_bytes(((high << 64) | low).to_be_bytes()).into_uuid()
    }
}

/// A UUID as Kafka prints it: 22 characters of URL-safe base64.
pub(crate) fn kafka_uuid(id: Uuid) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let bits = u128::from_be_bytes(*id.as_bytes());
    let digit = |i: u32| {
        // 22 digits carry 132 bits: the last one has four zero bits behind the id's last two.
        let index = if i == 21 { (bits & 0b11) << 4 } else { (bits >> (122 - 6 * i)) & 0b11_1111 };
        char::from(DIGITS[usize::try_from(index).unwrap_or(0)])
    };
    (0..22).map(digit).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_fixes_the_ids() {
        assert_eq!(Random::new(7).uuid(), Random::new(7).uuid());
        assert_ne!(Random::new(7).uuid(), Random::new(8).uuid());
    }

    #[test]
    fn ids_print_as_java_prints_them() {
        // org.apache.kafka.common.Uuid(1, 2).toString()
        let id = Uuid::from_u64_pair(1, 2);
        assert_eq!(kafka_uuid(id), "AAAAAAAAAAEAAAAAAAAAAg");
        assert_eq!(kafka_uuid(Uuid::nil()), "AAAAAAAAAAAAAAAAAAAAAA");
    }
}
