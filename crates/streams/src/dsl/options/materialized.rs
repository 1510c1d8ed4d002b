//! How a table is stored.

use crate::dsl::windows::ms;
use crate::serde::{DefaultSerde, SerdeChoice, SerdeRef};
use crate::state::StoreSpec;
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// Options of the store behind a table: `K` and `V` are the table's key and value.
///
/// A name names the store and its changelog topic: `<application.id>-<name>-changelog`. Name what must survive a change of the
/// topology: unnamed stores are numbered.
pub struct Materialized<K, V> {
    pub(crate) name: Option<String>,
    pub(crate) node: Option<String>,
    pub(crate) key: SerdeChoice<K>,
    pub(crate) value: SerdeChoice<V>,
    pub(crate) caching: bool,
    pub(crate) logging: Option<BTreeMap<String, String>>,
    pub(crate) persistent: bool,
    /// How long the past of the table is kept, in milliseconds.
    pub(crate) history: Option<i64>,
    /// How long windows and sessions are kept at least, in milliseconds.
    pub(crate) retention: Option<i64>,
    /// Whether nothing is said about the store: Java's operators without a `Materialized`.
    pub(crate) is_plain: bool,
}

impl<K, V> Materialized<K, V> {
    /// On disk, with the serdes that the stream carries, else the types' own.
    #[expect(clippy::new_without_default, reason = "options are made by name, as in Java")]
    pub fn new() -> Self
    where
        K: DefaultSerde,
        V: DefaultSerde,
    {
        let plain = Materialized::from_serdes(
            SerdeChoice::default_for_type(),
            SerdeChoice::default_for_type(),
        );
        Materialized { is_plain: true, ..plain }
    }

    /// The same, for a store of that name.
    pub fn named(name: impl Into<String>) -> Self
    where
        K: DefaultSerde,
        V: DefaultSerde,
    {
        Materialized::new().with_name(name)
    }

    /// For a store of that name that also keeps the values of the last `history`: joins of streams with the table see the value of
    /// the record's time, records that come late take their place in the history, and what is older than the history is dropped.
    /// Such a store is not cached. Operators that follow leave out changes of the past where only the latest counts.
    ///
    /// ```
    /// use kstreams::prelude::*;
    /// use std::time::Duration;
    ///
    /// let builder = StreamsBuilder::new();
    /// let hour = Duration::from_secs(3600);
    /// let rates = builder.table("rates", Consumed::<String, f64>::new(), Materialized::versioned("rates", hour));
    /// builder
    ///     .stream("orders", Consumed::<String, f64>::new())
    ///     .join_table(&rates, |amount, rate| amount * rate, Joined::new())
    ///     .to("euros", Produced::new());
    ///
    /// let mut driver = TopologyTestDriver::new(builder.build()?)?;
    /// let mut rates = driver.input::<String, f64>("rates");
    /// rates.pipe_key_value_at(&mut driver, 10, "USD", 0.5)?;
    /// rates.pipe_key_value_at(&mut driver, 20, "USD", 0.75)?;
    /// driver.input::<String, f64>("orders").pipe_key_value_at(&mut driver, 15, "USD", 100.0)?;
    /// let mut euros = driver.output::<String, f64>("euros");
    /// assert_eq!(euros.read_values(&mut driver)?, [50.0]);
    /// # Ok::<(), kstreams::Error>(())
    /// ```
    pub fn versioned(name: impl Into<String>, history: Duration) -> Self
    where
        K: DefaultSerde,
        V: DefaultSerde,
    {
        Materialized::named(name).with_history(history)
    }
}

impl<K, V> Materialized<K, V> {
    fn from_serdes(key: SerdeChoice<K>, value: SerdeChoice<V>) -> Self {
        Materialized {
            name: None,
            node: None,
            key,
            value,
            caching: true,
            logging: Some(BTreeMap::new()),
            persistent: true,
            history: None,
            retention: None,
            is_plain: false,
        }
    }

    /// With these serdes.
    pub fn with(key: SerdeRef<K>, value: SerdeRef<V>) -> Self {
        Materialized::from_serdes(SerdeChoice::Given(key), SerdeChoice::Given(value))
    }

    /// With the serdes that the stream carries; `build()` fails if it carries none.
    pub fn carried() -> Self {
        Materialized::from_serdes(SerdeChoice::Carried, SerdeChoice::Carried)
    }

    fn changed(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self.is_plain = false;
        self
    }

    /// The name of the store.
    #[must_use]
    pub fn with_name(self, name: impl Into<String>) -> Self {
        self.changed(|options| options.name = Some(name.into()))
    }

    /// Keeps the values of the last `history` too, as [`Materialized::versioned`] does.
    #[must_use]
    pub fn with_history(self, history: Duration) -> Self {
        let history = i64::try_from(history.as_millis()).unwrap_or(i64::MAX);
        self.changed(|options| options.history = Some(history))
    }

    /// The name of the operator's node.
    #[must_use]
    pub fn with_node_name(mut self, name: impl Into<String>) -> Self {
        self.node = Some(name.into());
        self
    }

    /// Forwards each change at once, not once a key and commit.
    #[must_use]
    pub fn caching_disabled(self) -> Self {
        self.changed(|options| options.caching = false)
    }

    /// Without a changelog: the state survives only where it is.
    #[must_use]
    pub fn logging_disabled(self) -> Self {
        self.changed(|options| options.logging = None)
    }

    /// A further setting of the changelog topic.
    #[must_use]
    pub fn changelog_setting(self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.changed(|options| {
            options.logging.get_or_insert_default().insert(key.into(), value.into());
        })
    }

    /// Keeps windows and sessions for that long, in stream time; default: as long as they can change.
    #[must_use]
    pub fn retention(self, retention: Duration) -> Self {
        self.changed(|options| options.retention = Some(ms(retention)))
    }

    /// What is said here about a store.
    pub(crate) fn applied_to(&self, spec: StoreSpec) -> StoreSpec {
        StoreSpec {
            persistent: self.persistent,
            logging: self.logging.clone(),
            caching: self.caching,
            ..spec
        }
    }

    /// Keeps the table in memory only; it is read from its changelog at each start.
    #[must_use]
    pub fn in_memory(self) -> Self {
        self.changed(|options| options.persistent = false)
    }
}

impl<K, V> fmt::Debug for Materialized<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Materialized").field("name", &self.name).finish()
    }
}
