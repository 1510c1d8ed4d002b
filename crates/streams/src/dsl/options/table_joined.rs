//! How two tables are joined by a foreign key.

use crate::topology::{RecordToPartition, StreamPartitioner};
use std::fmt;
use std::sync::Arc;

/// Chooses the partition of a key among so many; `None`: as Java's default partitioner does.
pub(crate) type KeyPartitioner<K> = Arc<dyn Fn(&K, i32) -> Option<i32> + Send + Sync>;

/// Options of `join_foreign_key`: `K` is the key of the left table, `KO` that of the right one.
///
/// A name names the operators and topics of the join: `<application.id>-<name>-subscription-registration-topic` and so on.
pub struct TableJoined<K, KO> {
    pub(crate) name: Option<String>,
    pub(crate) partitioner: Option<KeyPartitioner<K>>,
    pub(crate) other_partitioner: Option<KeyPartitioner<KO>>,
}

impl<K, KO> TableJoined<K, KO> {
    /// Without a name, for tables that are partitioned as usual.
    #[expect(clippy::new_without_default, reason = "options are made by name, as in Java")]
    pub fn new() -> Self {
        TableJoined { name: None, partitioner: None, other_partitioner: None }
    }

    /// The same with a name.
    pub fn named(name: impl Into<String>) -> Self {
        TableJoined::new().with_name(name)
    }

    /// The name.
    #[must_use]
    pub fn with_name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// How the left table is partitioned: the partition of a key, given the number of partitions. Needed if its topic was written
    /// with a partitioner of its own.
    #[must_use]
    pub fn partitioner<F>(mut self, partition: F) -> Self
    where
        F: Fn(&K, i32) -> Option<i32> + Send + Sync + 'static,
    {
        self.partitioner = Some(Arc::new(partition));
        self
    }

    /// How the right table is partitioned, likewise.
    #[must_use]
    pub fn other_partitioner<F>(mut self, partition: F) -> Self
    where
        F: Fn(&KO, i32) -> Option<i32> + Send + Sync + 'static,
    {
        self.other_partitioner = Some(Arc::new(partition));
        self
    }
}

impl<K, KO> fmt::Debug for TableJoined<K, KO> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TableJoined").field("name", &self.name).finish()
    }
}

/// The partition of a message by a key that it has or has not.
pub(crate) fn by_key<K: 'static, V: 'static>(
    partitioner: KeyPartitioner<K>,
) -> Arc<dyn StreamPartitioner<Option<K>, V>> {
    Arc::new(move |key: &Option<K>, _: &V, count: i32| {
        let partition = key.as_ref().and_then(|key| partitioner(key, count));
        partition.map_or(RecordToPartition::Default, RecordToPartition::One)
    })
}
