//! How two streams are joined.

use crate::serde::{DefaultSerde, SerdeChoice, SerdeRef};
use std::collections::BTreeMap;
use std::fmt;

/// Options of the join of two streams: `K` is their key, `V` the left value, `W` the right one.
///
/// Each side is stored for as long as its records can find partners: window and grace. The stores are on disk and have changelogs,
/// named after the join's nodes: give the stores a name ([`StreamJoined::store_name`]) if they shall survive a change of the topology.
pub struct StreamJoined<K, V, W> {
    pub(crate) name: Option<String>,
    pub(crate) store_name: Option<String>,
    pub(crate) key: SerdeChoice<K>,
    pub(crate) value: SerdeChoice<V>,
    pub(crate) other: SerdeChoice<W>,
    pub(crate) logging: Option<BTreeMap<String, String>>,
    pub(crate) persistent: bool,
}

impl<K, V, W> StreamJoined<K, V, W> {
    /// With the serdes that the streams carry, else the types' own.
    #[expect(clippy::new_without_default, reason = "options are made by name, as in Java")]
    pub fn new() -> Self
    where
        K: DefaultSerde,
        V: DefaultSerde,
        W: DefaultSerde,
    {
        StreamJoined::of(
            SerdeChoice::default_for_type(),
            SerdeChoice::default_for_type(),
            SerdeChoice::default_for_type(),
        )
    }

    /// The same, for a join of that name: its nodes and repartition topics are named after it, its stores are not.
    pub fn named(name: impl Into<String>) -> Self
    where
        K: DefaultSerde,
        V: DefaultSerde,
        W: DefaultSerde,
    {
        StreamJoined::new().with_name(name)
    }
}

impl<K, V, W> StreamJoined<K, V, W> {
    fn of(key: SerdeChoice<K>, value: SerdeChoice<V>, other: SerdeChoice<W>) -> Self {
        let (name, store_name, logging) = (None, None, Some(BTreeMap::new()));
        StreamJoined { name, store_name, key, value, other, logging, persistent: true }
    }

    /// With these serdes.
    pub fn with(key: SerdeRef<K>, value: SerdeRef<V>, other: SerdeRef<W>) -> Self {
        StreamJoined::of(
            SerdeChoice::Given(key),
            SerdeChoice::Given(value),
            SerdeChoice::Given(other),
        )
    }

    /// With the serdes that the streams carry; `build()` fails if they carry none.
    pub fn carried() -> Self {
        StreamJoined::of(SerdeChoice::Carried, SerdeChoice::Carried, SerdeChoice::Carried)
    }

    /// The name of the join.
    #[must_use]
    pub fn with_name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// The first part of the stores' names, and with that of their changelogs'.
    #[must_use]
    pub fn store_name(mut self, name: impl Into<String>) -> Self {
        self.store_name = Some(name.into());
        self
    }

    /// Without changelogs: the state survives only where it is.
    #[must_use]
    pub fn logging_disabled(mut self) -> Self {
        self.logging = None;
        self
    }

    /// A further setting of the changelog topics.
    #[must_use]
    pub fn changelog_setting(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.logging.get_or_insert_default().insert(key.into(), value.into());
        self
    }

    /// Keeps the stores in memory only; they are read from their changelogs at each start.
    #[must_use]
    pub fn in_memory(mut self) -> Self {
        self.persistent = false;
        self
    }
}

impl<K, V, W> fmt::Debug for StreamJoined<K, V, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = f.debug_struct("StreamJoined");
        text.field("name", &self.name).field("store_name", &self.store_name).finish()
    }
}
