//! How one operator reads another's table: Java's value getters.
//!
//! A table with a store is read there; one without is computed from the tables that it is made of. The operator that reads is
//! connected to the stores at the end of that chain, which brings both into one sub-topology.

use super::{TableStore, TableToken};
use crate::error::Result;
use crate::processor::InitContext;
use std::rc::Rc;
use std::sync::Arc;

/// A table that is read by key.
pub(crate) trait TableView<K, V> {
    /// The value and its time.
    fn get(&self, key: &K) -> Result<Option<(V, i64)>>;

    /// The same for a record of that time: the value then, if the table knows its past, else the value now.
    fn get_for(&self, key: &K, _timestamp: i64) -> Result<Option<(V, i64)>> {
        self.get(key)
    }
}

/// A view that operators of one task share.
pub(crate) type ViewRef<K, V> = Rc<dyn TableView<K, V>>;

/// Opens a view in a task.
pub(crate) type ViewFactory<K, V> =
    Arc<dyn Fn(&InitContext<'_>) -> Result<ViewRef<K, V>> + Send + Sync>;

/// A table to be read: the stores behind it and how it is opened.
pub(crate) struct View<K, V> {
    pub(crate) stores: Vec<Arc<str>>,
    pub(crate) open: ViewFactory<K, V>,
}

impl<K, V> Clone for View<K, V> {
    fn clone(&self) -> Self {
        View { stores: self.stores.clone(), open: self.open.clone() }
    }
}

impl<K: 'static, V: 'static> TableView<K, V> for TableStore<K, V> {
    fn get(&self, key: &K) -> Result<Option<(V, i64)>> {
        TableStore::get(self, key)
    }

    fn get_for(&self, key: &K, timestamp: i64) -> Result<Option<(V, i64)>> {
        TableStore::get_for(self, key, timestamp)
    }
}

/// The view of a table in its store.
pub(crate) fn store_view<K: 'static, V: 'static>(token: TableToken<K, V>) -> View<K, V> {
    View {
        stores: vec![token.spec().name.clone()],
        open: Arc::new(move |ctx| Ok(Rc::new(TableStore::open(&token, ctx)?))),
    }
}
