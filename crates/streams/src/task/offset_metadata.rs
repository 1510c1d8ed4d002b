//! What is committed with an input offset: the time of the partition, in Java's format.
//!
//! `base64(0x02 ‖ partition time (8, big-endian) [‖ metadata of processors])`; version 1 has the time only. So a restart, of Java
//! or of ours, goes on with the time that was reached.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

const VERSION_1: u8 = 1;
const VERSION_2: u8 = 2;

/// The metadata for a partition whose highest time is `partition_time`; -1 for none.
pub(crate) fn encode(partition_time: i64) -> String {
    let mut bytes = [VERSION_2; 9];
    bytes[1..].copy_from_slice(&partition_time.to_be_bytes());
    STANDARD.encode(bytes)
}

/// The partition time of committed metadata; `None` if there is none, or it is somebody else's.
pub(crate) fn decode(metadata: &str) -> Option<i64> {
    let bytes = STANDARD.decode(metadata).ok()?;
    let (version, rest) = bytes.split_first()?;
    let time = rest.first_chunk().map(|time| i64::from_be_bytes(*time));
    time.filter(|_| matches!(*version, VERSION_1 | VERSION_2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_format_is_javas() {
        assert_eq!(encode(1_700_000_000_000), "AgAAAYvP5WgA");
        assert_eq!(decode("AgAAAYvP5WgA"), Some(1_700_000_000_000));
        assert_eq!(decode(&encode(-1)), Some(-1));
        // With metadata of processors behind it, and in version 1.
        assert_eq!(decode("AgAAAYvP5WgAAAAAAA=="), Some(1_700_000_000_000));
        assert_eq!(decode("AQAAAYvP5WgA"), Some(1_700_000_000_000));
        for odd in ["", "hello", "AgAA", "BwAAAYvP5WgA"] {
            assert_eq!(decode(odd), None, "{odd}");
        }
    }
}
