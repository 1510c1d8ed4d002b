//! What we write, Java's clients and kcat read, and the other way round, on a real Apache Kafka: every compression,
//! headers, null keys and values, empty and large ones. One topic has a partition for each compression, so that one start
//! of a reader is enough for all of them.

mod record;

mod ours;

mod java;
mod kcat;

mod turns;

use kstreams_client::Compression;

/// Every compression, in the order of the partitions.
const COMPRESSIONS: [Compression; 5] = [
    Compression::None,
    Compression::Gzip,
    Compression::Snappy,
    Compression::Lz4,
    Compression::Zstd,
];

/// Each compression with its partition.
fn partitions() -> impl Iterator<Item = (i32, Compression)> {
    (0..).zip(COMPRESSIONS)
}
