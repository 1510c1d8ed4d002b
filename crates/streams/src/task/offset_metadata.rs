//! What is committed with an input offset: the time of the partition and of the task's operators, in Java's format.
//!
//! `base64(0x02 ‖ partition time (8, big-endian) [‖ count (4) ‖ (length (4) ‖ name ‖ time (8))*])`; version 1 has the partition time only.
//! So a restart, of Java or of ours, goes on with the times that were reached.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::collections::BTreeMap;

const VERSION_1: u8 = 1;
const VERSION_2: u8 = 2;

/// The times that are committed with an offset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CommittedTimes {
    /// The highest time seen on the partition; -1 for none.
    pub(crate) partition: i64,
    /// How far the operators of the task are, by name.
    pub(crate) progress: BTreeMap<String, i64>,
}

impl CommittedTimes {
    /// Nothing is known.
    pub(crate) fn unknown() -> Self {
        CommittedTimes { partition: -1, progress: BTreeMap::new() }
    }
}

/// The metadata for a partition.
pub(crate) fn encode(times: &CommittedTimes) -> String {
    let mut bytes = vec![VERSION_2];
    bytes.extend_from_slice(&times.partition.to_be_bytes());
    if !times.progress.is_empty() {
        bytes.extend_from_slice(&(times.progress.len() as u32).to_be_bytes());
        for (name, time) in &times.progress {
            bytes.extend_from_slice(&(name.len() as u32).to_be_bytes());
            bytes.extend_from_slice(name.as_bytes());
            bytes.extend_from_slice(&time.to_be_bytes());
        }
    }
    STANDARD.encode(bytes)
}

/// The times of committed metadata; `None` if there are none, or it is somebody else's.
pub(crate) fn decode(metadata: &str) -> Option<CommittedTimes> {
    let bytes = STANDARD.decode(metadata).ok()?;
    let (version, rest) = bytes.split_first()?;
    if !matches!(*version, VERSION_1 | VERSION_2) {
        return None;
    }
    let (partition, rest) = rest.split_first_chunk()?;
    let (partition, mut rest) = (i64::from_be_bytes(*partition), rest);
    let mut progress = BTreeMap::new();
    if *version == VERSION_2 && !rest.is_empty() {
        for _ in 0..take_u32(&mut rest)? {
            let length = take_u32(&mut rest)? as usize;
            let name = rest.get(..length)?;
            let (time, after) = rest.get(length..)?.split_first_chunk()?;
            progress.insert(String::from_utf8(name.to_vec()).ok()?, i64::from_be_bytes(*time));
            rest = after;
        }
    }
    Some(CommittedTimes { partition, progress })
}

fn take_u32(bytes: &mut &[u8]) -> Option<u32> {
    let (number, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(u32::from_be_bytes(*number))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(partition: i64, progress: &[(&str, i64)]) -> CommittedTimes {
        let progress = progress.iter().map(|(name, time)| (name.to_string(), *time)).collect();
        CommittedTimes { partition, progress }
    }

    #[test]
    fn the_format_is_javas() {
        let time = 1_700_000_000_000;
        assert_eq!(encode(&times(time, &[])), "AgAAAYvP5WgA");
        assert_eq!(decode("AgAAAYvP5WgA"), Some(times(time, &[])));
        assert_eq!(decode(&encode(&times(-1, &[]))), Some(CommittedTimes::unknown()));
        // With an empty list of processors behind it, and in version 1.
        assert_eq!(decode("AgAAAYvP5WgAAAAAAA=="), Some(times(time, &[])));
        assert_eq!(decode("AQAAAYvP5WgA"), Some(times(time, &[])));
        let two = times(5, &[("windows", 7), ("a join", -1)]);
        assert_eq!(decode(&encode(&two)), Some(two));
        // Nothing, other text, too short, another version, a list that ends early.
        for odd in ["", "hello", "AgAA", "BwAAAYvP5WgA", "AgAAAYvP5WgA/////w=="] {
            assert_eq!(decode(odd), None, "{odd}");
        }
    }
}
