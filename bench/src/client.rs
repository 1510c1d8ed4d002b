//! The client alone: records of 20-byte keys and 100-byte values, idempotent, checksums on, over four partitions.

use crate::measure::{Failure, measure};
use crate::topics::create_topics;
use crate::{ours, theirs};

pub(crate) const RECORDS: usize = 5_000_000;
pub(crate) const KEY_BYTES: usize = 20;
pub(crate) const VALUE_BYTES: usize = 100;

/// The record of that number, written into `key` and `value`.
pub(crate) fn record(number: usize, key: &mut [u8; KEY_BYTES], value: &mut [u8; VALUE_BYTES]) {
    let digits = number.to_le_bytes();
    key[..8].copy_from_slice(&digits);
    value[..8].copy_from_slice(&digits);
    value[8] = b'v';
}

/// Writes and reads `records` with ours, then with theirs.
pub(crate) fn run(records: usize) -> Result<(), Failure> {
    let bootstrap = std::env::var("KSTREAMS_TEST_BOOTSTRAP")
        .map_err(|_| "KSTREAMS_TEST_BOOTSTRAP is not set: use `cargo xtask bench client`")?;
    let topic = format!("bench-client-{}", std::process::id());
    let (own, other) = (format!("{topic}-ours"), format!("{topic}-theirs"));
    create_topics(&bootstrap, &[&own, &other])?;
    measure(|| ours::produce(&bootstrap, &own, records))?.show("kstreams", "produce", records);
    measure(|| theirs::produce(&bootstrap, &other, records))?.show("rdkafka", "produce", records);
    measure(|| ours::fetch(&bootstrap, &own, records))?.show("kstreams", "fetch", records);
    measure(|| theirs::fetch(&bootstrap, &other, records))?.show("rdkafka", "fetch", records);
    Ok(())
}
