//! `GlobalKTable`: the whole of a topic on every instance.

use crate::state::KeyValueSerdes;
use std::fmt;
use std::sync::Arc;

/// A table that every instance has as a whole: all partitions of its topic. Streams look it up by any key that they can make
/// ([`super::KStream::join_global`]), without being partitioned by it.
///
/// It is read to the end of its topic before any task runs, and kept up to date from then on by a thread of its own; it is not
/// synchronized with the streams by time. It has no changelog: its topic is one. Made by
/// [`super::StreamsBuilder::global_table`].
#[must_use = "a global table is of use when a stream is joined with it"]
pub struct GlobalKTable<K, V> {
    pub(super) name: Arc<str>,
    pub(super) serdes: KeyValueSerdes<K, V>,
    pub(super) is_named: bool,
}

impl<K, V> GlobalKTable<K, V> {
    /// The name under which the table can be read from outside, if it was given one.
    pub fn queryable_store_name(&self) -> Option<&str> {
        self.is_named.then_some(&*self.name)
    }
}

impl<K, V> Clone for GlobalKTable<K, V> {
    fn clone(&self) -> Self {
        let (name, serdes) = (self.name.clone(), self.serdes.clone());
        GlobalKTable { name, serdes, is_named: self.is_named }
    }
}

impl<K, V> fmt::Debug for GlobalKTable<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("GlobalKTable").field(&self.name).finish()
    }
}
