//! The order of keys, for many at once: before a commit and while restoring.

/// Sorts places by the keys that lie there. Eight bytes of each key decide, those behind what all keys begin with; the keys
/// themselves, which lie all over the memory, are compared only where these are equal.
pub(super) fn sort_by_key<'a, P: Copy>(places: &mut Vec<P>, key: impl Fn(P) -> &'a [u8]) {
    let Some(first) = places.first().map(|&place| key(place)) else { return };
    let common = places.iter().fold(first.len(), |common, &p| shared(&first[..common], key(p)));
    let order = places.iter().map(|&place| (number(&key(place)[common..]), place));
    let mut order: Vec<(u64, P)> = order.collect();
    order.sort_unstable_by(|&(a, a_place), &(b, b_place)| {
        a.cmp(&b).then_with(|| key(a_place).cmp(key(b_place)))
    });
    places.clear();
    places.extend(order.into_iter().map(|(_, place)| place));
}

/// How many bytes both begin with.
fn shared(prefix: &[u8], key: &[u8]) -> usize {
    if key.starts_with(prefix) {
        return prefix.len();
    }
    prefix.iter().zip(key).take_while(|(a, b)| a == b).count()
}

/// The first eight bytes as a number of the same order; what is missing counts as zero.
fn number(key: &[u8]) -> u64 {
    match key.first_chunk() {
        Some(first) => u64::from_be_bytes(*first),
        None => key.iter().rev().fold(0, |number, &byte| number >> 8 | u64::from(byte) << 56),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The eight bytes that decide most comparisons never decide one wrongly.
    #[test]
    fn keys_are_in_the_order_of_all_their_bytes() {
        let ends: [&[u8]; 9] =
            [b"", b"\0", b"\0\0", b"\x01", b"a", b"a\0", b"ab", b"\xff", b"\xff\xff"];
        let mut endings: Vec<Vec<u8>> = ends.iter().map(|end| end.to_vec()).collect();
        endings.extend(ends.iter().map(|end| [&b"abcdefgh"[..], end].concat()));
        for common in ["", "x", "a common beginning"] {
            let mut expected: Vec<Vec<u8>> =
                endings.iter().map(|end| [common.as_bytes(), end].concat()).collect();
            let mut sorted: Vec<&[u8]> = expected.iter().rev().map(|key| &key[..]).collect();
            sort_by_key(&mut sorted, |key| key);
            let sorted: Vec<Vec<u8>> = sorted.into_iter().map(<[u8]>::to_vec).collect();
            expected.sort();
            assert_eq!(sorted, expected);
        }
    }

    #[test]
    fn nothing_is_in_order() {
        let mut none: Vec<&[u8]> = Vec::new();
        sort_by_key(&mut none, |key| key);
        assert!(none.is_empty());
    }
}
