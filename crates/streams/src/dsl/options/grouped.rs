//! How a stream is grouped.

use crate::serde::{DefaultSerde, SerdeChoice, SerdeRef};
use std::fmt;

/// Options of `group_by` and `group_by_key`.
///
/// A name names the repartition topic, if there has to be one: `<application.id>-<name>-repartition`.
pub struct Grouped<K, V> {
    pub(crate) name: Option<String>,
    pub(crate) key: SerdeChoice<K>,
    pub(crate) value: SerdeChoice<V>,
}

impl<K, V> Grouped<K, V> {
    /// With the serdes that the stream carries, else the types' own.
    #[expect(clippy::new_without_default, reason = "options are made by name, as in Java")]
    pub fn new() -> Self
    where
        K: DefaultSerde,
        V: DefaultSerde,
    {
        let (key, value) = (SerdeChoice::default_for_type(), SerdeChoice::default_for_type());
        Grouped { name: None, key, value }
    }

    /// The same with a name.
    pub fn named(name: impl Into<String>) -> Self
    where
        K: DefaultSerde,
        V: DefaultSerde,
    {
        Grouped::new().with_name(name)
    }
}

impl<K, V> Grouped<K, V> {
    /// With these serdes.
    pub fn with(key: SerdeRef<K>, value: SerdeRef<V>) -> Self {
        Grouped { name: None, key: SerdeChoice::Given(key), value: SerdeChoice::Given(value) }
    }

    /// With the serdes that the stream carries; `build()` fails if it carries none.
    pub fn carried() -> Self {
        Grouped { name: None, key: SerdeChoice::Carried, value: SerdeChoice::Carried }
    }

    /// The name.
    #[must_use]
    pub fn with_name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }
}

impl<K, V> fmt::Debug for Grouped<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Grouped").field("name", &self.name).finish()
    }
}
