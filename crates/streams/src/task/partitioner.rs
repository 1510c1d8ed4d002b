//! Java's default partitioner, so that equal keys meet in equal partitions whoever wrote them.

/// The partition of a key among `partitions`: murmur2 of its bytes, sign bit cleared, modulo.
pub fn partition_for_key(key: &[u8], partitions: i32) -> i32 {
    (murmur2(key) & i32::MAX) % partitions
}

/// Kafka's 32-bit murmur2.
pub fn murmur2(bytes: &[u8]) -> i32 {
    const SEED: u32 = 0x9747_b28c;
    const M: u32 = 0x5bd1_e995;
    const R: u32 = 24;
    let mut hash = SEED ^ bytes.len() as u32;
    let mut words = bytes.chunks_exact(4);
    for word in &mut words {
        let mut k = u32::from_le_bytes([word[0], word[1], word[2], word[3]]).wrapping_mul(M);
        k ^= k >> R;
        hash = hash.wrapping_mul(M) ^ k.wrapping_mul(M);
    }
    let rest = words.remainder();
    if !rest.is_empty() {
        let tail = rest.iter().rev().fold(0u32, |tail, &byte| tail << 8 | u32::from(byte));
        hash = (hash ^ tail).wrapping_mul(M);
    }
    hash = (hash ^ hash >> 13).wrapping_mul(M);
    (hash ^ hash >> 15) as i32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// P46: Java's hash and partition for known keys.
    #[test]
    fn p46_keys_land_where_java_puts_them() {
        for (key, hash) in [
            ("21", -973_932_308),
            ("foobar", -790_332_482),
            ("abc", 479_470_107),
            ("a", -1_563_381_124),
            ("", 275_646_681),
        ] {
            assert_eq!(murmur2(key.as_bytes()), hash, "{key}");
        }
        for (key, partition) in [
            ("21", 0),
            ("foobar", 0),
            ("abc", 0),
            ("a", 1),
            ("b", 2),
            ("k1", 2),
            ("k2", 0),
            ("user-1", 2),
            ("acct-42", 0),
        ] {
            assert_eq!(partition_for_key(key.as_bytes(), 3), partition, "{key}");
        }
    }
}
