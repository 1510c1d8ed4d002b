//! How a stream is joined with a table.

use crate::serde::{DefaultSerde, SerdeChoice, SerdeRef};
use std::fmt;
use std::time::Duration;

/// Options of `join_table` and `left_join_table`: `K` and `V` are the stream's key and value.
///
/// A name names the operator, and the repartition topic, if there has to be one: `<application.id>-<name>-repartition`.
pub struct Joined<K, V> {
    pub(crate) name: Option<String>,
    pub(crate) key: SerdeChoice<K>,
    pub(crate) value: SerdeChoice<V>,
    pub(crate) grace: Option<Duration>,
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
        Joined { name: None, key, value, grace: None }
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
        Joined {
            name: None,
            key: SerdeChoice::Given(key),
            value: SerdeChoice::Given(value),
            grace: None,
        }
    }

    /// With the serdes that the stream carries; `build()` fails if it carries none.
    pub fn carried() -> Self {
        Joined { name: None, key: SerdeChoice::Carried, value: SerdeChoice::Carried, grace: None }
    }

    /// The name.
    #[must_use]
    pub fn with_name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Lets each record wait so long in stream time, until the table may have caught up with it; then it is joined with the value of
    /// its own time, and records go on in the order of their times. The table has to be versioned, with a history at least as long.
    /// What waits is in a store `<operator's name>-Buffer` with a changelog. Records with a null key do not wait.
    ///
    /// ```
    /// use kstreams::prelude::*;
    ///
    /// let builder = StreamsBuilder::new();
    /// let rates = builder.table("rates", Consumed::<String, f64>::new(), Materialized::versioned("rates", hours(1)));
    /// builder
    ///     .stream("orders", Consumed::<String, f64>::new())
    ///     .join_table(&rates, |amount, rate| amount * rate, Joined::named("euros").grace(seconds(10)))
    ///     .to("euros", Produced::new());
    /// assert!(builder.build()?.describe().contains("euros-Buffer"));
    /// # Ok::<(), kstreams::Error>(())
    /// ```
    #[must_use]
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = Some(grace);
        self
    }
}

impl<K, V> fmt::Debug for Joined<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Joined").field("name", &self.name).finish()
    }
}
