//! Java's hash maps, where the order in which they list their entries is seen from outside.

/// One pass through a `java.util.HashMap` filled in that order with entries of these hashes, grown as Java grows it.
pub(super) fn buckets(hashes: &[u32], order: &[usize]) -> Vec<usize> {
    let mut capacity = 16;
    while order.len() * 4 > capacity * 3 {
        capacity *= 2;
    }
    let mut listed = order.to_vec();
    listed.sort_by_key(|&place| {
        let hash = hashes[place];
        (hash ^ (hash >> 16)) as usize & (capacity - 1)
    });
    listed
}

/// `String.hashCode()`.
pub(super) fn java_hash(text: &str) -> u32 {
    text.encode_utf16().fold(0u32, |hash, unit| hash.wrapping_mul(31).wrapping_add(unit.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_come_out_by_bucket_and_then_as_they_went_in() {
        assert_eq!(java_hash("hello"), 99_162_322);
        let hashes = [17, 1, 0x1_0000, 3];
        assert_eq!(buckets(&hashes, &[0, 1, 2, 3]), [0, 1, 2, 3]);
        assert_eq!(buckets(&hashes, &[3, 2, 1, 0]), [2, 1, 0, 3]);
    }
}
