//! What waits for the other side of a stream-stream join: keys are `timestamp (8) ‖ is left (1) ‖ key`, values are lists
//! `0x01 ‖ count (4) ‖ (length (4) ‖ element)*`, and an element is `is left (1) ‖ value`.

const LIST: u8 = 1;

/// Appends the key.
pub(in crate::state) fn write_key(timestamp: i64, is_left: bool, key: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&timestamp.to_be_bytes());
    out.push(u8::from(is_left));
    out.extend_from_slice(key);
}

/// Timestamp, side and key.
pub(in crate::state) fn split_key(bytes: &[u8]) -> Option<(i64, bool, &[u8])> {
    let (timestamp, rest) = bytes.split_first_chunk()?;
    let (is_left, key) = rest.split_first()?;
    Some((i64::from_be_bytes(*timestamp), *is_left != 0, key))
}

/// Appends to `out` the list `old`, if there is one, and behind it the element of `value`.
pub(in crate::state) fn write_appended(
    old: Option<&[u8]>,
    is_left: bool,
    value: &[u8],
    out: &mut Vec<u8>,
) {
    let (count, elements) = old.and_then(split_count).unwrap_or_default();
    out.push(LIST);
    out.extend_from_slice(&(count + 1).to_be_bytes());
    out.extend_from_slice(elements);
    out.extend_from_slice(&(value.len() as u32 + 1).to_be_bytes());
    out.push(u8::from(is_left));
    out.extend_from_slice(value);
}

/// The number of elements of a list.
pub(in crate::state) fn count(list: &[u8]) -> usize {
    split_count(list).map_or(0, |(count, _)| count as usize)
}

/// The number of elements, and their bytes.
fn split_count(list: &[u8]) -> Option<(u32, &[u8])> {
    let (&LIST, rest) = list.split_first()? else { return None };
    let (count, elements) = rest.split_first_chunk()?;
    Some((u32::from_be_bytes(*count), elements))
}

/// The elements of a list in the order in which they were appended: side and value. It ends early when the bytes are damaged;
/// `None` when they are no list.
pub(in crate::state) fn elements(list: &[u8]) -> Option<impl Iterator<Item = (bool, &[u8])>> {
    let (_, mut rest) = split_count(list)?;
    Some(std::iter::from_fn(move || {
        let (length, tail) = rest.split_first_chunk()?;
        let (element, tail) = tail.split_at_checked(u32::from_be_bytes(*length) as usize)?;
        rest = tail;
        let (is_left, value) = element.split_first()?;
        Some((*is_left != 0, value))
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// The bytes that Java's changelog has after `1` from the left and `late` from the right.
    #[test]
    fn bytes_are_javas() {
        let mut key = Vec::new();
        write_key(10, true, b"k", &mut key);
        assert_eq!(hex(&key), "000000000000000a016b");
        assert_eq!(split_key(&key), Some((10, true, &b"k"[..])));
        let mut one = Vec::new();
        write_appended(None, true, b"1", &mut one);
        assert_eq!(hex(&one), "0100000001000000020131");
        let mut two = Vec::new();
        write_appended(Some(&one), false, b"late", &mut two);
        assert_eq!(hex(&two), "010000000200000002013100000005006c617465");
        let read: Vec<_> = elements(&two).expect("a list").collect();
        assert_eq!(read, [(true, &b"1"[..]), (false, b"late")]);
        assert!(elements(b"").is_none() && elements(&[0, 0, 0, 0, 1]).is_none());
        assert_eq!(elements(&two[..14]).expect("a list").count(), 1);
    }
}
