//! Stores of global tables: the whole of a topic, shared by all threads of the process.
//!
//! One reader fills them (`runtime/global_thread.rs`), all tasks look things up. They are in memory: each start reads the topics
//! from their beginning.

use super::codec::KeyValueSerdes;
use super::layout::timestamped_value;
use super::spec::sealed::Open;
use super::spec::{StoreToken, StoreType};
use crate::error::{BoxError, Error, ErrorKind, Result};
use crate::processor::InitContext;
use crate::record::Headers;
use crate::serde::{At, Presence, Serde, deserialize_nullable};
use byteview::ByteView;
use std::any::type_name;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

/// A record of a global table's topic.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GlobalRecord<'a> {
    pub(crate) key: Option<&'a [u8]>,
    pub(crate) value: Option<&'a [u8]>,
    pub(crate) timestamp: i64,
    pub(crate) headers: &'a Headers,
}

/// Tells whether the serdes of a global table can read a record.
pub(crate) trait GlobalCheck: Send + Sync {
    /// Whether the record has a key; an error if it cannot be read.
    fn check(&self, topic: &str, record: &GlobalRecord<'_>) -> Result<bool, Unreadable>;
}

/// A record that the serdes cannot read.
#[derive(Debug)]
pub(crate) struct Unreadable {
    /// Whether it is the key (else: the value).
    pub(crate) is_key: bool,
    pub(crate) error: BoxError,
}

impl<K: 'static, V: 'static> GlobalCheck for KeyValueSerdes<K, V> {
    fn check(&self, topic: &str, record: &GlobalRecord<'_>) -> Result<bool, Unreadable> {
        let unreadable = |is_key| move |error| Unreadable { is_key, error };
        let at = |is_key| At { topic, headers: record.headers, is_key };
        if record.key.is_none() {
            return Ok(false);
        }
        let key = deserialize_nullable(&*self.key, &at(true), record.key);
        let key = key.map_err(unreadable(true))?;
        if let Some(value) = record.value {
            self.value.deserialize(&at(false), value).map_err(unreadable(false))?;
        }
        Ok(!self.key.is_null(&key))
    }
}

/// The description of a global table's store.
#[derive(Clone)]
pub(crate) struct GlobalSpec {
    pub(crate) name: Arc<str>,
    pub(crate) topic: Arc<str>,
    /// The types of its token.
    pub(crate) types: &'static str,
    /// The check of records that are copied; `None`: a processor makes of them what is stored.
    pub(crate) check: Option<Arc<dyn GlobalCheck>>,
}

impl GlobalSpec {
    /// A store that holds the records of its topic.
    pub(crate) fn copied<K: 'static, V: 'static>(
        name: &Arc<str>,
        topic: &str,
        serdes: &KeyValueSerdes<K, V>,
    ) -> Self {
        let check: Arc<dyn GlobalCheck> = Arc::new(serdes.clone());
        GlobalSpec { check: Some(check), ..GlobalSpec::processed::<K, V>(name, topic) }
    }

    /// A store that a processor fills.
    pub(crate) fn processed<K, V>(name: &Arc<str>, topic: &str) -> Self {
        let types = type_name::<(K, V)>();
        GlobalSpec { name: name.clone(), topic: topic.into(), types, check: None }
    }
}

impl fmt::Debug for GlobalSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GlobalSpec").field("name", &self.name).field("topic", &self.topic).finish()
    }
}

/// The content of one global table: values behind their timestamps, as in other tables.
#[derive(Debug, Default)]
pub(crate) struct GlobalStore(RwLock<BTreeMap<ByteView, ByteView>>);

impl GlobalStore {
    fn get(&self, key: &[u8]) -> Option<ByteView> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
    }

    fn put(&self, key: &[u8], value: Option<&[u8]>, timestamp: i64) {
        let mut entries = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let Some(value) = value else {
            entries.remove(key);
            return;
        };
        let mut bytes = Vec::with_capacity(size_of::<i64>() + value.len());
        timestamped_value::put_timestamp(timestamp, &mut bytes);
        bytes.extend_from_slice(value);
        entries.insert(key.into(), bytes.into());
    }
}

/// All global tables of a process.
#[derive(Debug, Default)]
pub(crate) struct GlobalStores {
    stores: Vec<(GlobalSpec, Arc<GlobalStore>)>,
    is_filled: AtomicBool,
}

impl GlobalStores {
    pub(crate) fn new(specs: &[GlobalSpec]) -> Self {
        let stores: Vec<_> = specs.iter().map(|spec| (spec.clone(), Arc::default())).collect();
        GlobalStores { is_filled: AtomicBool::new(stores.is_empty()), stores }
    }

    /// Whether the tables were read to where their topics ended at the start; no task runs before.
    pub(crate) fn are_filled(&self) -> bool {
        self.is_filled.load(Ordering::Acquire)
    }

    pub(crate) fn become_filled(&self) {
        self.is_filled.store(true, Ordering::Release);
    }

    /// The topics behind the tables.
    pub(crate) fn topics(&self) -> impl Iterator<Item = &Arc<str>> {
        self.stores.iter().map(|(spec, _)| &spec.topic)
    }

    /// Applies a record to the tables of its topic. False if it was left out because it has no key.
    ///
    /// # Errors
    /// When the serdes of a table cannot read it; it is not applied then.
    pub(crate) fn apply(&self, topic: &str, record: &GlobalRecord<'_>) -> Result<bool, Unreadable> {
        let mut is_applied = false;
        for (spec, store) in self.stores.iter().filter(|(spec, _)| *spec.topic == *topic) {
            let Some(check) = &spec.check else { continue };
            if let (true, Some(key)) = (check.check(topic, record)?, record.key) {
                store.put(key, record.value, record.timestamp);
                is_applied = true;
            }
        }
        Ok(is_applied)
    }

    /// A table, to be read with these serdes.
    pub(crate) fn open<K, V>(
        &self,
        name: &str,
        serdes: &KeyValueSerdes<K, V>,
    ) -> Result<GlobalTable<K, V>> {
        let found = self.stores.iter().find(|(spec, _)| *spec.name == *name);
        let (spec, store) =
            found.ok_or_else(|| Error::topology(format!("there is no global table {name}")))?;
        let (types, asked) = (spec.types, type_name::<(K, V)>());
        if types != asked {
            return Err(Error::topology(format!(
                "the global table {name} holds {types}, not {asked}: ask for it with the token that the topology has"
            )));
        }
        let (topic, store) = (spec.topic.clone(), store.clone());
        Ok(GlobalTable { name: spec.name.clone(), topic, store, serdes: serdes.clone() })
    }
}

/// A store that holds the whole of a topic on every instance, to be read by any processor: made by [`super::Stores::global`] and
/// [`crate::topology::TopologyBuilder::add_global_store`].
pub struct GlobalTable<K, V> {
    name: Arc<str>,
    topic: Arc<str>,
    store: Arc<GlobalStore>,
    serdes: KeyValueSerdes<K, V>,
}

impl<K, V> Clone for GlobalTable<K, V> {
    fn clone(&self) -> Self {
        GlobalTable {
            name: self.name.clone(),
            topic: self.topic.clone(),
            store: self.store.clone(),
            serdes: self.serdes.clone(),
        }
    }
}

static NO_HEADERS: Headers = Headers::new();

impl<K: 'static, V: 'static> GlobalTable<K, V> {
    /// The value of a key and its timestamp in milliseconds.
    ///
    /// # Errors
    /// When the key cannot be serialized or the bytes are not a `V`.
    pub fn get(&self, key: &K) -> Result<Option<(V, i64)>> {
        let Some(bytes) = self.bytes(&*self.serdes.key, key, true)? else { return Ok(None) };
        let Some(found) = self.store.get(&bytes) else { return Ok(None) };
        let too_short = || self.failed("read a value", "it has no timestamp".into());
        let (timestamp, value) = timestamped_value::split(&found).ok_or_else(too_short)?;
        let value = self.serdes.value.deserialize(&self.at(false), value);
        Ok(Some((value.map_err(|error| self.failed("read a value", error))?, timestamp)))
    }

    fn at(&self, is_key: bool) -> At<'_> {
        At { topic: &self.topic, headers: &NO_HEADERS, is_key }
    }

    fn failed(&self, what: &str, error: BoxError) -> Error {
        let message = format!("global table {}: cannot {what}", self.name);
        Error::new(ErrorKind::BadRecord, message).with_source(error)
    }

    /// The bytes of a key or a value; `None` for null.
    fn bytes<T: 'static>(
        &self,
        serde: &dyn Serde<T>,
        it: &T,
        is_key: bool,
    ) -> Result<Option<Vec<u8>>> {
        let mut bytes = Vec::new();
        let presence = serde.serialize(&self.at(is_key), it, &mut bytes).map_err(|error| {
            self.failed(if is_key { "write the key" } else { "write the value" }, error)
        })?;
        Ok((presence != Presence::Null).then_some(bytes))
    }
}

/// Writes a global store: for the processor that fills it. Made by [`InitContext::global_writer`].
pub struct GlobalTableWriter<K, V>(GlobalTable<K, V>);

impl<K: 'static, V: 'static> GlobalTableWriter<K, V> {
    pub(crate) fn new(table: GlobalTable<K, V>) -> Self {
        GlobalTableWriter(table)
    }

    /// As [`GlobalTable::get`].
    ///
    /// # Errors
    /// When the key cannot be serialized or the bytes are not a `V`.
    pub fn get(&self, key: &K) -> Result<Option<(V, i64)>> {
        self.0.get(key)
    }

    /// Sets the value of a key as that of `timestamp`, in milliseconds, or deletes it. Every task sees it at once.
    ///
    /// # Errors
    /// When key or value cannot be serialized, or the key is null.
    pub fn put(&self, key: &K, value: Option<&V>, timestamp: i64) -> Result<()> {
        let GlobalTable { serdes, store, .. } = &self.0;
        let Some(key) = self.0.bytes(&*serdes.key, key, true)? else {
            return Err(self.0.failed("write the key", "it is null".into()));
        };
        let value = match value {
            Some(value) => self.0.bytes(&*serdes.value, value, false)?,
            None => None,
        };
        store.put(&key, value.as_deref(), timestamp);
        Ok(())
    }
}

impl<K, V> fmt::Debug for GlobalTableWriter<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<K: 'static, V: 'static> StoreType for GlobalTable<K, V> {}

impl<K: 'static, V: 'static> Open for GlobalTable<K, V> {
    type Serdes = KeyValueSerdes<K, V>;
    const IS_GLOBAL: bool = true;

    fn open(token: &StoreToken<Self>, ctx: &InitContext<'_>) -> Result<Self> {
        ctx.task.globals().open(token.name(), token.serdes)
    }
}

impl<K, V> fmt::Debug for GlobalTable<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("GlobalTable").field(&self.name).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serde::DefaultSerde;

    #[test]
    fn records_are_checked_before_they_are_applied() {
        let serdes = KeyValueSerdes { key: i64::default_serde(), value: String::default_serde() };
        let spec = GlobalSpec::copied(&"g".into(), "t", &serdes);
        let stores = GlobalStores::new(&[spec]);
        let table = stores.open("g", &serdes).expect("opens");
        let record = |key, value| GlobalRecord { key, value, timestamp: 7, headers: &NO_HEADERS };
        let key = 1i64.to_be_bytes();
        assert!(stores.apply("t", &record(Some(&key), Some(b"a"))).expect("applied"));
        assert_eq!(table.get(&1).expect("read"), Some(("a".into(), 7)));
        assert!(stores.apply("t", &record(Some(b"short"), Some(b"b"))).is_err());
        assert!(stores.apply("t", &record(Some(&key), Some(b"\xff"))).is_err());
        assert!(!stores.apply("t", &record(None, Some(b"b"))).expect("left out"));
        assert_eq!(table.get(&1).expect("read"), Some(("a".into(), 7)));
        assert!(stores.apply("t", &record(Some(&key), None)).expect("applied"));
        assert_eq!(table.get(&1).expect("read"), None);
        assert!(stores.open("h", &serdes).is_err());
        assert!(!stores.are_filled());
        assert!(GlobalStores::new(&[]).are_filled());
    }
}
