//! Variable-length integers, zigzag encoded, as Java's `ByteUtils` writes them.

/// Appends an integer.
pub(crate) fn write(value: i32, out: &mut Vec<u8>) {
    let mut raw = ((value << 1) ^ (value >> 31)) as u32;
    while raw >= 0x80 {
        out.push(raw as u8 | 0x80);
        raw >>= 7;
    }
    out.push(raw as u8);
}

/// Reads an integer from the beginning; gives the bytes behind it as well.
pub(crate) fn read(bytes: &[u8]) -> Option<(i32, &[u8])> {
    let mut raw = 0u32;
    for (place, byte) in bytes.iter().enumerate().take(5) {
        raw |= u32::from(byte & 0x7f) << (7 * place);
        if byte & 0x80 == 0 {
            let value = (raw >> 1) as i32 ^ -((raw & 1) as i32);
            return Some((value, &bytes[place + 1..]));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_come_back() {
        for value in [0, 1, -1, 63, 64, 300, i32::MAX, i32::MIN] {
            let mut bytes = Vec::new();
            write(value, &mut bytes);
            bytes.push(7);
            assert_eq!(read(&bytes), Some((value, &[7][..])));
        }
        let mut bytes = Vec::new();
        write(300, &mut bytes);
        assert_eq!(bytes, [0xd8, 0x04]);
        assert_eq!(read(&[0x80]), None);
    }
}
