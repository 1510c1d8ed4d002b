//! The store of a table as its operator sees it, and how its changes go on.
//!
//! With a record cache the store forwards the last change of a key at commit; without one the operator forwards every change at
//! once.

use super::Change;
use crate::error::Result;
use crate::record::{Headers, Record};
use crate::state::{StoreToken, TableChange, TimestampedKeyValueStore};
use crate::topology::erased::{Fault, Output, Wiring};
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};

/// The token of a table's store.
pub(crate) struct TableToken<K: 'static, V: 'static>(
    pub(crate) StoreToken<TimestampedKeyValueStore<K, V>>,
);

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

/// What became of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stored {
    /// The key has this value now.
    Latest,
}

/// The store of a table in a task.
pub(crate) struct TableStore<K, V>(TimestampedKeyValueStore<K, V>);

impl<K: 'static, V: 'static> TableStore<K, V> {
    pub(crate) fn open(
        token: &TableToken<K, V>,
        ctx: &crate::processor::InitContext<'_>,
    ) -> Result<Self> {
        Ok(TableStore(ctx.store(&token.0)?))
    }

    pub(crate) fn get(&self, key: &K) -> Result<Option<(V, i64)>> {
        self.0.get(key)
    }

    fn put(&self, key: &K, value: Option<&V>, timestamp: i64, headers: &Headers) -> Result<Stored> {
        self.0.put_at(key, value, timestamp, headers)?;
        Ok(Stored::Latest)
    }
}

/// Writes a table's changes to its store and sends them on.
pub(crate) struct TableWriter<K, V> {
    name: Arc<str>,
    store: TableStore<K, V>,
    /// The store forwards.
    is_cached: bool,
    sends_old_values: bool,
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
        let is_cached = store.0.forward_changes(forward, name.clone(), sends_old_values);
        Ok(TableWriter { name, store, is_cached, sends_old_values, out })
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

    /// Writes a value, or deletes; then the change goes on, here or at the next flush.
    pub(crate) fn write(&self, record: Record<K, Option<V>>, old: Option<V>) -> Result<(), Fault> {
        let Record { key, value: new, timestamp, headers } = record;
        let put = self.store.put(&key, new.as_ref(), timestamp, &headers);
        put.map_err(|error| Fault::at(&self.name, error))?;
        if self.is_cached {
            return Ok(());
        }
        let old = old.filter(|_| self.sends_old_values);
        let value = Change { new, old, is_latest: true };
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
        match own.get().filter(|token| wiring.has_store(&token.0.spec.name)) {
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
