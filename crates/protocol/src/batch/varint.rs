//! Variable-length integers, zigzag encoded, as they stand inside records.

use super::BatchError;

/// Appends `value` to `out`, which must have room for ten bytes from `at`; gives the end.
#[inline]
pub(super) fn put(out: &mut [u8], mut at: usize, value: i64) -> usize {
    let mut raw = zigzag(value);
    while raw >= 0x80 {
        out[at] = raw as u8 | 0x80;
        raw >>= 7;
        at += 1;
    }
    out[at] = raw as u8;
    at + 1
}

/// Bytes that `value` takes.
#[inline]
pub(super) fn width(value: i64) -> usize {
    (70 - (zigzag(value) | 1).leading_zeros() as usize) / 7
}

/// Reads a 64-bit integer at `at` and moves `at` behind it.
#[inline]
pub(super) fn long(bytes: &[u8], at: &mut usize) -> Result<i64, BatchError> {
    let first = *bytes.get(*at).ok_or(CUT)?;
    if first < 0x80 {
        *at += 1;
        return Ok(unzigzag(u64::from(first)));
    }
    let mut raw = u64::from(first & 0x7f);
    let mut shift = 7;
    let mut end = *at + 1;
    loop {
        let byte = *bytes.get(end).ok_or(CUT)?;
        end += 1;
        if shift == 63 && byte > 1 {
            return Err(BatchError::Malformed("a variable-length integer has more than 64 bits"));
        }
        raw |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            *at = end;
            return Ok(unzigzag(raw));
        }
        shift += 7;
    }
}

/// Reads a 32-bit integer at `at` and moves `at` behind it.
#[inline]
pub(super) fn int(bytes: &[u8], at: &mut usize) -> Result<i32, BatchError> {
    i32::try_from(long(bytes, at)?)
        .map_err(|_| BatchError::Malformed("a variable-length integer has more than 32 bits"))
}

const CUT: BatchError = BatchError::Malformed("a record ends in the middle of an integer");

#[inline]
fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

#[inline]
fn unzigzag(raw: u64) -> i64 {
    (raw >> 1) as i64 ^ -((raw & 1) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_width_survives_the_way_there_and_back() {
        for shift in 0..64 {
            for near in [-1i64, 0, 1] {
                for value in
                    [(1i64 << shift).wrapping_add(near), (-1i64 << shift).wrapping_add(near)]
                {
                    let mut bytes = [0; 10];
                    let end = put(&mut bytes, 0, value);
                    assert_eq!(end, width(value), "{value}");
                    let mut at = 0;
                    assert_eq!(long(&bytes[..end], &mut at).unwrap(), value);
                    assert_eq!(at, end);
                    let mut at = 0;
                    assert!(long(&bytes[..end - 1], &mut at).is_err(), "{value}");
                }
            }
        }
    }

    #[test]
    fn too_many_bits_are_refused() {
        assert!(long(&[0xff; 10], &mut 0).is_err());
        assert!(long(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2], &mut 0).is_err());
        assert!(int(&[0xff, 0xff, 0xff, 0xff, 0x1f], &mut 0).is_err());
    }
}
