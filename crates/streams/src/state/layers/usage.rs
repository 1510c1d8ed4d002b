//! How much a store is used: counted where its reads and writes come in, told at each commit.

/// How much a store of one task is used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StoreUsage {
    /// About how many entries it has, tombstones that are not compacted yet included.
    pub entries: u64,
    /// How often it was read, since the task began here. A range is one read.
    pub reads: u64,
    /// How often it was written, since the task began here; a deletion is a write.
    pub writes: u64,
}
