//! Murmur3 with 128 bits, as Java's `Murmur3.hash128` computes it.

const SEED: u64 = 104_729;
const C1: u64 = 0x87c3_7b91_1142_53d5;
const C2: u64 = 0x4cf5_ad43_2745_937f;

/// The hash of a value, as it stands in messages: two 64-bit words, big-endian.
pub(super) type Hash = [u8; 16];

/// Hashes bytes.
pub(super) fn hash128(bytes: &[u8]) -> Hash {
    let (mut h1, mut h2) = (SEED, SEED);
    let (blocks, tail) = bytes.as_chunks::<16>();
    for block in blocks {
        let (low, high) = block.split_at(8);
        h1 ^= mix1(word(low));
        h1 = h1.rotate_left(27).wrapping_add(h2).wrapping_mul(5).wrapping_add(0x52dc_e729);
        h2 ^= mix2(word(high));
        h2 = h2.rotate_left(31).wrapping_add(h1).wrapping_mul(5).wrapping_add(0x3849_5ab5);
    }
    let (low, high) = tail.split_at(tail.len().min(8));
    h2 ^= mix2(word(high));
    h1 ^= mix1(word(low));
    h1 ^= bytes.len() as u64;
    h2 ^= bytes.len() as u64;
    h1 = h1.wrapping_add(h2);
    h2 = h2.wrapping_add(h1);
    (h1, h2) = (finish(h1), finish(h2));
    h1 = h1.wrapping_add(h2);
    h2 = h2.wrapping_add(h1);
    (u128::from(h1) << 64 | u128::from(h2)).to_be_bytes()
}

/// Up to eight bytes as a little-endian number.
fn word(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte))
}

fn mix1(k: u64) -> u64 {
    k.wrapping_mul(C1).rotate_left(31).wrapping_mul(C2)
}

fn mix2(k: u64) -> u64 {
    k.wrapping_mul(C2).rotate_left(33).wrapping_mul(C1)
}

fn finish(mut k: u64) -> u64 {
    k = (k ^ k >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    k = (k ^ k >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    k ^ k >> 33
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What Java's `Murmur3.hash128` gives for the bytes 200, 237, 18, ... of each length.
    #[test]
    fn hashes_are_javas() {
        for (length, expected) in [
            (0, "9d2764a018e329428c3cf3b035938518"),
            (1, "bff2166f25d4e3caad76f90042c32eb7"),
            (3, "b02c9dcb0b188cb7261d276514956649"),
            (7, "e2c12aaa37615c8d78e8fff449acd2e3"),
            (8, "5376fe5d8752a4802bcfb922970c534c"),
            (9, "b79cc91e67eb164f7285936d18b5c4c8"),
            (15, "8541440932df88a8133781906f758397"),
            (16, "3b1ca826ba2a8ab100ff368af7e15570"),
            (17, "14606ec89b0c68c720e38f08a941bbdf"),
            (31, "0fc8bff6b4d635a2db8b6c0ce90a3cd8"),
            (32, "271fc7adca25c66d69f499a2c53fd088"),
            (40, "d4f6fce6a5fe8f2ffa444778553710c8"),
        ] {
            let bytes: Vec<u8> = (0..length).map(|i| (i * 37 + 200) as u8).collect();
            let hash: String = hash128(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(hash, expected, "{length} bytes");
        }
    }
}
