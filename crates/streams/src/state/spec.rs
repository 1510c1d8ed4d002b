//! What a store is, before there is one: its name, kind and options, and the typed token that everything uses to ask for it.

use super::codec::KeyValueSerdes;
use super::global::GlobalTable;
use super::key_value::{KeyValueStore, TimestampedKeyValueStore};
use super::kind::{StoreKind, millis};
use super::session::SessionStore;
use super::versioned::VersionedKeyValueStore;
use super::window::{TimestampedWindowStore, WindowStore};
use crate::error::{Error, Result};
use crate::processor::InitContext;
use crate::serde::{DefaultSerde, SerdeRef};
use std::any::type_name;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// How a store's values look inside the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StoreFormat {
    /// The value as it is.
    Plain,
    /// The record's timestamp in front of the value; the changelog has it in the record instead.
    Timestamped,
}

/// The description of a store.
#[derive(Debug, Clone)]
pub(crate) struct StoreSpec {
    pub(crate) name: Arc<str>,
    pub(crate) kind: StoreKind,
    pub(crate) format: StoreFormat,
    /// On disk; else in memory.
    pub(crate) persistent: bool,
    /// Settings of the changelog topic besides Java's; `None`: no changelog.
    pub(crate) logging: Option<BTreeMap<String, String>>,
    /// Whether changes are forwarded at commit (once a key), not at once.
    pub(crate) caching: bool,
    /// The topic of the table's source, if that is the changelog: what is stored is what was read.
    pub(crate) source_topic: Option<Arc<str>>,
    /// Whether a changelog of every write has the headers of the records as well.
    pub(crate) logs_headers: bool,
    /// The types of the token, for messages and to tell different uses of a name apart.
    pub(crate) types: &'static str,
}

/// A kind of store that a processor can ask for by its token.
pub trait StoreType: Sized + sealed::Open {}

/// Names a store and its types. Made by [`Stores`]; everything that touches the store takes the token, so that a wrong type
/// cannot ask for it. Tokens are `Copy` and live as long as the process.
pub struct StoreToken<S: StoreType> {
    pub(crate) spec: &'static StoreSpec,
    pub(crate) serdes: &'static S::Serdes,
}

impl<S: StoreType> StoreToken<S> {
    pub(crate) fn new(spec: StoreSpec, serdes: S::Serdes) -> Self {
        StoreToken { spec: Box::leak(Box::new(spec)), serdes: Box::leak(Box::new(serdes)) }
    }

    /// The same store with a changed description.
    pub(crate) fn changed(self, change: impl FnOnce(&mut StoreSpec)) -> Self {
        let mut spec = self.spec.clone();
        change(&mut spec);
        StoreToken { spec: Box::leak(Box::new(spec)), serdes: self.serdes }
    }

    /// The store's name.
    pub fn name(&self) -> &str {
        &self.spec.name
    }

    /// Keeps the store in memory only; it is read from its changelog at each start.
    #[must_use]
    pub fn in_memory(self) -> Self {
        self.changed(|spec| spec.persistent = false)
    }

    /// Keeps changes back until the next commit, as tables do.
    #[cfg(test)]
    pub(super) fn caching_enabled(self) -> Self {
        self.changed(|spec| spec.caching = true)
    }

    pub(super) fn with_duplicates(self) -> Self {
        self.changed(|spec| {
            if let StoreKind::Window { duplicates, .. } = &mut spec.kind {
                *duplicates = true;
            }
        })
    }

    pub(super) fn with_segments(self, interval: Duration) -> Self {
        self.changed(|spec| {
            if let StoreKind::Versioned { segment, .. } = &mut spec.kind {
                *segment = millis(interval).max(1);
            }
        })
    }

    /// Without a changelog: the state survives only where it is.
    #[must_use]
    pub fn logging_disabled(self) -> Self {
        self.changed(|spec| spec.logging = None)
    }

    /// A further setting of the changelog topic.
    #[must_use]
    pub fn changelog_setting(self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.changed(|spec| {
            spec.logging.get_or_insert_default().insert(key.into(), value.into());
        })
    }
}

impl<S: StoreType> Clone for StoreToken<S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S: StoreType> Copy for StoreToken<S> {}

impl<S: StoreType> fmt::Debug for StoreToken<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("StoreToken").field(&self.spec.name).field(&self.spec.types).finish()
    }
}

/// Makes tokens of stores.
#[derive(Debug)]
pub struct Stores;

impl Stores {
    /// A key-value store on disk with the types' own serdes.
    pub fn key_value<K: DefaultSerde, V: DefaultSerde>(
        name: &str,
    ) -> StoreToken<KeyValueStore<K, V>> {
        Stores::key_value_with(name, K::default_serde(), V::default_serde())
    }

    /// A key-value store on disk with these serdes.
    pub fn key_value_with<K: 'static, V: 'static>(
        name: &str,
        key: SerdeRef<K>,
        value: SerdeRef<V>,
    ) -> StoreToken<KeyValueStore<K, V>> {
        let spec = StoreSpec::new::<K, V>(name, StoreFormat::Plain);
        StoreToken::new(spec, KeyValueSerdes { key, value })
    }

    /// A key-value store on disk that keeps each value's timestamp, as tables do.
    pub fn timestamped_key_value<K: DefaultSerde, V: DefaultSerde>(
        name: &str,
    ) -> StoreToken<TimestampedKeyValueStore<K, V>> {
        Stores::timestamped_key_value_with(name, K::default_serde(), V::default_serde())
    }

    /// The same with these serdes.
    pub fn timestamped_key_value_with<K: 'static, V: 'static>(
        name: &str,
        key: SerdeRef<K>,
        value: SerdeRef<V>,
    ) -> StoreToken<TimestampedKeyValueStore<K, V>> {
        let spec = StoreSpec::new::<K, V>(name, StoreFormat::Timestamped);
        StoreToken::new(spec, KeyValueSerdes { key, value })
    }

    /// A store that holds the whole of a topic on every instance, with the types' own serdes.
    pub fn global<K: DefaultSerde, V: DefaultSerde>(name: &str) -> StoreToken<GlobalTable<K, V>> {
        Stores::global_with(name, K::default_serde(), V::default_serde())
    }

    /// The same with these serdes.
    pub fn global_with<K: 'static, V: 'static>(
        name: &str,
        key: SerdeRef<K>,
        value: SerdeRef<V>,
    ) -> StoreToken<GlobalTable<K, V>> {
        let spec =
            StoreSpec { logging: None, ..StoreSpec::new::<K, V>(name, StoreFormat::Timestamped) };
        StoreToken::new(spec, KeyValueSerdes { key, value })
    }

    /// A window store on disk: a value a key and window start. Windows of `size` are kept for `retention` behind the newest one.
    ///
    /// ```
    /// use kstreams::prelude::*;
    /// use std::time::Duration;
    ///
    /// let (day, hour) = (Duration::from_secs(86_400), Duration::from_secs(3_600));
    /// let visits = Stores::window::<String, i64>("visits", day, hour);
    /// assert_eq!(visits.name(), "visits");
    /// ```
    pub fn window<K: DefaultSerde, V: DefaultSerde>(
        name: &str,
        retention: Duration,
        size: Duration,
    ) -> StoreToken<WindowStore<K, V>> {
        Stores::window_with(name, retention, size, K::default_serde(), V::default_serde())
    }

    /// The same with these serdes.
    pub fn window_with<K: 'static, V: 'static>(
        name: &str,
        retention: Duration,
        size: Duration,
        key: SerdeRef<K>,
        value: SerdeRef<V>,
    ) -> StoreToken<WindowStore<K, V>> {
        let spec = StoreSpec::of::<K, V>(name, window(retention, size), StoreFormat::Plain);
        StoreToken::new(spec, KeyValueSerdes { key, value })
    }

    /// A window store on disk that keeps each value's timestamp, as windowed tables do.
    pub fn timestamped_window<K: DefaultSerde, V: DefaultSerde>(
        name: &str,
        retention: Duration,
        size: Duration,
    ) -> StoreToken<TimestampedWindowStore<K, V>> {
        let (key, value) = (K::default_serde(), V::default_serde());
        Stores::timestamped_window_with(name, retention, size, key, value)
    }

    /// The same with these serdes.
    pub fn timestamped_window_with<K: 'static, V: 'static>(
        name: &str,
        retention: Duration,
        size: Duration,
        key: SerdeRef<K>,
        value: SerdeRef<V>,
    ) -> StoreToken<TimestampedWindowStore<K, V>> {
        let spec = StoreSpec::of::<K, V>(name, window(retention, size), StoreFormat::Timestamped);
        StoreToken::new(spec, KeyValueSerdes { key, value })
    }

    /// A session store on disk: a value a key and session. Sessions are kept for `retention` behind the one that ends last.
    ///
    /// ```
    /// use kstreams::prelude::*;
    /// use std::time::Duration;
    ///
    /// let visits = Stores::session::<String, i64>("visits", Duration::from_secs(3_600)).in_memory();
    /// assert_eq!(visits.name(), "visits");
    /// ```
    pub fn session<K: DefaultSerde, V: DefaultSerde>(
        name: &str,
        retention: Duration,
    ) -> StoreToken<SessionStore<K, V>> {
        Stores::session_with(name, retention, K::default_serde(), V::default_serde())
    }

    /// The same with these serdes.
    pub fn session_with<K: 'static, V: 'static>(
        name: &str,
        retention: Duration,
        key: SerdeRef<K>,
        value: SerdeRef<V>,
    ) -> StoreToken<SessionStore<K, V>> {
        let kind = StoreKind::Session { retention: millis(retention) };
        let spec = StoreSpec::of::<K, V>(name, kind, StoreFormat::Plain);
        StoreToken::new(spec, KeyValueSerdes { key, value })
    }

    /// A versioned store on disk: the values of a key over time, as far back as `history`.
    ///
    /// ```
    /// use kstreams::prelude::*;
    /// use std::time::Duration;
    ///
    /// let prices = Stores::versioned_key_value::<String, f64>("prices", Duration::from_secs(86_400));
    /// assert_eq!(prices.name(), "prices");
    /// ```
    pub fn versioned_key_value<K: DefaultSerde, V: DefaultSerde>(
        name: &str,
        history: Duration,
    ) -> StoreToken<VersionedKeyValueStore<K, V>> {
        Stores::versioned_key_value_with(name, history, K::default_serde(), V::default_serde())
    }

    /// The same with these serdes.
    pub fn versioned_key_value_with<K: 'static, V: 'static>(
        name: &str,
        history: Duration,
        key: SerdeRef<K>,
        value: SerdeRef<V>,
    ) -> StoreToken<VersionedKeyValueStore<K, V>> {
        let kind = StoreKind::versioned(millis(history));
        let spec = StoreSpec::of::<K, V>(name, kind, StoreFormat::Plain);
        StoreToken::new(spec, KeyValueSerdes { key, value })
    }
}

fn window(retention: Duration, size: Duration) -> StoreKind {
    StoreKind::Window { retention: millis(retention), size: millis(size), duplicates: false }
}

impl StoreSpec {
    /// Refuses a token of other types or another kind: it would read the bytes as something else.
    pub(crate) fn check_types(&self, asked: &StoreSpec) -> Result<()> {
        let (name, store, token) = (&self.name, self.types, asked.types);
        if store != token {
            return Err(Error::topology(format!(
                "store {name} holds {store}, not {token}: ask for it with the token that the topology has"
            )));
        }
        if std::mem::discriminant(&asked.kind) != std::mem::discriminant(&self.kind) {
            return Err(Error::topology(format!(
                "store {name} is of another kind: ask for it with the token that the topology has"
            )));
        }
        Ok(())
    }

    /// The same for who writes as well: values with timestamps and without look different.
    pub(crate) fn check_token(&self, asked: &StoreSpec) -> Result<()> {
        self.check_types(asked)?;
        let (name, has) = match (self.format, asked.format) {
            (StoreFormat::Timestamped, StoreFormat::Plain) => {
                (&self.name, "values with timestamps")
            }
            (StoreFormat::Plain, StoreFormat::Timestamped) => {
                (&self.name, "values without timestamps")
            }
            _ => return Ok(()),
        };
        Err(Error::topology(format!(
            "store {name} has {has}: ask for it with the token that the topology has"
        )))
    }

    /// A key-value store on disk, logged, not cached.
    pub(crate) fn new<K, V>(name: &str, format: StoreFormat) -> StoreSpec {
        StoreSpec::of::<K, V>(name, StoreKind::KeyValue, format)
    }

    /// On disk, logged, not cached.
    pub(crate) fn of<K, V>(name: &str, kind: StoreKind, format: StoreFormat) -> StoreSpec {
        StoreSpec {
            name: name.into(),
            kind,
            format,
            persistent: true,
            logging: Some(BTreeMap::new()),
            caching: false,
            source_topic: None,
            logs_headers: false,
            types: type_name::<(K, V)>(),
        }
    }
}

/// Keeps [`StoreType`] to the kinds of this crate, and how a handle is opened out of the public docs.
pub(crate) mod sealed {
    use super::*;

    pub trait Open: Sized {
        type Serdes: Send + Sync + 'static;
        /// Whether every processor may read it, connected or not.
        const IS_GLOBAL: bool = false;

        fn open(token: &StoreToken<Self>, ctx: &InitContext<'_>) -> Result<Self>
        where
            Self: StoreType;
    }
}
