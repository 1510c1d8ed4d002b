//! The store of a table as its operator sees it, and how its changes go on.
//!
//! With a record cache the store forwards the last change of a key at commit; without one the operator forwards every change at
//! once.

use super::Change;
use crate::error::Result;
use crate::processor::InitContext;
use crate::record::{Headers, Record};
use crate::serde::SerdeRef;
use crate::state::{
    KeyValueSerdes, PutResult, StoreSpec, StoreToken, TableChange, TimestampedKeyValueStore,
    VersionedKeyValueStore, VersionedRecord,
};
use crate::topology::erased::{Fault, Output, Wiring};
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};

/// The token of a table's store.
pub(crate) enum TableToken<K: 'static, V: 'static> {
    /// The latest value of each key.
    Latest(StoreToken<TimestampedKeyValueStore<K, V>>),
    /// The values of each key over time.
    Versioned(StoreToken<VersionedKeyValueStore<K, V>>),
}

impl<K: 'static, V: 'static> TableToken<K, V> {
    pub(crate) fn spec(&self) -> &'static StoreSpec {
        match self {
            TableToken::Latest(token) => token.spec,
            TableToken::Versioned(token) => token.spec,
        }
    }

    pub(crate) fn serdes(&self) -> &'static KeyValueSerdes<K, V> {
        match self {
            TableToken::Latest(token) => token.serdes,
            TableToken::Versioned(token) => token.serdes,
        }
    }
}

impl<K: 'static, V: 'static> Clone for TableToken<K, V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K: 'static, V: 'static> Copy for TableToken<K, V> {}

/// The store of an operator that may have none: it is given one by `materialized`, after the operator was made.
pub(crate) struct TableOwnStore<K: 'static, V: 'static>(Arc<Mutex<Option<TableToken<K, V>>>>);

impl<K, V> TableOwnStore<K, V> {
    pub(crate) fn get(&self) -> Option<TableToken<K, V>> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set(&self, token: TableToken<K, V>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(token);
    }
}

impl<K, V> Default for TableOwnStore<K, V> {
    fn default() -> Self {
        TableOwnStore(Arc::default())
    }
}

impl<K, V> Clone for TableOwnStore<K, V> {
    fn clone(&self) -> Self {
        TableOwnStore(self.0.clone())
    }
}

/// The store of a table in a task.
pub(crate) enum TableStore<K, V> {
    Latest(TimestampedKeyValueStore<K, V>),
    Versioned(VersionedKeyValueStore<K, V>),
}

impl<K: 'static, V: 'static> TableStore<K, V> {
    pub(crate) fn open(token: &TableToken<K, V>, ctx: &InitContext<'_>) -> Result<Self> {
        Ok(match token {
            TableToken::Latest(token) => TableStore::Latest(ctx.store(token)?),
            TableToken::Versioned(token) => TableStore::Versioned(ctx.store(token)?),
        })
    }

    /// The latest value and its time.
    pub(crate) fn get(&self, key: &K) -> Result<Option<(V, i64)>> {
        match self {
            TableStore::Latest(store) => store.get(key),
            TableStore::Versioned(store) => Ok(store.get(key)?.map(value_and_time)),
        }
    }

    /// The value at that time, if the table knows its past; else the latest.
    pub(crate) fn get_for(&self, key: &K, timestamp: i64) -> Result<Option<(V, i64)>> {
        match self {
            TableStore::Latest(store) => store.get(key),
            TableStore::Versioned(store) => {
                Ok(store.get_as_of(key, timestamp)?.map(value_and_time))
            }
        }
    }

    pub(super) fn put(
        &self,
        key: &K,
        value: Option<&V>,
        timestamp: i64,
        headers: &Headers,
    ) -> Result<PutResult> {
        match self {
            TableStore::Latest(store) => {
                store.put_at(key, value, timestamp, headers)?;
                Ok(PutResult::Latest)
            }
            TableStore::Versioned(store) => store.put(key, value, timestamp),
        }
    }
}

fn value_and_time<V>(found: VersionedRecord<V>) -> (V, i64) {
    (found.value, found.timestamp)
}

/// Writes a table's changes to its store and sends them on.
pub(crate) struct TableWriter<K, V> {
    name: Arc<str>,
    store: TableStore<K, V>,
    /// The store forwards.
    is_cached: bool,
    sends_old_values: bool,
    value: SerdeRef<V>,
    out: Rc<Output<K, Change<V>>>,
}

impl<K: Clone + 'static, V: Clone + 'static> TableWriter<K, V> {
    pub(crate) fn open(wiring: &Wiring<'_>, token: &TableToken<K, V>) -> Result<Self> {
        let store = TableStore::open(token, &wiring.init_context())?;
        let out = Rc::new(wiring.output()?);
        let (children, name) = (out.clone(), wiring.name().clone());
        let sends_old_values = wiring.sends_old_values();
        let forward = move |change: TableChange<K, V>, headers| {
            let TableChange { key, new, old, timestamp } = change;
            children.send(Record { key, value: Change::latest(new, old), timestamp, headers })
        };
        let is_cached = match &store {
            TableStore::Latest(store) => {
                store.forward_changes(forward, name.clone(), sends_old_values)
            }
            TableStore::Versioned(_) => false,
        };
        let value = token.serdes().value.clone();
        Ok(TableWriter { name, store, is_cached, sends_old_values, value, out })
    }

    pub(crate) fn sends_old_values(&self) -> bool {
        self.sends_old_values
    }

    /// Whether whoever writes must know the value before: the store forwards, or nobody asked.
    pub(crate) fn needs_old_value(&self) -> bool {
        self.sends_old_values && !self.is_cached
    }

    pub(crate) fn get(&self, key: &K) -> Result<Option<(V, i64)>, Fault> {
        self.store.get(key).map_err(|error| Fault::at(&self.name, error))
    }

    /// Writes a value, or deletes; then the change goes on, here or at the next flush. What a versioned store does not take goes
    /// nowhere.
    pub(crate) fn write(&self, record: Record<K, Option<V>>, old: Option<V>) -> Result<(), Fault> {
        let Record { key, value: new, timestamp, headers } = record;
        // A table has no value that its serde writes as null.
        let new = new.filter(|new| !self.value.is_null(new));
        let put = self.store.put(&key, new.as_ref(), timestamp, &headers);
        let put = put.map_err(|error| Fault::at(&self.name, error))?;
        if self.is_cached || put == PutResult::NotPut {
            return Ok(());
        }
        let old = old.filter(|_| self.sends_old_values);
        let value = Change { new, old, is_latest: put == PutResult::Latest };
        self.out.send(Record { key, value, timestamp, headers })
    }
}

/// Where the changes of an operator go whose table may have a store.
pub(crate) enum TableOutput<K, V> {
    /// Straight on.
    Forward { out: Output<K, Change<V>>, sends_old_values: bool },
    /// Into the store, and on.
    Store(TableWriter<K, V>),
}

impl<K: Clone + 'static, V: Clone + 'static> TableOutput<K, V> {
    pub(crate) fn open(wiring: &Wiring<'_>, own: &TableOwnStore<K, V>) -> Result<Self> {
        match own.get().filter(|token| wiring.has_store(&token.spec().name)) {
            Some(token) => Ok(TableOutput::Store(TableWriter::open(wiring, &token)?)),
            None => Ok(TableOutput::Forward {
                out: wiring.output()?,
                sends_old_values: wiring.sends_old_values(),
            }),
        }
    }

    pub(crate) fn sends_old_values(&self) -> bool {
        match self {
            TableOutput::Forward { sends_old_values, .. } => *sends_old_values,
            TableOutput::Store(writer) => writer.sends_old_values(),
        }
    }

    /// Sends a change on; `old` is dropped where nobody asked for it.
    pub(crate) fn send(&self, record: Record<K, Change<V>>) -> Result<(), Fault> {
        match self {
            TableOutput::Forward { out, sends_old_values: true } => out.send(record),
            TableOutput::Forward { out, sends_old_values: false } => {
                let Record { key, value, timestamp, headers } = record;
                out.send(Record { key, value: Change { old: None, ..value }, timestamp, headers })
            }
            TableOutput::Store(writer) => {
                let Record { key, value: Change { new, old, .. }, timestamp, headers } = record;
                writer.write(Record { key, value: new, timestamp, headers }, old)
            }
        }
    }
}
