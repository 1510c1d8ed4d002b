//! How a stream is joined with a table.

use crate::serde::{DefaultSerde, SerdeChoice, SerdeRef};
use std::fmt;

/// Options of `join_table` and `left_join_table`: `K` and `V` are the stream's key and value.
///
/// A name names the operator, and the repartition topic, if there has to be one: `<application.id>-<name>-repartition`.
pub struct Joined<K, V> {
    pub(crate) name: Option<String>,
    pub(crate) key: SerdeChoice<K>,
    pub(crate) value: SerdeChoice<V>,
}

impl<K, V> Joined<K, V> {
    /// With the serdes that the stream carries, else the types' own.
    #[expect(clippy::new_without_default, reason = "options are made by name, as in Java")]
    pub fn new() -> Self
    where
        K: DefaultSerde,
        V: DefaultSerde,
    {
        let (key, value) = (SerdeChoice::default_for_type(), SerdeChoice::default_for_type());
        Joined { name: None, key, value }
    }

    /// The same with a name.
    pub fn named(name: impl Into<String>) -> Self
    where
        K: DefaultSerde,
        V: DefaultSerde,
    {
        Joined::new().with_name(name)
    }
}

impl<K, V> Joined<K, V> {
    /// With these serdes.
    pub fn with(key: SerdeRef<K>, value: SerdeRef<V>) -> Self {
        Joined { name: None, key: SerdeChoice::Given(key), value: SerdeChoice::Given(value) }
    }

    /// With the serdes that the stream carries; `build()` fails if it carries none.
    pub fn carried() -> Self {
        Joined { name: None, key: SerdeChoice::Carried, value: SerdeChoice::Carried }
    }

    /// The name.
    #[must_use]
    pub fn with_name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }
}

impl<K, V> fmt::Debug for Joined<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Joined").field("name", &self.name).finish()
    }
}
